"""TRL's GRPOTrainer with rollout batches of this package: who samples, what is rewarded and kept.

What is made of the rewards, advantages and a loss, is in `trainer.py`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing

from maxatk.train import signal_groups, trainer_log
from maxatk.train.beside import BesideReader
from maxatk.train.config import MaxAtKConfig
from maxatk.train.early import EarlyVerification
from maxatk.train.rollouts import own_rollouts


class RolloutTrainer(GRPOTrainer):
    """A GRPOTrainer that may sample with this package's loop and draw groups again for a signal.

    Takes the arguments of TRL's GRPOTrainer; `args` is a `MaxAtKConfig`. Where the loop samples,
    programs are verified while other completions are still sampled. A reward function that selects
    has no weight in the reward.

    Raises InvalidValueError for a training set from which no group could be drawn again, where
    `groups_with_signal` asks for it.
    """

    def __init__(
        self, model: Any, reward_funcs: Any, args: MaxAtKConfig, *more: Any, **others: Any
    ) -> None:
        super().__init__(model, reward_funcs, args, *more, **others)
        # In TRL 1.8 an attribute of the tokenizer alone.
        self._end_tokens = getattr(self, "eos_token_ids", [self._tokenizer.eos_token_id])
        self._own_rollouts = own_rollouts(self, end_tokens=self._end_tokens)
        self._early = self._early_verification()
        self._known_scores: tuple[torch.Tensor, list[str]] | None = None  # of the coming batch
        if self.args.groups_with_signal:
            signal_groups.refuse_irreplaceable(
                self.train_dataset, environments=getattr(self, "environment_factories", None)
            )
        self._objective = self.args.objective
        self._beside = BesideReader(self.args, self.reward_func_names)
        if self.args.selection is not None:  # also in what TRL logs as the reward
            self.reward_weights[self.reward_func_names.index(self.args.selection)] = 0.0
        self._clock = trainer_log.Clock()

    @property
    def _mode(self) -> str:
        return "train" if self.model.training else "eval"

    @property
    def rollouts(self) -> str:
        """Return who draws the rollout batches: "own", "trl" or "vllm"."""
        if self.args.use_vllm:
            return "vllm"
        return "trl" if self._own_rollouts is None else "own"

    def _generate_single_turn(self, prompt_ids: list[Any], *args: Any, **kwargs: Any) -> Any:
        if self._own_rollouts is None:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            model = self.accelerator.unwrap_model(self.model_wrapped)
            return self._own_rollouts.draw(model, prompt_ids, ended=self._ended), None

    def _ended(self, place: int, ids: list[int]) -> None:
        self._early.ended(self._inputs[place], ids)

    def _early_verification(self) -> EarlyVerification:
        # Where TRL makes more of a completion than its text, nothing is known of it before.
        parses = ("response_template", "response_schema")
        plain = not any(getattr(self._tokenizer, name, None) for name in parses)
        own = self._own_rollouts is not None and plain and not getattr(self, "tools", None)
        decode = functools.partial(self._tokenizer.decode, skip_special_tokens=True)
        return EarlyVerification(self.reward_funcs if own else [], decode)

    def _calculate_rewards(
        self,
        inputs: list[Any],
        prompts: list[Any],
        completions: list[Any],
        completion_ids: list[Any],
    ) -> torch.Tensor:
        known, self._known_scores = self._known_scores, None
        scores, texts = known or self._score(inputs, prompts, completions, completion_ids)
        self._take_scores(scores, texts)
        return scores

    def _score(self, *rows: Any) -> tuple[torch.Tensor, list[str]]:
        """Return the scores (all rows, functions) and texts of the rows of all processes.

        `rows` are the arguments of `_calculate_rewards`.
        """
        with self._clock.measure("verification", self._metrics[self._mode]):
            scores = super()._calculate_rewards(*rows)
        return scores, gather_object([str(text) for text in rows[2]])

    def _take_scores(self, scores: torch.Tensor, texts: list[str]) -> None:
        """Keep the rewards that these scores come to, and what lies beside them."""
        weights = self._beside.rewarded(self.reward_weights[None].to(scores.device))
        rewarded = self._beside.rewarded(scores)
        rewards = (rewarded * weights).nansum(dim=1)
        rewards[rewarded.isnan().all(dim=1)] = torch.nan
        self._last_rewards, self._last_texts = rewards, texts
        self._last_beside = self._beside.read(scores, texts)

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        generated: tuple[Any, ...] = super()._generate(prompts)
        if not (self.args.groups_with_signal and self.model.training):
            return generated
        metrics = self._metrics["train"]
        seconds = metrics["seconds/verification"]
        first = len(seconds)
        draw = self._scored(prompts, generated)
        filled = signal_groups.fill(
            draw,
            signal_of=self._signal,
            draw_again=self._draw_again,
            prompts=len(self.train_dataset),
            times=self.args.max_prompt_draws,
            process=self.accelerator.process_index,
            moment=(
                self.args.seed,
                self.state.global_step,
                self._step % self.args.gradient_accumulation_steps,
            ),
        )
        metrics["prompts/drawn"].append(float(filled.drawn))
        metrics["prompts/with_signal"].append(filled.found / filled.drawn)
        seconds[first:] = [sum(seconds[first:])]  # of all the draws of the rollout batch
        self._known_scores = (draw.scores, draw.texts)
        return draw.generated

    def _draw_again(self, places: np.ndarray) -> signal_groups.Draw:
        """Draw groups of the prompts at these places of the data set."""
        rows = [self.train_dataset[int(place)] for place in places]
        self._inputs = [dict(row) for row in rows for _ in range(self.num_generations)]
        prompts = [row["prompt"] for row in self._inputs]
        return self._scored(prompts, super()._generate(prompts))

    def _scored(self, prompts: list[Any], generated: tuple[Any, ...]) -> signal_groups.Draw:
        ids, completions = generated[1], generated[3]
        scores, texts = self._score(self._inputs, prompts, completions, ids)
        return signal_groups.Draw(self._inputs, prompts, generated, scores, texts)

    def _signal(self, draw: signal_groups.Draw) -> np.ndarray:
        """Return which groups of a draw have an advantage that trains, (processes, groups)."""
        self._take_scores(draw.scores, draw.texts)
        masked = torch.zeros(len(draw.scores), dtype=torch.bool)
        if self.args.mask_truncated_completions:
            ends = {*self._end_tokens, self._tokenizer.pad_token_id}
            cut_off = [ids[-1] not in ends for ids in draw.generated[1]]
            masked = torch.tensor(gather_object(cut_off))
        rewards = self._last_rewards.double().cpu().clone()
        if self.args.needs_ratios:
            rewards[masked] = torch.nan  # as in `_usable_rewards`
        groups = rewards.numpy().reshape(-1, self.num_generations)
        beside = self._last_beside.at(slice(None), groups.shape)
        advantages = self._objective.advantages(groups, self._k(), log_ratios=None, beside=beside)
        trained = (advantages != 0) & ~masked.numpy().reshape(groups.shape)
        return trained.any(axis=1).reshape(self.accelerator.num_processes, -1)

    def _k(self) -> int:
        return self._objective.k_at(self.state.global_step / max(self.state.max_steps, 1))
