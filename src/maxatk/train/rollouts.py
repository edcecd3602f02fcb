"""Rollout batches: what one is as a value, and how it is drawn inside TRL's own method.

TRL samples and scores in `_generate_and_score_completions`. `Rollouts.draw` has it do so and gives
back a `Rollout`. In between TRL calls three methods of the trainer that are handed on to here:
`_generate` (`generate`), `_generate_single_turn` (`complete`), `_calculate_rewards` (`score`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl.models.utils import disable_gradient_checkpointing

from maxatk.objectives.objective import Beside, Objective
from maxatk.train.log import Clock, log_unscored
from maxatk.train.loop import own_loop
from maxatk.train.record import tested
from maxatk.train.reward_functions import RewardFunctions
from maxatk.train.signal_groups import Draw, Scored, fill, refuse_irreplaceable


@dataclasses.dataclass(frozen=True)
class Rollout:
    """The groups of a rollout batch of all processes, and what TRL's buffer holds of them.

    Args:
        rewards: One a sample, (P, n); NaN for a sample without one.
        beside: What the method looks at beside the rewards, each (P, n).
        k: The k of the objective. It is fixed when the batch is drawn: no schedule moves it then.
        texts: The completions, (P * n,); a checkpoint is without them and what follows.
        tested: What tests said of them (see `tested`), (P * n,); None where nothing is known.
        step: The optimizer step whose policy the advantages in the buffer belong to.
        whole: Whether every micro-batch holds whole groups.
    """

    rewards: np.ndarray
    beside: Beside
    k: int
    texts: Sequence[str] = ()
    tested: Sequence[Any] = ()
    step: int = -1
    whole: bool = False

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
            "k": self.k,
            "step": self.step,
            "whole": self.whole,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Rollout:
        """Return the rollout batch of what `state` returned."""
        beside = (None if values is None else values.cpu().numpy() for values in state["beside"])
        arrays = {"rewards": state["rewards"].cpu().numpy(), "beside": Beside(*beside)}
        return cls(**{**state, **arrays})


class Rollouts:
    """Draws the rollout batches of a trainer: samples, their rewards, groups with a signal.

    `trainer` is a trainer of TRL whose `args` are a `MaxAtKConfig`, and `trl` the same with TRL's
    own methods, its `super()`.

    Raises InvalidValueError for settings that samples or rewards of this trainer cannot follow.
    """

    def __init__(self, trainer: Any, trl: Any, clock: Clock) -> None:
        self._trainer, self._trl, self._args, self._clock = trainer, trl, trainer.args, clock
        self._objective = trainer.args.objective
        # TRL 1.14 knows the tokenizer's end token alone.
        end = getattr(trainer, "eos_token_ids", [trainer._tokenizer.eos_token_id])
        self._cut_unless = {*end, trainer._tokenizer.pad_token_id}
        self._loop = own_loop(trainer, end_tokens=end)
        self._functions = RewardFunctions(trainer, early=self._loop is not None)
        if self._args.groups_with_signal:
            refuse_irreplaceable(trainer.train_dataset, environments=trainer.environment_factories)
        self._rows: list[Any] = []  # of the data set, whose completions are being drawn
        self._scored: Scored | None = None  # of the batch being drawn

    @property
    def source(self) -> str:
        """Return who draws the rollout batches: "own", "trl" or "vllm"."""
        if self._args.use_vllm:
            return "vllm"
        return "trl" if self._loop is None else "own"

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
        mode = "train" if self._trainer.model.training else "eval"
        log_unscored(self._trainer._metrics[mode], rollout.rewards, masked)
        return rollout, output

    def generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Return what TRL generates for prompts, with groups drawn again for a signal if asked."""
        generated: tuple[Any, ...] = self._trl._generate(prompts)
        if not (self._args.groups_with_signal and self._trainer.model.training):
            return generated
        trainer, metrics = self._trainer, self._trainer._metrics["train"]
        seconds = metrics["seconds/verification"]
        first = len(seconds)
        draw = self._scored_draw(prompts, generated)
        drawn, found = fill(
            draw,
            signal_of=self._signal,
            draw_again=self._draw_again,
            prompts=len(trainer.train_dataset),
            times=self._args.max_prompt_draws,
            process=trainer.accelerator.process_index,
            moment=(
                self._args.seed,
                trainer.state.global_step,
                trainer._step % self._args.gradient_accumulation_steps,
            ),
        )
        metrics["prompts/drawn"].append(float(drawn))
        metrics["prompts/with_signal"].append(found / drawn)
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
            return self._loop.draw(model, prompt_ids, ended=self._ended), None

    def score(self, *rows: Any) -> torch.Tensor:
        """Return the scores (all rows, functions) of TRL's rows, unless they are known already."""
        if self._scored is None:
            self._scored = self._score(*rows)
        return self._scored.scores

    def _ended(self, place: int, ids: list[int]) -> None:
        self._functions.ended(self._rows[place], ids)

    def _score(self, *rows: Any) -> Scored:
        """Return what the rows of all processes came to; see `_calculate_rewards`."""
        mode = "train" if self._trainer.model.training else "eval"
        with self._clock.measure("verification", self._trainer._metrics[mode]):
            scores = self._trl._calculate_rewards(*rows)
        texts = gather_object([str(text) for text in rows[2]])
        known = self._args.log_groups > 0
        told = tested(rows[0], self._trainer.reward_funcs) if known else [None] * len(rows[0])
        return Scored(scores, texts, gather_object(told))

    def _draw_again(self, places: np.ndarray) -> Draw:
        """Draw groups of the prompts at these places of the data set."""
        rows = [self._trainer.train_dataset[int(place)] for place in places]
        self._rows = [dict(row) for row in rows for _ in range(self._args.num_generations)]
        prompts = [row["prompt"] for row in self._rows]
        return self._scored_draw(prompts, self._trl._generate(prompts))

    def _scored_draw(self, prompts: list[Any], generated: tuple[Any, ...]) -> Draw:
        ids, completions = generated[1], generated[3]
        found = self._score(self._rows, prompts, completions, ids)
        return Draw(self._rows, prompts, generated, found)

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
        """Return the rollout batch of what was found of all processes.

        A sample that TRL masks, because it is cut off, is not in the loss and has no
        log-probability. It is dropped where ratios are needed.
        """
        trainer, args = self._trainer, self._args
        rewards, beside = self._functions.read(found.scores, found.texts)
        if masked is not None and self._objective.needs_ratios:
            rewards[masked] = np.nan
        n = args.num_generations if trainer.model.training else trainer.num_generations_eval
        rewards = rewards.reshape(-1, n)
        k = self._objective.k_at(trainer.state.global_step / max(trainer.state.max_steps, 1))
        beside = beside.at(slice(None), rewards.shape)
        return Rollout(rewards, beside, k, found.texts, found.tested)
