"""From what a recipe says under `reward:` to its functions, loaded and checked."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maxatk.check import LARGEST, is_number, needing, one_of, require
from maxatk.errors import InvalidValueError, suggestion
from maxatk.functions import load_function
from maxatk.models import refuse_missing_model
from maxatk.named_files import digest_of_file
from maxatk.python_numbers import with_python_numbers
from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.boxes import Boxed
from maxatk.rewards.reward import PROBLEM_COLUMNS, Reward, RewardFunction, RewardPart, RewardSpec
from maxatk.settings import from_mapping, refuse_unknown
from maxatk.verifier import CodeReward, Verifier

NAMED = ("continuous", "binary", "visible_tests", "answer")
ON_ERROR = ("stop", "zero", "drop")
_BATCH = 16  # texts for a reward model
_KINDS = ("reward", "model", "answer")
_KEYS = (*_KINDS, "weight", "timeout_s", "on_error")
_ALLOWED = (
    f"{', '.join(NAMED)}, module:function, file.py:function, {{model: name}}, "
    "{answer: {boxed: required}}, or a list of {reward: ..., weight: ...}"
)


def read_spec(value: Any) -> tuple[RewardSpec, ...]:
    """Return the parts of a recipe's `reward`; raise InvalidValueError for what is not allowed."""
    value = with_python_numbers(value)
    specs = tuple(map(_read, value if isinstance(value, list) else [value]))
    names = [spec.name for spec in specs]
    if not 0 < len(names) == len(set(names)):
        raise InvalidValueError(
            f"reward: every part needs a name of its own, got {names}; allowed: {_ALLOWED}"
        )
    return specs


def _read(item: Any) -> RewardSpec:
    """Return one part of a recipe's `reward`, a name or a mapping."""
    if isinstance(item, str):
        return _named(item)
    if not isinstance(item, Mapping) or sum(kind in item for kind in _KINDS) != 1:
        raise InvalidValueError(f"reward: got {item!r}; allowed: {_ALLOWED}")
    refuse_unknown(item, _KEYS, where="reward")
    if "model" in item:
        spec = RewardSpec("model", item["model"])
        require(isinstance(spec.target, str), "reward.model", "text", spec.target)
    elif "answer" in item:
        settings = from_mapping(_AnswerSettings, item["answer"] or {}, where="reward.answer")
        boxed = None if settings.boxed == "preferred" else settings.boxed
        spec = RewardSpec("answer", "answer", boxed=boxed)
    else:
        spec = _named(item["reward"])
    weight = item.get("weight", spec.weight)
    seconds = item.get("timeout_s", spec.timeout_s)
    on_error = item.get("on_error", spec.on_error)
    is_weight = is_number(weight) and abs(weight) <= LARGEST
    allowed = f"a finite number of at most {LARGEST:g} in size"
    require(is_weight, "reward.weight", allowed, weight)
    is_positive = is_number(seconds) and seconds > 0
    require(is_positive, "reward.timeout_s", "a positive number", seconds)
    one_of("reward.on_error", on_error, ON_ERROR)
    if spec.kind in NAMED:
        _refuse_what_is_for_functions(item, spec.kind)
    return dataclasses.replace(
        spec, weight=float(weight), timeout_s=float(seconds), on_error=on_error
    )


def _refuse_what_is_for_functions(item: Mapping[str, Any], kind: str) -> None:
    """Raise InvalidValueError for a limit that a reward of this package would not keep."""
    for key in ("timeout_s", "on_error"):
        if key in item:
            raise InvalidValueError(f"reward.{key}: is for functions and models, got it for {kind}")


@dataclasses.dataclass(frozen=True)
class _AnswerSettings:
    boxed: Boxed = "preferred"


def _named(text: Any) -> RewardSpec:
    """Return the part that is a name of `NAMED`, module:function or file.py:function."""
    if text in NAMED:
        return RewardSpec(text, text)
    if isinstance(text, str):
        module, _, function = text.rpartition(":")
        if module and function.isidentifier():
            return RewardSpec("function", text)
    hint = suggestion(str(text), NAMED)
    raise InvalidValueError(f"reward: unknown value {text!r}; allowed: {_ALLOWED}{hint}")


def describe_reward(value: Any) -> list[dict[str, Any]]:
    """Return the parts of a reward for the record of a run, with the hashes of their files."""
    parts = [dataclasses.asdict(spec) for spec in read_spec(value)]
    for part in parts:
        if part["boxed"] is None:
            del part["boxed"]
        digest = digest_of_file(part["target"]) if part["kind"] == "function" else None
        if digest is not None:
            part["sha256"] = digest
    return parts


def load_rewards(
    value: Any, *, selection: str | None, verifier: Verifier, columns: Sequence[str] = ()
) -> list[Reward]:
    """Return the reward that a recipe names; with `selection` that part is a reward of its own.

    Raises InvalidValueError where that names no part or the only one, and as `load_reward`.
    """
    reward = load_reward(value, verifier=verifier, columns=columns)
    if selection is None:
        return [reward]
    parts = {part.name: part for part in reward.parts}
    if selection not in parts or len(parts) < 2:
        raise InvalidValueError(
            f"trainer.selection: must name one of two or more parts of `reward`, got "
            f"{selection!r}; the parts are {', '.join(parts)}"
        )
    selecting = parts.pop(selection)
    return [Reward(list(parts.values())), Reward([selecting])]


def load_reward(value: Any, *, verifier: Verifier, columns: Sequence[str] = ()) -> Reward:
    """Return the reward that a recipe names, whose tests `verifier` runs; see `read_spec`.

    `columns` are those that functions get beside the ones of the problems.

    Raises InvalidValueError for a value or a function that is not allowed, MissingFileError for a
    file that does not exist, MissingDependencyError without a package that is needed.
    """
    require(isinstance(verifier, Verifier), "verifier", "a Verifier", verifier)
    return Reward([_part(spec, verifier, columns) for spec in read_spec(value)])


def _part(spec: RewardSpec, verifier: Verifier, columns: Sequence[str]) -> RewardPart:
    """Return the function of a part, and the check of the problems that it needs."""
    function: RewardFunction
    check: Callable[[Sequence[Problem]], None] | None = None
    if spec.kind == "answer":
        answers = AnswerReward(
            boxed=spec.boxed or "preferred",
            unfinished_thought=verifier.unfinished_thought,
            workers=verifier.workers,
        )
        function = answers
        check = answers.check
    elif spec.kind == "model":
        function = ModelReward(spec.target)
    elif spec.kind == "function":
        function = load_function(spec.target, field="reward")
        check = functools.partial(_refuse_columns, function, spec.target, columns)
    elif spec.kind == "visible_tests":
        function = functools.partial(_share_of_visible, CodeReward(verifier))
        check = functools.partial(_refuse_without, "visible_tests", verifier)
    else:
        function = CodeReward(verifier, binary=spec.kind == "binary")
        check = functools.partial(_refuse_without, "tests", verifier)
    fields = vars(spec)
    if spec.kind in NAMED:
        # Rewards of this package have limits of their own, and no value where they fail.
        fields = {**fields, "timeout_s": None, "on_error": "drop"}
    refuses_unfinished = spec.kind in NAMED and verifier.unfinished_thought == "wrong"
    return RewardPart(
        **fields, function=function, check=check, refuses_unfinished=refuses_unfinished
    )


def _share_of_visible(reward: CodeReward, *, visible_tests: Any, **columns: Any) -> Any:
    return reward(**{**columns, "tests": visible_tests})


def _refuse_without(field: str, verifier: Verifier, problems: Sequence[Problem]) -> None:
    verifier.refuse_problems(problems)
    for problem in problems:
        if not getattr(problem, field):
            raise InvalidValueError(
                f"Problem {problem.id!r}: has no {field}, which the reward of a program needs; "
                "`reward` may also be answer or a function of your own"
            )


def _refuse_columns(
    function: RewardFunction, target: str, others: Sequence[str], problems: Sequence[Problem]
) -> None:
    of_meta = (name for problem in problems for name in problem.meta)
    columns = {*PROBLEM_COLUMNS, *of_meta, *others}
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


class ModelReward:
    """A reward function in TRL's shape: the output of a reward model on prompt and completion.

    `model` is a hub name or a local folder of a sequence classifier with one label, loaded at the
    first call, which raises InvalidValueError for other outputs. Text goes in as prompt +
    completion, messages through the model's chat template. Raises MissingFileError for no folder.
    """

    def __init__(self, model: str) -> None:
        refuse_missing_model(model)
        self._loaded = functools.cache(functools.partial(_load, model))

    def __call__(
        self, prompts: Sequence[Any] = (), completions: Sequence[Any] = (), **_unused: Any
    ) -> list[float | None]:
        """Return one number a completion, in the unit of the model's output."""
        model, tokenizer = self._loaded()
        import torch

        texts = [
            _text(prompt, completion, tokenizer)
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
        rewards: list[float | None] = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            inputs = tokenizer(batch, return_tensors="pt", padding=True).to(model.device)
            with torch.inference_mode():
                rewards += model(**inputs).logits[:, 0].float().tolist()
        return rewards


def _load(name: str) -> tuple[Any, Any]:
    """Return a reward model, on a GPU where there is one, and its tokenizer."""
    with needing("a reward model needs torch and transformers: pip install 'maxatk[eval]'"):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    model = AutoModelForSequenceClassification.from_pretrained(name)
    if model.config.num_labels != 1:
        raise InvalidValueError(
            f"reward.model: {name!r} has {model.config.num_labels} outputs; a reward model has one"
        )
    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), tokenizer


def _text(prompt: Any, completion: Any, tokenizer: Any) -> Any:
    """Return what the model reads: plain text, or messages in the form of its chat template."""
    if isinstance(prompt, str) and isinstance(completion, str):
        return prompt + completion
    messages: list[Any] = []
    for role, turn in (("user", prompt), ("assistant", completion)):
        messages += [{"role": role, "content": turn}] if isinstance(turn, str) else turn
    return tokenizer.apply_chat_template(messages, tokenize=False)
