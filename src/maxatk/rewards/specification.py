"""From what a recipe says under `reward:` to a reward function."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, MissingFileError, suggestion
from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.model import ModelReward
from maxatk.rewards.reward import PROBLEM_COLUMNS, Part, Reward, RewardFunction
from maxatk.verifier import CodeReward, Verifier

NAMED = ("continuous", "binary", "answer")
TIMEOUT_S = 300.0
_KEYS = ("reward", "model", "weight", "timeout_s")
_ALLOWED = (
    f"{', '.join(NAMED)}, module:function, file.py:function, {{model: name}}, or a list of "
    "{reward: ..., weight: ...}"
)


@dataclasses.dataclass(frozen=True)
class RewardSpec:
    """One part of a reward as a recipe names it.

    `kind` is a name in `NAMED`, "function" or "model"; `target` is what a function or a model is
    called. `timeout_s` bounds one call of a function.
    """

    kind: str
    target: str
    weight: float = 1.0
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        """What the column of this part is called."""
        if self.kind == "model":
            return self.target
        return self.target.rpartition(":")[2]


def read_spec(value: Any) -> tuple[RewardSpec, ...]:
    """Return the parts of a reward; `value` is what a recipe holds under `reward`.

    Raises InvalidValueError for anything else than a name, a function, a model or a list of those
    with weights, and for two parts of one name.
    """
    items = value if isinstance(value, list) else [value]
    specs = tuple(_one(item) for item in items)
    names = [spec.name for spec in specs]
    repeated = [name for name in names if names.count(name) > 1]
    if not specs or repeated:
        raise InvalidValueError(
            f"reward: every part needs a name of its own, got {names}; allowed: {_ALLOWED}"
        )
    return specs


def _one(item: Any) -> RewardSpec:
    if isinstance(item, str):
        return _named(item)
    if not isinstance(item, Mapping) or ("reward" in item) == ("model" in item):
        raise InvalidValueError(f"reward: got {item!r}; allowed: {_ALLOWED}")
    for key in item:
        if key not in _KEYS:
            raise InvalidValueError(
                f"reward: unknown key {key!r}; allowed: {', '.join(_KEYS)}{suggestion(key, _KEYS)}"
            )
    if "model" in item:
        if not isinstance(item["model"], str):
            raise InvalidValueError(f"reward.model: must be text, got {item['model']!r}")
        spec = RewardSpec("model", item["model"])
    else:
        spec = _named(item["reward"])
    return dataclasses.replace(
        spec,
        weight=_number(item, "weight", 1.0),
        timeout_s=_number(item, "timeout_s", TIMEOUT_S, positive=True),
    )


def _named(text: Any) -> RewardSpec:
    if text in NAMED:
        return RewardSpec(text, text)
    place, colon, function = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not place or not function.isidentifier():
        hint = suggestion(str(text), NAMED)
        raise InvalidValueError(f"reward: unknown value {text!r}; allowed: {_ALLOWED}{hint}")
    return RewardSpec("function", text)


def _number(item: Mapping[str, Any], key: str, default: float, *, positive: bool = False) -> float:
    value = item.get(key, default)
    wrong = isinstance(value, bool) or not isinstance(value, (int, float))
    if wrong or (positive and value <= 0):
        wanted = "a positive number" if positive else "a number"
        raise InvalidValueError(f"reward.{key}: must be {wanted}, got {value!r}")
    return float(value)


def load_reward(value: Any, *, verifier: Verifier) -> Reward:
    """Return the reward that a recipe names; see `read_spec` for what `value` may be.

    `verifier` verifies programs where tests decide. Raises InvalidValueError for a value or a
    function that is not allowed, MissingFileError for a file that does not exist,
    MissingDependencyError without a package that is needed, all before any completion.
    """
    return Reward([_part(spec, verifier) for spec in read_spec(value)])


def describe_reward(value: Any) -> list[dict[str, Any]]:
    """Return what identifies a reward for the record of a run: its parts and their sources."""
    described = []
    for spec in read_spec(value):
        row = dataclasses.asdict(spec)
        path = Path(spec.target.rpartition(":")[0])
        if spec.kind == "function" and path.suffix == ".py" and path.is_file():
            row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        described.append(row)
    return described


def _part(spec: RewardSpec, verifier: Verifier) -> Part:
    if spec.kind in ("continuous", "binary"):
        code = CodeReward(verifier, binary=spec.kind == "binary")
        return Part(spec.name, code, spec.weight, check=_needs_tests)
    if spec.kind == "answer":
        answers = AnswerReward()
        return Part(spec.name, answers, spec.weight, check=answers.check)
    if spec.kind == "model":
        return Part(spec.name, ModelReward(spec.target), spec.weight, spec.timeout_s)
    function = load_function(spec.target)
    return Part(spec.name, function, spec.weight, spec.timeout_s, _accepts(function, spec.target))


def _needs_tests(problems: Sequence[Problem]) -> None:
    for problem in problems:
        if not problem.tests:
            raise InvalidValueError(
                f"Problem {problem.id!r}: has no tests, which the reward of a program needs; "
                "`reward` may also be answer or a function of your own"
            )


def load_function(target: str) -> RewardFunction:
    """Return the function that `module:function` or `file.py:function` names.

    Raises MissingFileError without the file, InvalidValueError where it cannot be imported or has
    no such function.
    """
    place, _, name = target.rpartition(":")
    try:
        module = (
            _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except MissingFileError:
        raise
    except Exception as error:  # whatever the module raises when it is imported
        raise InvalidValueError(
            f"reward: {place!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, value in vars(module).items() if callable(value) and n[0] != "_"]
        raise InvalidValueError(
            f"reward: {place!r} has no function {name!r}{suggestion(name, known)}"
        )
    found: RewardFunction = function
    return found


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise MissingFileError(f"reward: {str(path)!r} does not exist")
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"maxatk_reward_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a module up by its name
    spec.loader.exec_module(module)
    return module


def _accepts(function: RewardFunction, target: str) -> Callable[[Sequence[Problem]], None]:
    def check(problems: Sequence[Problem]) -> None:
        columns = {*PROBLEM_COLUMNS, *(name for problem in problems for name in problem.meta)}
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # a builtin: only a call would tell
            return
        try:
            signature.bind(prompts=[], completions=[], **dict.fromkeys(columns))
        except TypeError as error:
            raise InvalidValueError(
                f"reward: {target!r} cannot be called as function(prompts=..., completions=..., "
                f"**columns): {error}; the columns are {', '.join(sorted(columns))}, and a last "
                "parameter **_ takes those that are not used"
            ) from error

    return check
