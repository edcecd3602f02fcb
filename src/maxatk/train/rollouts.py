"""Rollout batches: what one is as a value, and how it is drawn inside TRL's own method.

TRL samples and scores in `_generate_and_score_completions`. `Rollouts.draw` has it do so and gives
back a `Rollout`. In between TRL calls three methods of the trainer that are handed on to here:
`_generate` (`generate`), `_generate_single_turn` (`complete`), `_calculate_rewards` (`score`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object
from trl.models.utils import disable_gradient_checkpointing

from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Beside, Objective
from maxatk.statistics.symptoms import WITHOUT
from maxatk.train.log import Clock
from maxatk.train.loop import own_loop
from maxatk.train.record import tested
from maxatk.train.reward_functions import RewardFunctions


@dataclasses.dataclass(frozen=True)
class Rollout:
    """The groups of a rollout batch of all processes, and what TRL's buffer holds of them.

    `rewards` are (P, n), NaN for a sample without one, and so are the values `beside` them. No
    schedule moves the `k` of a batch that is drawn. A checkpoint is without the completions,
    `texts` (P * n,), and what tests said of them.
    """

    rewards: np.ndarray
    beside: Beside
    k: int
    texts: Sequence[str] = ()
    tested: Sequence[Any] = ()
    step: int = -1  # the optimizer step whose policy the advantages in the buffer belong to
    whole: bool = False  # whether every micro-batch holds whole groups

    def at(self, rows: np.ndarray) -> Rollout:
        """Return the groups whose samples are these rows, in the order of the rows."""
        rewards = self.rewards.reshape(-1)[rows].reshape(-1, self.rewards.shape[1])
        return dataclasses.replace(
            self, rewards=rewards, beside=self.beside.at(rows, rewards.shape), texts=(), tested=()
        )

    def advantages(
        self, objective: Objective, *, log_ratios: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the advantages (P, n); `log_ratios` (P, n) are in nats, None where all are 0."""
        return objective.advantages(self.rewards, self.k, log_ratios=log_ratios, beside=self.beside)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        beside = (self.beside.selection, self.beside.answers)
        return {
            "rewards": torch.from_numpy(self.rewards),
            "beside": [None if values is None else torch.from_numpy(values) for values in beside],
            **{name: getattr(self, name) for name in ("k", "step", "whole")},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Rollout:
        """Return the rollout batch of what `state` returned."""
        beside = (None if values is None else values.cpu().numpy() for values in state["beside"])
        arrays = {"rewards": state["rewards"].cpu().numpy(), "beside": Beside(*beside)}
        return cls(**{**state, **arrays})


class Scored(NamedTuple):
    """The scores (rows, functions) and texts of all processes, and what tests said of each."""

    scores: torch.Tensor
    texts: list[str]
    tested: list[Any]


class Draw(NamedTuple):
    """Rows of one process, what TRL's `_generate` returned for them, and scores of all."""

    rows: list[Any]
    prompts: list[Any]
    generated: tuple[Any, ...]
    scored: Scored


class Rollouts:
    """Draws the rollout batches of a trainer: samples, their rewards, groups with a signal.

    `trl` is the trainer with TRL's own methods, its `super()`. `source` says who draws: "own",
    "trl" or "vllm". Raises InvalidValueError for settings that this trainer cannot follow.
    """

    def __init__(self, trainer: Any, trl: Any, clock: Clock) -> None:
        self._trainer, self._trl, self._args, self._clock = trainer, trl, trainer.args, clock
        self._objective = trainer.args.objective
        # TRL 1.14 knows the tokenizer's end token alone.
        end = getattr(trainer, "eos_token_ids", [trainer._tokenizer.eos_token_id])
        self._cut_unless = {*end, trainer._tokenizer.pad_token_id}
        self._loop = own_loop(trainer, end_tokens=end)
        self.source = "own" if self._loop else "vllm" if self._args.use_vllm else "trl"
        self._functions = RewardFunctions(trainer, early=self._loop is not None)
        if self._args.groups_with_signal:
            _refuse_irreplaceable(trainer.train_dataset, trainer.environment_factories)
        self._rows: list[Any] = []  # of the data set, whose completions are being drawn
        self._scored: Scored | None = None  # of the batch being drawn

    @property
    def _metrics(self) -> Any:
        return self._trainer._metrics["train" if self._trainer.model.training else "eval"]

    def draw(
        self, rows: list[Any], sample: Callable[[list[Any]], dict[str, Any]]
    ) -> tuple[Rollout, dict[str, Any]]:
        """Return a rollout batch, and what TRL's `sample` returns for the rows of this process."""
        self._rows, self._scored = rows, None
        with self._functions.rollout_batch():
            output = sample(rows)
        assert self._scored is not None  # TRL has called `score`
        masked = None
        if self._args.mask_truncated_completions:
            local = output["completion_mask"].sum(dim=1) == 0
            masked = self._trainer.accelerator.gather(local).cpu().numpy()
        rollout = self._rollout(self._scored, masked)
        missing = np.isnan(rollout.rewards).reshape(-1)
        unscored = missing if masked is None else missing & ~masked
        self._metrics[WITHOUT].append(float(unscored.mean()))
        return rollout, output

    def generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Return what TRL generates for prompts, with groups drawn again for a signal if asked."""
        generated: tuple[Any, ...] = self._trl._generate(prompts)
        if not (self._args.groups_with_signal and self._trainer.model.training):
            return generated
        seconds = self._metrics["seconds/verification"]
        first = len(seconds)
        draw = self._scored_draw(prompts, generated)
        self._fill(draw)
        seconds[first:] = [sum(seconds[first:])]  # of all the draws of the rollout batch
        self._scored = draw.scored
        return draw.generated

    def complete(self, prompt_ids: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Return completions, of the package's own loop where it samples."""
        if self._loop is None:
            return self._trl._generate_single_turn(prompt_ids, *args, **kwargs)
        trainer = self._trainer
        checkpointing = self._args.gradient_checkpointing_kwargs
        with disable_gradient_checkpointing(trainer.model, checkpointing):
            model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
            found = self._loop.draw(
                model,
                prompt_ids,
                ended=lambda place, ids: self._functions.ended(self._rows[place], ids),
            )
            return found, None

    def score(self, *rows: Any) -> torch.Tensor:
        """Return the scores (all rows, functions) of TRL's rows, unless they are known already."""
        if self._scored is None:
            self._scored = self._score(*rows)
        return self._scored.scores

    def _score(self, *rows: Any) -> Scored:
        """Return what the rows of all processes came to; see `_calculate_rewards`."""
        with self._clock.measure("verification", self._metrics):
            scores = self._trl._calculate_rewards(*rows)
        texts = gather_object([str(text) for text in rows[2]])
        known = self._args.log_groups > 0
        told = tested(rows[0], self._trainer.reward_funcs) if known else [None] * len(rows[0])
        return Scored(scores, texts, gather_object(told))

    def _scored_draw(self, prompts: list[Any], generated: tuple[Any, ...]) -> Draw:
        scored = self._score(self._rows, prompts, generated[3], generated[1])
        return Draw(self._rows, prompts, generated, scored)

    def _fill(self, draw: Draw) -> None:
        """Put groups of other prompts, drawn now, where groups of a draw have no signal.

        All is decided by scores of all processes and numbers that all have: each decides the same.
        """
        trainer, args = self._trainer, self._args
        micro_batch = trainer._step % args.gradient_accumulation_steps
        moment = (args.seed, trainer.state.global_step, micro_batch)
        process, prompts = trainer.accelerator.process_index, len(trainer.train_dataset)
        signal, n = self._signal(draw), args.num_generations
        drawn, found, turn = signal.size, int(signal.sum()), 0
        bound = drawn * args.max_prompt_draws
        while not signal.all() and drawn < bound:
            lacking = int((~signal).sum(axis=1).max())  # of the process that lacks most
            shape = (len(signal), min(lacking, (bound - drawn) // len(signal)))
            places = more_prompts(prompts, shape, (*moment, turn))[process]
            rows = [trainer.train_dataset[int(place)] for place in places]
            self._rows = [dict(row) for row in rows for _ in range(n)]
            again = [row["prompt"] for row in self._rows]
            fresh = self._scored_draw(again, self._trl._generate(again))
            fresh_signal = self._signal(fresh)
            for index, to, source in moves(signal, fresh_signal):
                signal[index, to] = True
                if index == process:
                    _replace(draw[:-1], fresh[:-1], to * n, source * n, n)
                to, source = to * n + index * len(draw.rows), source * n + index * len(fresh.rows)
                _replace(draw.scored, fresh.scored, to, source, n)
                draw.scored.scores[to : to + n] = fresh.scored.scores[source : source + n]
            drawn, found = drawn + fresh_signal.size, found + int(fresh_signal.sum())
            turn += 1
        self._metrics["prompts/drawn"].append(float(drawn))
        self._metrics["prompts/with_signal"].append(found / drawn)

    def _signal(self, draw: Draw) -> np.ndarray:
        """Return which groups of a draw have an advantage that trains, (processes, groups)."""
        masked = None
        if self._args.mask_truncated_completions:
            cut_off = [ids[-1] not in self._cut_unless for ids in draw.generated[1]]
            masked = np.array(gather_object(cut_off))
        rollout = self._rollout(draw.scored, masked)
        trained = rollout.advantages(self._objective) != 0
        if masked is not None:
            trained &= ~masked.reshape(trained.shape)
        return trained.any(axis=1).reshape(self._trainer.accelerator.num_processes, -1)

    def _rollout(self, found: Scored, masked: np.ndarray | None) -> Rollout:
        """Return the rollout batch of what was found of all processes."""
        trainer, args = self._trainer, self._args
        rewards, beside = self._functions.read(found.scores, found.texts)
        if masked is not None and self._objective.needs_ratios:
            rewards[masked] = np.nan  # what is cut off has no log-probability
        n = args.num_generations if trainer.model.training else trainer.num_generations_eval
        rewards = rewards.reshape(-1, n)
        k = self._objective.k_at(trainer.state.global_step / max(trainer.state.max_steps, 1))
        beside = beside.at(slice(None), rewards.shape)
        return Rollout(rewards, beside, k, found.texts, found.tested)


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
    """Yield a process, one of its groups that gives way, and which of a fresh draw takes its place.

    Both say which groups have a signal, (processes, groups), and keep their order.
    """
    for process, (own, other) in enumerate(zip(signal, fresh, strict=True)):
        places = zip(np.flatnonzero(~own).tolist(), np.flatnonzero(other).tolist(), strict=False)
        yield from ((process, to, source) for to, source in places)


def more_prompts(prompts: int, shape: tuple[int, int], moment: tuple[int, ...]) -> np.ndarray:
    """Return random places in a data set of `prompts` rows, (processes, groups).

    They differ as far as there are enough. A run that resumes draws them again at its `moment`.
    """
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
