"""From the name of a reward to its function: loaded, and tested for how it can be called."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, MissingFileError, suggestion
from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.model import ModelReward
from maxatk.rewards.reward import PROBLEM_COLUMNS, Part, Reward, RewardFunction
from maxatk.rewards.specification import RewardSpec, read_spec
from maxatk.settings import find_recipe
from maxatk.verifier import CodeReward, Verifier


def load_rewards(value: Any, *, selection: str | None, verifier: Verifier) -> list[Reward]:
    """Return the reward that a recipe names, and by itself the part of it that selects, if any.

    `selection` is the name of that part. Raises InvalidValueError where it names no part or the
    only one, and as `load_reward`.
    """
    if selection is None:
        return [load_reward(value, verifier=verifier)]
    parts = load_reward(value, verifier=verifier).parts
    rewarded = [part for part in parts if part.name != selection]
    if not 0 < len(rewarded) < len(parts):
        raise InvalidValueError(
            f"trainer.selection: must name one of two or more parts of `reward`, got "
            f"{selection!r}; the parts are {', '.join(part.name for part in parts)}"
        )
    return [Reward(rewarded), Reward([part for part in parts if part.name == selection])]


def load_reward(value: Any, *, verifier: Verifier) -> Reward:
    """Return the reward that a recipe names; see `read_spec` for what `value` may be.

    `verifier` verifies programs where tests decide. Raises InvalidValueError for a value or a
    function that is not allowed, MissingFileError for a file that does not exist,
    MissingDependencyError without a package that is needed, all before any completion.
    """
    return Reward([_part(spec, verifier) for spec in read_spec(value)])


def _part(spec: RewardSpec, verifier: Verifier) -> Part:
    if spec.kind in ("continuous", "binary"):
        code = CodeReward(verifier, binary=spec.kind == "binary")
        return Part(spec.name, code, spec.weight, check=_needs("tests"))
    if spec.kind == "visible_tests":
        check = _needs("visible_tests")
        return Part(spec.name, _share_of_visible(CodeReward(verifier)), spec.weight, check=check)
    if spec.kind == "answer":
        answers = AnswerReward()
        return Part(spec.name, answers, spec.weight, check=answers.check)
    if spec.kind == "model":
        return Part(spec.name, ModelReward(spec.target), spec.weight, spec.timeout_s)
    function = load_function(spec.target)
    return Part(spec.name, function, spec.weight, spec.timeout_s, _accepts(function, spec.target))


def _share_of_visible(reward: CodeReward) -> RewardFunction:
    def share(*, visible_tests: Sequence[Any], tests: Any, **columns: Any) -> list[float | None]:  # noqa: ARG001
        return reward(tests=visible_tests, **columns)

    return share


def _needs(field: str) -> Callable[[Sequence[Problem]], None]:
    def check(problems: Sequence[Problem]) -> None:
        for problem in problems:
            if not getattr(problem, field):
                raise InvalidValueError(
                    f"Problem {problem.id!r}: has no {field}, which the reward of a program needs; "
                    "`reward` may also be answer or a function of your own"
                )

    return check


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
    try:
        path = find_recipe(path)  # or one that comes with the package
    except MissingFileError:
        raise MissingFileError(f"reward: {str(path)!r} does not exist") from None
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
