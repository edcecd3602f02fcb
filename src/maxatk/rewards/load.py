"""From the name of a reward to its function: loaded, and tested for how it can be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from maxatk.errors import InvalidValueError
from maxatk.functions import load_function
from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.model import ModelReward
from maxatk.rewards.reward import PROBLEM_COLUMNS, Part, Reward, RewardFunction
from maxatk.rewards.specification import RewardSpec, read_spec
from maxatk.verifier import AnyVerifier, CodeReward


def load_rewards(value: Any, *, selection: str | None, verifier: AnyVerifier) -> list[Reward]:
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


def load_reward(value: Any, *, verifier: AnyVerifier) -> Reward:
    """Return the reward that a recipe names; see `read_spec` for what `value` may be.

    `verifier` verifies programs where tests decide. Raises InvalidValueError for a value or a
    function that is not allowed, MissingFileError for a file that does not exist,
    MissingDependencyError without a package that is needed, all before any completion.
    """
    return Reward([_part(spec, verifier) for spec in read_spec(value)])


def _part(spec: RewardSpec, verifier: AnyVerifier) -> Part:
    if spec.kind in ("continuous", "binary"):
        code = CodeReward(verifier, binary=spec.kind == "binary")
        return Part(spec.name, code, spec.weight, check=_needs("tests"))
    if spec.kind == "visible_tests":
        check = _needs("visible_tests")
        return Part(spec.name, _share_of_visible(CodeReward(verifier)), spec.weight, check=check)
    if spec.kind == "answer":
        return Part(spec.name, answers := AnswerReward(), spec.weight, check=answers.check)
    if spec.kind == "model":
        model = ModelReward(spec.target)
        return Part(spec.name, model, spec.weight, spec.timeout_s, on_error=spec.on_error)
    function = load_function(spec.target, field="reward")
    accepts = _accepts(function, spec.target)
    return Part(spec.name, function, spec.weight, spec.timeout_s, accepts, spec.on_error, own=True)


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
