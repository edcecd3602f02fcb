"""From what a recipe says under `reward:` to its functions, loaded and tested for their calls."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import is_number, require
from maxatk.errors import InvalidValueError, suggestion, unknown_name
from maxatk.functions import load_function
from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.model import ModelReward
from maxatk.rewards.reward import (
    PROBLEM_COLUMNS,
    TIMEOUT_S,
    Part,
    Reward,
    RewardFunction,
    RewardSpec,
)
from maxatk.verifier import AnyVerifier, CodeReward

NAMED = ("continuous", "binary", "visible_tests", "answer")
ON_ERROR = ("stop", "zero", "drop")
_KEYS = ("reward", "model", "weight", "timeout_s", "on_error")
_ALLOWED = (
    f"{', '.join(NAMED)}, module:function, file.py:function, {{model: name}}, or a list of "
    "{reward: ..., weight: ...}"
)


def read_spec(value: Any) -> tuple[RewardSpec, ...]:
    """Return the parts of a reward; `value` is what a recipe holds under `reward`.

    Raises InvalidValueError for anything else than a name, a function, a model or a list of those
    with weights, and for two parts of one name.
    """
    specs = tuple(map(_read, value if isinstance(value, list) else [value]))
    names = [spec.name for spec in specs]
    if not 0 < len(names) == len(set(names)):
        raise InvalidValueError(
            f"reward: every part needs a name of its own, got {names}; allowed: {_ALLOWED}"
        )
    return specs


def _read(item: Any) -> RewardSpec:
    if isinstance(item, str):
        return _named(item)
    if not isinstance(item, Mapping) or ("reward" in item) == ("model" in item):
        raise InvalidValueError(f"reward: got {item!r}; allowed: {_ALLOWED}")
    for key in item:
        if key not in _KEYS:
            raise InvalidValueError(
                f"reward: unknown key {key!r}; allowed: {', '.join(_KEYS)}{suggestion(key, _KEYS)}"
            )
    spec = RewardSpec("model", item["model"]) if "model" in item else _named(item["reward"])
    require(isinstance(spec.target, str), "reward.model", "text", spec.target)
    weight, seconds = item.get("weight", 1.0), item.get("timeout_s", TIMEOUT_S)
    on_error = item.get("on_error", "stop")
    require(is_number(weight), "reward.weight", "a number", weight)
    positive = is_number(seconds) and seconds > 0
    require(positive, "reward.timeout_s", "a positive number", seconds)
    if on_error not in ON_ERROR:
        raise unknown_name("reward.on_error", str(on_error), ON_ERROR)
    if "on_error" in item and spec.kind in NAMED:
        raise InvalidValueError(
            f"reward.on_error: is for functions and models, got it for {spec.kind}"
        )
    return RewardSpec(spec.kind, spec.target, float(weight), float(seconds), on_error)


def _named(text: Any) -> RewardSpec:
    if text in NAMED:
        return RewardSpec(text, text)
    place, _, function = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not place or not function.isidentifier():
        hint = suggestion(str(text), NAMED)
        raise InvalidValueError(f"reward: unknown value {text!r}; allowed: {_ALLOWED}{hint}")
    return RewardSpec("function", text)


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


def load_rewards(value: Any, *, selection: str | None, verifier: AnyVerifier) -> list[Reward]:
    """Return the reward that a recipe names, and by itself the part of it that selects, if any.

    `selection` is the name of that part. Raises InvalidValueError where it names no part or the
    only one, and as `load_reward`.
    """
    whole = load_reward(value, verifier=verifier)
    if selection is None:
        return [whole]
    rewarded = [part for part in whole.parts if part.name != selection]
    if not 0 < len(rewarded) < len(whole.parts):
        raise InvalidValueError(
            f"trainer.selection: must name one of two or more parts of `reward`, got "
            f"{selection!r}; the parts are {', '.join(part.name for part in whole.parts)}"
        )
    return [Reward(rewarded), Reward([part for part in whole.parts if part.name == selection])]


def load_reward(value: Any, *, verifier: AnyVerifier) -> Reward:
    """Return the reward that a recipe names; see `read_spec` for what `value` may be.

    `verifier` verifies programs where tests decide. Raises InvalidValueError for a value or a
    function that is not allowed, MissingFileError for a file that does not exist,
    MissingDependencyError without a package that is needed, all before any completion.
    """
    return Reward([_part(spec, verifier) for spec in read_spec(value)])


def _part(spec: RewardSpec, verifier: AnyVerifier) -> Part:
    function: RewardFunction
    check: Callable[[Sequence[Problem]], None] | None = None
    if spec.kind in ("continuous", "binary"):
        function = CodeReward(verifier, binary=spec.kind == "binary")
        check = functools.partial(_refuse_without, "tests")
    elif spec.kind == "visible_tests":
        function = functools.partial(_share_of_visible, CodeReward(verifier))
        check = functools.partial(_refuse_without, "visible_tests")
    elif spec.kind == "answer":
        function = answers = AnswerReward()
        check = answers.check
    elif spec.kind == "model":
        function = ModelReward(spec.target)
    else:
        function = load_function(spec.target, field="reward")
        check = functools.partial(_refuse_columns, function, spec.target)
    # Rewards of this package have limits of their own, and no value where they fail.
    own = {"timeout_s": None, "on_error": "drop"} if spec.kind in NAMED else {}
    return Part(**{**vars(spec), **own}, function=function, check=check)


def _share_of_visible(
    reward: CodeReward,
    *,
    visible_tests: Sequence[Any],
    tests: Any,  # noqa: ARG001
    **columns: Any,
) -> list[float | None]:
    return reward(tests=visible_tests, **columns)


def _refuse_without(field: str, problems: Sequence[Problem]) -> None:
    for problem in problems:
        if not getattr(problem, field):
            raise InvalidValueError(
                f"Problem {problem.id!r}: has no {field}, which the reward of a program needs; "
                "`reward` may also be answer or a function of your own"
            )


def _refuse_columns(function: RewardFunction, target: str, problems: Sequence[Problem]) -> None:
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
