"""Rollout batches: what one is as a value, its rewards, and how it is drawn in TRL's methods."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Hashable, Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing

from maxatk.check import require
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.functions import load_function
from maxatk.objectives.best_of import MARK
from maxatk.objectives.objective import Objective
from maxatk.rewards import Reward
from maxatk.statistics.symptoms import WITHOUT
from maxatk.train import loop
from maxatk.train.log import Clock
from maxatk.train.record import tested
from maxatk.verifier import CodeReward, quick_turns


@dataclasses.dataclass(frozen=True)
class Rollout:
    """The groups of a rollout batch of all processes: arrays are (P, n)."""

    rewards: np.ndarray  # NaN for a sample without one
    selection: np.ndarray | None  # the scores that select
    answers: np.ndarray | None  # numbers of them
    k: int  # which no schedule moves once the batch is drawn
    step: int = -1  # the optimizer step whose policy the advantages in the buffer belong to
    whole: bool = False  # whether every micro-batch holds whole groups

    def at(self, rows: np.ndarray) -> Rollout:
        """Return the groups whose samples are these rows, in the order of the rows."""
        columns = {n: x for n, x in vars(self).items() if isinstance(x, np.ndarray)}
        shape = (-1, self.rewards.shape[1])
        chosen: dict[str, Any] = {n: x.ravel()[rows].reshape(shape) for n, x in columns.items()}
        return dataclasses.replace(self, **chosen)

    def advantages(
        self, objective: Objective, *, log_ratios: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the advantages (P, n); `log_ratios` (P, n) are in nats, None where all are 0."""
        beside = {"selection": self.selection, "answers": self.answers}
        return objective.advantages(self.rewards, self.k, log_ratios=log_ratios, **beside)


def refuse_best_of(functions: Sequence[Any]) -> None:
    """Raise InvalidValueError for a reward function that makes advantages by itself."""
    for function in functions:
        if hasattr(function, MARK):
            raise InvalidValueError(
                f"reward_funcs: {function.__name__} is a reward of maxatk.best_of, which makes "
                "advantages, as this trainer does; allowed: the reward that best_of was given"
            )


class Scored(NamedTuple):
    """The scores (rows, functions) and texts of all processes, and what tests said of each."""

    scores: torch.Tensor
    texts: list[str]
    tested: list[Any]
    masked: list[bool]  # whether a sample is cut off and out of the loss for it


class RolloutTrainer(GRPOTrainer):
    """TRL's trainer whose samples and rewards are drawn here, by `rollouts`: own, trl or vllm.

    With "own" the functions of this package that run tests verify completions while others are
    still sampled, and wait for the verdicts when TRL calls them.
    """

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._clock, self._objective = Clock(), self.args.objective
        # TRL 1.14 knows the tokenizer's end token alone.
        self._ends = getattr(self, "eos_token_ids", [self._tokenizer.eos_token_id])
        self._own = loop.own_settings(self)
        self.rollouts = "own" if self._own else "vllm" if self.args.use_vllm else "trl"
        refuse_best_of(self.reward_funcs)
        self._selecting: int | None = None  # the function whose scores select
        if (name := self.args.selection) is not None:
            names = list(self.reward_func_names)
            if name not in names:
                raise unknown_name("selection", name, names)
            allowed = "one of several reward functions, whose others are the reward"
            require(len(names) > 1, "selection", allowed, name)
            self._selecting = names.index(name)
            self.reward_weights[self._selecting] = 0.0  # also in what TRL logs as the reward
        answers = self.args.answers
        self._answer = answers and load_function(answers, field="answers")
        # Where TRL makes more of a completion than its text, nothing is known of it before.
        parsers = ("response_template", "response_schema")
        parsed = any(getattr(self._tokenizer, name, None) for name in parsers)
        early = self.reward_funcs if self._own and not (parsed or self.tools) else []
        parts = [f.by_tests if isinstance(f, Reward) else [f] for f in early]
        self._early = [f for some in parts for f in some if isinstance(f, CodeReward)]
        self._starts: list[Callable[..., None]] = []  # empty outside of a rollout batch
        if self.args.groups_with_signal:
            _refuse_irreplaceable(self.train_dataset, self.environment_factories)
        self._rows: list[Any] = []  # of the data set, whose completions are being drawn
        self._scored: Scored | None = None  # of the batch being drawn

    @property
    def _mode_metrics(self) -> Any:
        return self._metrics["train" if self.model.training else "eval"]

    def _draw(self, rows: list[Any]) -> tuple[Rollout, Scored, dict[str, Any]]:
        """Return a rollout batch, its scores, and what TRL returns for the rows of this process."""
        self._rows, self._scored = rows, None
        with quick_turns(), contextlib.ExitStack() as stack:
            self._starts = [stack.enter_context(function.ahead()) for function in self._early]
            stack.callback(self._starts.clear)
            output = super()._generate_and_score_completions(rows)
        assert self._scored is not None  # TRL has called `_calculate_rewards`
        rollout = self._groups(self._scored)
        unscored = np.isnan(rollout.rewards).reshape(-1) & ~np.array(self._scored.masked)
        self._mode_metrics[WITHOUT].append(float(unscored.mean()))
        return rollout, self._scored, output

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        generated: tuple[Any, ...] = super()._generate(prompts)
        if not (self.args.groups_with_signal and self.model.training):
            return generated
        seconds = self._mode_metrics["seconds/verification"]
        first = len(seconds)
        self._scored = self._fill(prompts, generated)
        seconds[first:] = [sum(seconds[first:])]  # of all the draws of the rollout batch
        return generated

    def _generate_single_turn(self, prompt_ids: list[Any], *args: Any, **kwargs: Any) -> Any:
        if self._own is None:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            found = loop.draw(
                self.accelerator.unwrap_model(self.model_wrapped),
                prompt_ids,
                settings=self._own,
                end_tokens=self._ends,
                ended=self._ended,
            )
        return found, None

    def _ended(self, place: int, ids: Sequence[int]) -> None:
        """Start the verification of the completion (its ids) of a row, given by its place."""
        text = self._tokenizer.decode(ids, skip_special_tokens=True) if self._starts else ""
        for start in self._starts:
            start(text, self._rows[place])

    def _calculate_rewards(self, *rows: Any) -> torch.Tensor:
        if self._scored is None:  # otherwise they are known from the search for a signal
            self._scored = self._score(*rows)
        return self._scored.scores

    def _score(self, *rows: Any) -> Scored:
        """Return what the rows of all processes came to, for the arguments of TRL's method."""
        with self._clock.measure("verification", self._mode_metrics):
            scores = super()._calculate_rewards(*rows)
        texts = gather_object([str(text) for text in rows[2]])
        ends, masks = (*self._ends, self._tokenizer.pad_token_id), self.mask_truncated_completions
        masked = gather_object([masks and ids[-1] not in ends for ids in rows[3]])
        return Scored(scores, texts, gather_object(tested(rows[0], self.reward_funcs)), masked)

    def _fill(self, prompts: list[Any], generated: tuple[Any, ...]) -> Scored:
        """Put groups of other prompts where groups have no signal; all processes decide alike."""
        process, n = self.accelerator.process_index, self.num_generations
        local = (self._rows, prompts, generated)
        kept, signal = self._score_draw(*local)
        drawn, found = signal.size, int(signal.sum())
        bound = drawn * self.args.max_prompt_draws
        while not signal.all() and drawn < bound:
            lacking = int((~signal).sum(axis=1).max())  # of the process that lacks most
            shape = (len(signal), min(lacking, (bound - drawn) // len(signal)))
            # The tokens are those of all processes so far, which a checkpoint has.
            moment = self.args.seed, self.state.num_input_tokens_seen
            places = more_prompts(len(self.train_dataset), shape, moment)[process]
            rows = [self.train_dataset[int(place)] for place in places]
            self._rows = [dict(row) for row in rows for _ in range(n)]
            again = [row["prompt"] for row in self._rows]
            others = (self._rows, again, super()._generate(again))
            fresh, fresh_signal = self._score_draw(*others)
            for index, to, source in moves(signal, fresh_signal):
                signal[index, to] = True
                if index == process:
                    _replace(local, others, to * n, source * n, n)
                to, source = to * n + index * len(prompts), source * n + index * len(again)
                _replace(kept, fresh, to, source, n)
                kept.scores[to : to + n] = fresh.scores[source : source + n]
            drawn, found = drawn + fresh_signal.size, found + int(fresh_signal.sum())
        self._metrics["train"]["prompts/drawn"].append(float(drawn))
        self._metrics["train"]["prompts/with_signal"].append(found / drawn)
        return kept

    def _score_draw(
        self, rows: list[Any], prompts: list[Any], generated: tuple[Any, ...]
    ) -> tuple[Scored, np.ndarray]:
        """Return scores, and which groups have an advantage that trains, (processes, groups)."""
        for name, values in generated[5].items():  # of a rollout function, as TRL hands them on
            given = values if isinstance(values, list) else [values] * len(rows)
            for row, value in zip(rows, given, strict=False):
                row[name] = value
        scored = self._score(rows, prompts, generated[3], generated[1])
        trained = self._groups(scored).advantages(self._objective) != 0
        trained &= ~np.array(scored.masked).reshape(trained.shape)
        return scored, trained.any(axis=1).reshape(self.accelerator.num_processes, -1)

    def _groups(self, found: Scored) -> Rollout:
        """Return the rollout batch of what was found of all processes."""
        n = self.num_generations if self.model.training else self.num_generations_eval
        rewarded = [place for place in range(found.scores.size(1)) if place != self._selecting]
        scores = found.scores[:, rewarded]
        sums = (scores * self.reward_weights[None].to(scores.device)[:, rewarded]).nansum(dim=1)
        sums[scores.isnan().all(dim=1)] = torch.nan
        rewards, selection = sums.double().cpu().numpy(), None
        if self._objective.needs_ratios:
            rewards[found.masked] = np.nan  # what is cut off has no log-probability
        if self._selecting is not None:
            selection = found.scores[:, self._selecting].double().cpu().numpy().reshape(-1, n)
        answers = None if self._answer is None else self._answers(found.texts).reshape(-1, n)
        k = self._objective.k_at(self.state.global_step / max(self.state.max_steps, 1))
        return Rollout(rewards.reshape(-1, n), selection, answers, k)

    def _answers(self, texts: Sequence[str]) -> np.ndarray:
        """Return a number for the answer of every text, equal for equal answers."""
        seen: dict[Hashable, int] = {}
        numbers = []
        for text in texts:
            try:
                answer = self._answer(text)
                known = None if answer != answer else answer  # NaN as None
                numbers.append(seen.setdefault(known, len(seen)))
            except Exception as error:  # of a function of the user, or of an answer without a hash
                raise InvalidValueError(
                    f"answers: {self.args.answers!r} must return a hashable answer to every text, "
                    f"and failed on {text[:200]!r}: {type(error).__name__}: {error}"
                ) from error
        return np.array(numbers)


def _refuse_irreplaceable(dataset: Any, environments: Any) -> None:
    """Raise InvalidValueError for data from which no other prompt can be drawn by its row alone."""
    given = {
        "a train_dataset with a length": isinstance(dataset, Sized),
        "no environments": not environments,
        "no images": not {"image", "images"} & set(dataset.column_names or ()),
    }
    for needed in (name for name, holds in given.items() if not holds):
        raise InvalidValueError(f"groups_with_signal: True needs {needed}; allowed without: False")


def moves(signal: np.ndarray, fresh: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield a process, one of its groups without a signal, and one with it for its place."""
    for process, (own, other) in enumerate(zip(signal, fresh, strict=True)):
        places = zip(np.flatnonzero(~own).tolist(), np.flatnonzero(other).tolist(), strict=False)
        yield from ((process, to, source) for to, source in places)


def more_prompts(prompts: int, shape: tuple[int, int], moment: tuple[int, ...]) -> np.ndarray:
    """Return random places in a data set of `prompts` rows, (processes, groups), at a `moment`."""
    generator, count = np.random.default_rng(moment), math.prod(shape)
    return generator.choice(prompts, size=count, replace=count > prompts).reshape(shape)


def _replace(value: Any, other: Any, to: int, source: int, count: int) -> None:
    """Put rows of another list into a list; of a mapping or tuple into every list, else nowhere."""
    if isinstance(value, dict):
        for name, item in value.items():
            _replace(item, other.get(name), to, source, count)
    elif isinstance(value, tuple):
        for item, others in zip(value, other, strict=True):
            _replace(item, others, to, source, count)
    elif isinstance(value, list) and value:
        value[to : to + count] = other[source : source + count]
