"""TRL's GRPOTrainer with the advantages of `maxatk.objectives`, on-policy and off-policy.

The order of calls, where * marks a method of TRL that is overridden here and + one that
`rollout_trainer.py` overrides. The hand-over of ratios relies on TRL's loss reading the advantages
after the log-probabilities (`surface.py` checks it):

    training_step*                              one micro-batch
      _prepare_inputs*                          a new rollout batch, or a slice of the buffer
        _generate_and_score_completions*        under lagged weights: completions, old log-probs
          _generate+                          again for groups without a signal, if asked to
            _generate_single_turn+            completions of this package's loop, or of TRL; the
                                              loop hands those that end to the verifier
          _calculate_rewards+                   rewards of all processes: advantages, on-policy
        _refresh_advantages                     split groups: an extra pass gives the ratios
      _compute_loss*                            hands its batch over: `_loss_inputs`
        _get_per_token_logps_and_entropies*     the loss's pass: sets the batch's advantages
        inputs["advantages"]                    TRL reads them here, and not before
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import AutoConfig
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Beside
from maxatk.objectives.scale import AdvantageScale
from maxatk.train import buffer, ratios, trainer_log
from maxatk.train.card import WITHOUT_SIGNAL, describe_training
from maxatk.train.config import MaxAtKConfig
from maxatk.train.lag import LaggedWeights
from maxatk.train.ratios import BEHAVIOUR_LOGPS, GROUP_ROW
from maxatk.train.rollout_trainer import RolloutTrainer
from maxatk.train.rollouts import refuse_model
from maxatk.train.shared_prompts import (
    SharedPrompts,
    refuse_differences,
    refuse_unshareable,
)
from maxatk.train.surface import check_surface, check_token_advantages


class MaxAtKTrainer(RolloutTrainer):
    """Train for max@k: a GRPOTrainer whose advantages come from a row of `maxatk.METHODS`.

    Takes the arguments of TRL's GRPOTrainer; `args` is a `MaxAtKConfig`. The advantages differ from
    the parent class, and who draws the samples (`rollouts`): rewards, loss and logging are TRL's.

    Methods without a correction set the advantages once a rollout batch. A correction (and the form
    "reinforce") sets them again at every optimizer step that reuses samples, from the ratios of
    the whole group under the policy of that step. Where micro-batches can hold whole groups, the
    ratios are those of the loss's own forward pass; otherwise one forward pass without gradient
    over the buffered samples gives them. A checkpoint holds the buffer, so that a run resumes
    in the middle of it.

    With a `rollout_lag` every rollout batch is sampled with the weights of that many optimizer
    steps ago, and its old log-probabilities are theirs: the first step on it is off-policy too.

    Raises InvalidValueError when the training set holds fewer prompts than one rollout batch needs,
    or when the model does not go with `share_prompts` or `skip_zero_advantages`;
    MissingDependencyError with a version of TRL that lacks what this class builds on.
    """

    _buffered_inputs: Any

    def __init__(
        self, model: Any, reward_funcs: Any, args: MaxAtKConfig, *more: Any, **others: Any
    ) -> None:
        check_surface()
        if not isinstance(args, MaxAtKConfig):
            raise InvalidValueError(f"args: must be a MaxAtKConfig, got {type(args).__name__}")
        if args.own_ratio == "sequence":
            check_token_advantages()
        if args.share_prompts or args.rollouts == "own":
            named = isinstance(model, str)
            model_config = AutoConfig.from_pretrained(model) if named else model.config
            if args.share_prompts:
                refuse_unshareable(model_config)
            refuse_model(args, model_config, model if named else None)
        super().__init__(model, reward_funcs, args, *more, **others)
        if args.skip_zero_advantages and getattr(self, "aux_loss_enabled", False):
            raise InvalidValueError(
                "skip_zero_advantages: True leaves samples out of the loss, which does not go with "
                "the auxiliary loss of this model's router; allowed with it: False"
            )
        self._scale = AdvantageScale(self.args.advantage_scale, self.args.row)
        lag, every = self.args.rollout_lag, self.args.steps_per_rollout_batch
        self._lagged = LaggedWeights(self.model, lag=lag, every=every)
        if lag:
            self.add_callback(self._lagged)
        self._groups = buffer.Groups(k=self.args.k)
        self._loss_inputs: dict[str, Any] | None = None  # while the loss's own pass is awaited
        self._had_signal = False
        self._compared_passes = False

    def get_train_dataloader(self) -> DataLoader:
        """Return TRL's loader; refuse a training set from which it would take no step at all."""
        prompts = self.args.generation_batch_size // self.num_generations
        if isinstance(self.train_dataset, Sized) and len(self.train_dataset) < prompts:
            raise InvalidValueError(
                f"train_dataset: has {len(self.train_dataset)} prompts, fewer than the {prompts} "
                "of one rollout batch, so no step would be taken; allowed: more prompts or a "
                "smaller batch"
            )
        return super().get_train_dataloader()

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does; refuse to end without a step, and warn without any signal."""
        result = super().train(*args, **kwargs)
        if self.state.global_step == 0:
            raise InvalidValueError(
                f"train_dataset: ended before the {self.args.generation_batch_size} completions of "
                f"one rollout batch, of {self.args.generation_batch_size // self.num_generations} "
                "prompts: no optimizer step was taken; allowed: more prompts or a smaller batch"
            )
        if self._without_signal():
            warnings.warn(f"train: {WITHOUT_SIGNAL}", stacklevel=2)
        return result

    def _without_signal(self) -> bool:
        """Say whether all groups so far, those before a checkpoint included, taught nothing."""
        key = "frac_groups_without_signal"
        return not self._had_signal and all(row.get(key, 1) == 1 for row in self.state.log_history)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Take TRL's training step and log its seconds without sampling, rewards and refresh."""
        start, others = time.perf_counter(), self._clock.total
        loss = super().training_step(*args, **kwargs)
        spent = time.perf_counter() - start - (self._clock.total - others)
        self._metrics["train"]["seconds/update"].append(spent)
        return loss

    def create_model_card(self, model_name: str | None = None, **kwargs: Any) -> None:
        """Write TRL's model card, and into it the method, its k and what training measured."""
        super().create_model_card(model_name=model_name, **kwargs)
        if self.is_world_process_zero():
            describe_training(
                Path(self.args.output_dir),
                self.args,
                self.state.log_history,
                base=self.model.config.name_or_path,
                without_signal=self._without_signal(),
            )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        training = self.model.training
        self._inputs = inputs
        measured = self._clock.measure("rollout", self._metrics[self._mode])
        with measured, self._early.rollout_batch():
            output = self._sample(inputs)
        group_size = self.num_generations if training else self.num_generations_eval
        rewards = self._usable_rewards(output).double().cpu().numpy().reshape(-1, group_size)
        k = self._k()
        beside = self._last_beside.at(slice(None), rewards.shape)
        fresh = self._objective.advantages(rewards, k, log_ratios=None, beside=beside)
        if training:
            self._scale.observe(fresh)
            self._groups = buffer.Groups(rewards, beside, k)
        if training and self.args.behaviour == "sampler":
            fresh = self._advantages_to_sampler(output)
        else:
            fresh = self._scale.factor(group_size) * fresh.reshape(-1)
        rows = len(output["advantages"])
        first = self.accelerator.process_index * rows
        output["advantages"] = _like(fresh[first : first + rows], output["advantages"])
        self._replace_logged_advantages(fresh)
        self._log_rollout_batch(rewards, fresh, k)
        if training:
            self._groups.advantages_step = self._lagged.sampling_step(self.state.global_step)
            device = output["advantages"].device
            output[GROUP_ROW] = torch.arange(first, first + rows, device=device)
            if self.args.form == "reinforce" and "old_per_token_logps" in output:
                old = output.pop("old_per_token_logps")  # the surrogate is to have no ratio
                output.setdefault(BEHAVIOUR_LOGPS, old)
        return output

    def _advantages_to_sampler(self, output: dict[str, Any]) -> np.ndarray:
        """Return the first advantages (P * n,), from ratios to the probabilities of the sampler.

        TRL has made the trainer's own pass over the samples already. In the form "reinforce" the
        weights hold the own ratio to the sampler, so that TRL's factor for it becomes one.
        """
        output[BEHAVIOUR_LOGPS] = ratios.sampler_logps(output)
        local = ratios.log_ratios(output, output["old_per_token_logps"])
        found = self.accelerator.gather(local).double().cpu().numpy()
        if self.args.form == "reinforce":
            factor = output["importance_sampling_ratio"]
            output["importance_sampling_ratio"] = torch.ones_like(factor)
        shaped = found.reshape(self._groups.rewards.shape)
        self._log_ratios(shaped)
        return self._off_policy_advantages(self._groups.rewards, self._groups.beside, shaped)

    def _sample(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Return TRL's rollout batch; for training, sampled with the weights of `rollout_lag` ago.

        TRL leaves the old log-probabilities out where a rollout batch serves one optimizer step,
        because they would be those of the loss; under other weights they are not.
        """
        if not (self.model.training and self.args.rollout_lag):
            return super()._generate_and_score_completions(inputs)
        # TRL hands vLLM the weights once an optimizer step, whatever they are: -1 makes it forget.
        self._last_loaded_step = -1
        with self._lagged.in_model(self.state.global_step):
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            if "old_per_token_logps" not in output:
                with torch.no_grad():
                    output["old_per_token_logps"] = self._forward_logps(output)
        self._last_loaded_step = -1
        return output

    def _usable_rewards(self, output: dict[str, Any]) -> torch.Tensor:
        """Return the rewards, NaN where ratios are needed and TRL masks a truncated sample.

        Such a sample has no place in the loss and no log-probability, so it is dropped.
        """
        if not (self.args.mask_truncated_completions and self.args.needs_ratios):
            return self._last_rewards
        masked = self.accelerator.gather(output["completion_mask"].sum(dim=1) == 0)
        return torch.where(masked, torch.nan, self._last_rewards)

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not (self.model.training and self.args.needs_ratios):
            return inputs
        if self._buffered_inputs is not before:
            self._arrange_groups()
        if self._is_stale() and not self._groups.whole:
            with self._clock.measure("refresh", self._metrics["train"]):
                self._refresh_advantages()
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _arrange_groups(self) -> None:
        """Put whole groups into the micro-batches, where that saves the extra forward passes."""
        self._groups.whole = False
        if not self.args.whole_groups:
            return
        rows = torch.cat([batch[GROUP_ROW] for batch in self._buffered_inputs])
        arranged = buffer.in_whole_groups(self._buffered_inputs, rows, self.num_generations)
        if arranged is not None:
            self._buffered_inputs, self._groups.whole = arranged, True

    def _is_stale(self) -> bool:
        return self._groups.advantages_step != self.state.global_step

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        if self.model.training and self.args.skip_zero_advantages:
            inputs = self._without_zero_advantages(inputs)
        if self.model.training and ratios.behaviour_logps(inputs) is not None:
            if self.args.own_ratio == "sequence":
                inputs = dict(inputs)  # the buffer keeps one advantage a sample
            self._loss_inputs = inputs
        return super()._compute_loss(model, inputs)

    def _without_zero_advantages(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self._is_stale() and self._groups.whole:  # the pass to come sets the advantages
            return inputs
        rows = buffer.rows_that_train(inputs)
        # Every process keeps as many, because TRL gathers one value a sample of all of them.
        count = torch.tensor([len(rows)], device=self.accelerator.device)
        most = int(self.accelerator.gather(count).max())
        if most > len(rows):
            rows = buffer.rows_that_train(inputs, most)
        return buffer.of_rows(inputs, rows)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        called = model
        if self.args.share_prompts:
            inner = self.accelerator.unwrap_model(model)
            called = SharedPrompts(model, inner, completion_length=logits_to_keep)
        found = super()._get_per_token_logps_and_entropies(
            called, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )
        if not self._compared_passes and isinstance(called, SharedPrompts) and called.used:
            self._compare_passes(model, input_ids, attention_mask, found[0].detach())
        inputs, self._loss_inputs = self._loss_inputs, None
        if inputs is not None:  # this is the forward pass of the loss, which reads them after it
            self._set_advantages(inputs, found[0].detach())
        return found

    def _set_advantages(self, inputs: dict[str, Any], now: torch.Tensor) -> None:
        """Set the advantages that the loss will read, from its own log-probabilities."""
        # Without whole groups, ratios that are needed are those of an extra forward pass.
        if self._is_stale() and (self._groups.whole or not self.args.needs_ratios):
            self._read_ratios(inputs, ratios.log_ratios(inputs, now))
        if self.args.own_ratio == "sequence":
            rest = ratios.ratios_of_the_rest(inputs, now, clamp=self.args.delta_clamp)
            inputs["advantages"] = inputs["advantages"][:, None] * rest

    def _compare_passes(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        shared: torch.Tensor,
    ) -> None:
        """Compare a pass that shared prompts with the ordinary one, on one micro-batch, once.

        As many rows as a group has are enough. They are spread over the prompts, because the
        padding differs between prompts.
        """
        size, kept = self.args.per_device_train_batch_size, shared.size(1)
        rows = slice(0, size, max(1, size // self.num_generations))
        with torch.no_grad():
            ordinary = super()._get_per_token_logps_and_entropies(
                model, input_ids[rows], attention_mask[rows], kept
            )[0]
            weights = {weight.dtype for weight in model.parameters()}
            refuse_differences(
                shared[rows], ordinary, attention_mask[rows, -kept:], weights=weights
            )
        self._compared_passes = True

    def _read_ratios(self, inputs: dict[str, Any], log_ratios: torch.Tensor) -> None:
        """Log the ratios of a micro-batch; where it holds whole groups, set its advantages."""
        seen = self.accelerator.gather(log_ratios).double().cpu().numpy()
        if not self._groups.whole:
            trainer_log.log_deviations(self._metrics["train"], seen, clamp=self.args.delta_clamp)
            return
        groups = (-1, self.num_generations)
        self._log_ratios(seen.reshape(groups))  # of all processes
        rows = inputs[GROUP_ROW].cpu().numpy()
        rewards = self._groups.rewards.reshape(-1)[rows].reshape(groups)
        shaped = log_ratios.double().cpu().numpy().reshape(groups)
        beside = self._groups.beside.at(rows, rewards.shape)
        fresh = self._off_policy_advantages(rewards, beside, shaped)
        inputs["advantages"] = _like(fresh, inputs["advantages"])

    def _refresh_advantages(self) -> None:
        """Set the advantages of every buffered sample from the ratios under today's policy."""
        with torch.no_grad():
            local = torch.cat([self._forward_log_ratios(batch) for batch in self._buffered_inputs])
        rows = torch.cat([batch[GROUP_ROW] for batch in self._buffered_inputs])
        found = torch.empty(self._groups.rewards.size, dtype=torch.float64)
        gathered_rows = self.accelerator.gather(rows).cpu()
        found[gathered_rows] = self.accelerator.gather(local).double().cpu()
        shaped = found.numpy().reshape(self._groups.rewards.shape)
        self._log_ratios(shaped)
        fresh = self._off_policy_advantages(self._groups.rewards, self._groups.beside, shaped)
        for batch in self._buffered_inputs:
            own = batch[GROUP_ROW].cpu().numpy()
            batch["advantages"] = _like(fresh[own], batch["advantages"])
        self._groups.advantages_step = self.state.global_step

    def _log_ratios(self, groups: np.ndarray) -> None:
        clamp = self.args.delta_clamp
        trainer_log.log_ratios(self._metrics["train"], groups, k=self._groups.k, clamp=clamp)

    def _off_policy_advantages(
        self, rewards: np.ndarray, beside: Beside, log_ratios: np.ndarray
    ) -> np.ndarray:
        fresh = self._objective.advantages(
            rewards, self._groups.k, log_ratios=log_ratios, beside=beside
        )
        return self._scale.factor(self.num_generations) * fresh.reshape(-1)

    def _forward_log_ratios(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return log pi_theta(y) - log pi_old(y) of every sequence of a batch, shape (rows,)."""
        mask = batch["completion_mask"]
        if ratios.behaviour_logps(batch) is None:
            return torch.zeros(len(mask), device=mask.device)
        return ratios.log_ratios(batch, self._forward_logps(batch))

    def _forward_logps(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the log-probabilities of completion tokens, shape (rows, tokens)."""
        return self._get_per_token_logps_and_entropies(
            self.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].size(1),
            batch_size=self.args.per_device_train_batch_size,
            **ratios.model_inputs(batch),
        )[0]

    def _replace_logged_advantages(self, fresh: np.ndarray) -> None:
        """Put the advantages in use where TRL logged its own."""
        logged = self._logs["advantages"]
        for _ in range(min(len(fresh), len(logged))):
            logged.pop()
        logged.extend(fresh.tolist())

    def _log_rollout_batch(self, rewards: np.ndarray, fresh: np.ndarray, k: int) -> None:
        target = self._metrics[self._mode]
        trainer_log.log_groups(target, rewards, fresh, self._last_texts, k=k)
        self._had_signal |= self._mode == "train" and bool(np.any(fresh != 0))
        for reward in self.reward_funcs:
            trainer_log.log_outcomes(target, reward, self.accelerator)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        # transformers pickles the settings beside the weights, the token of the hub in clear.
        token, self.args.hub_token = self.args.hub_token, None
        try:
            super()._save(output_dir, state_dict)
        finally:
            self.args.hub_token = token

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Before TRL's own files, of which the last tells a complete checkpoint.
        folder = Path(self._get_output_dir(trial=trial))
        checkpoint = folder / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        if self._step % (self.args.steps_per_generation * self.num_iterations) != 0:
            self._save_buffer(checkpoint)
        if self.args.rollout_lag and self.args.should_save:
            self._lagged.save(checkpoint)
        if self.args.should_save:
            self._scale.save(checkpoint)
        super()._save_checkpoint(model, trial)

    def _save_buffer(self, checkpoint: Path) -> None:
        state = {
            "step": self._step,
            "slices": self._buffered_inputs,
            **self._groups.state(),
        }
        buffer.save_state(self._state_file(checkpoint), state)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        self._scale.load(Path(checkpoint))
        if self.args.rollout_lag:
            self._lagged.load(Path(checkpoint), self.accelerator.device)
        state = buffer.load_state(self._state_file(Path(checkpoint)), self.accelerator.device)
        if state is None:
            return
        self._step, self._buffered_inputs = state["step"], state["slices"]
        self._groups = buffer.Groups.from_state(state)

    def _state_file(self, checkpoint: Path) -> Path:
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        return checkpoint / f"buffer-{rank}-of-{world}.pt"


def _like(values: np.ndarray, tensor: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(tensor.device, tensor.dtype)
