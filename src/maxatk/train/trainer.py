"""TRL's GRPOTrainer with the advantages of `maxatk.objectives`, on-policy and off-policy.

The order of calls, where * marks a method of TRL that is overridden here and + one of
`RolloutTrainer`:

    training_step*                              one micro-batch
      _prepare_inputs*                          a new rollout batch, or a slice of the buffer
        _generate_and_score_completions*        a `Rollout` and its advantages
          _generate+                          again for groups without a signal, if asked to
            _generate_single_turn+            completions of this package's loop, or of TRL; the
                                              loop hands those that end to the verifier
          _calculate_rewards+                   scores of all processes
        _refresh_advantages                     split groups: an extra pass gives the ratios
      _compute_loss*                            says which batch the coming pass is of
        _get_per_token_logps_and_entropies*     the loss's pass: sets the batch's advantages
        inputs["advantages"]                    TRL reads them here, and not before
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Sized
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import torch
from transformers import AutoConfig
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.folders import atomic_write
from maxatk.statistics import symptoms
from maxatk.statistics.groups import group_values
from maxatk.train import batch as batches
from maxatk.train import log
from maxatk.train.batch import BEHAVIOUR_LOGPS, GROUP_ROW, Batch
from maxatk.train.config import MaxAtKConfig, check_model, check_processes, check_prompts, check_trl
from maxatk.train.record import Record
from maxatk.train.rollouts import Rollout, RolloutTrainer
from maxatk.train.shared_prompts import SharedPasses


class MaxAtKTrainer(RolloutTrainer):
    """Train for max@k: a GRPOTrainer whose advantages come from a row of `maxatk.METHODS`.

    Takes the arguments of TRL's GRPOTrainer; `args` is a `MaxAtKConfig`. A correction (and the form
    "reinforce") sets the advantages again at every optimizer step that reuses samples, from the
    ratios of the whole group under its policy. A run resumes in the middle of a rollout batch.

    Raises InvalidValueError where the training set has fewer prompts than one rollout batch, or the
    model does not go with the settings; MissingDependencyError for a TRL that lacks what is used.
    """

    _name, _tag_names = "maxatk", ("trl", "maxatk", "best-of-n")  # of TRL's model card
    _paper: ClassVar[dict[str, str]] = {}
    _buffered_inputs: Any
    _rollout: Rollout  # the one that is trained on, from the first one on

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: Any = None, *more: Any, **others: Any
    ) -> None:
        check_trl()
        if not isinstance(args, MaxAtKConfig):
            raise InvalidValueError(f"args: must be a MaxAtKConfig, got {type(args).__name__}")
        if args.share_prompts or args.rollouts == "own":  # before the weights are loaded
            named = isinstance(model, str)
            model_config = AutoConfig.from_pretrained(model) if named else model.config
            check_model(args, model_config, model if named else None)
        super().__init__(model, reward_funcs, args, *more, **others)
        if isinstance(self.train_dataset, Sized):
            check_prompts(self.args, len(self.train_dataset), called="train_dataset")
        check_processes(self.args, self.accelerator)
        skips = args.skip_zero_advantages and self.aux_loss_enabled
        allowed = "False with a model whose router has an auxiliary loss, which all samples have"
        require(not skips, "skip_zero_advantages", allowed, skips)
        self._scale = self._objective.scale()
        self._record = Record(self) if args.log_groups else None
        if self._record:
            self.add_callback(self._record)
        size = args.per_device_train_batch_size
        # As many as a group has, spread over prompts, between which the padding differs.
        compared = slice(0, size, max(1, size // args.num_generations))
        self._shared = SharedPasses(compared) if args.share_prompts else None
        self._sampler: Any = None  # of a training that has begun on a set with a length
        self._batch_in_loss: Batch | None = None  # until the loss's own pass over it

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does; refuse to end without a step, and warn without any signal."""
        result = super().train(*args, **kwargs)
        if self.state.global_step == 0:
            needed = self.args.generation_batch_size // self.num_generations
            raise InvalidValueError(
                f"train_dataset: ended before the first rollout batch, of {needed} prompts, so no "
                "step was taken; allowed: more prompts or a smaller batch"
            )
        if min(symptoms.values(self.state.log_history, symptoms.SILENT), default=0) == 1:
            warnings.warn(
                "train: every group of the training had equal rewards or none, so that all "
                "advantages were 0 and the rewards changed nothing",
                stacklevel=2,
            )
        return result

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Take TRL's training step and log its seconds without sampling, rewards and refresh."""
        with self._clock.measure("update", self._metrics["train"]):
            return super().training_step(*args, **kwargs)

    def create_model_card(self, model_name: str | None = None, **kwargs: Any) -> None:
        """Write TRL's model card, and into it the method, its k and what the log shows."""
        super().create_model_card(model_name=model_name, **kwargs)
        if self.is_world_process_zero():
            log.describe_training(self)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Batch:
        training, metrics = self.model.training, self._mode_metrics
        with self._clock.measure("rollout", metrics):
            rollout, scored, output = self._draw(inputs)
        fresh = rollout.advantages(self._objective)
        if training:
            self._scale.observe(fresh)
            self._rollout = rollout = dataclasses.replace(rollout, step=self.state.global_step)
        if training and self.args.behaviour == "sampler":
            fresh = rollout.advantages(self._objective, log_ratios=self._ratios_to_sampler(output))
        scaled = self._scaled(fresh)
        rows = len(output["advantages"])
        first = self.accelerator.process_index * rows
        _set_advantages(output, scaled[first : first + rows])
        logged = self._logs["advantages"]  # of TRL
        for _ in range(min(len(scaled), len(logged))):
            logged.pop()
        logged.extend(scaled.tolist())
        shape = rollout.rewards.shape
        texts = np.array(scored.texts, dtype=object).reshape(shape).tolist()
        found = group_values(rollout.rewards, scaled.reshape(shape), texts, k=rollout.k)
        for name, value in found.items():
            metrics[name].append(value)
        for reward in self.reward_funcs:
            log.log_outcomes(metrics, reward, self.accelerator)
        if not training:
            return output
        if self._record:
            lengths = self.accelerator.gather(output["completion_mask"].sum(dim=1)).cpu().numpy()
            self._record.add(rollout, scored, inputs, {"advantage": scaled, "tokens": lengths})
        output[GROUP_ROW] = torch.arange(first, first + rows, device=output["advantages"].device)
        if self.args.form == "reinforce" and "old_per_token_logps" in output:
            old = output.pop("old_per_token_logps")  # the surrogate is to have no ratio
            output.setdefault(BEHAVIOUR_LOGPS, old)
        return output

    def _ratios_to_sampler(self, output: Batch) -> np.ndarray:
        """Return the log ratios (P, n) to the probabilities of the sampler, before any step."""
        sampled, old = output["sampling_per_token_logps"], output["old_per_token_logps"]
        # Where vLLM has none the ratio at sampling is one, as in TRL's own.
        output[BEHAVIOUR_LOGPS] = torch.where(sampled.isnan(), old, sampled)
        local = batches.log_ratios(output, old)
        if self.args.form == "reinforce":  # the weights hold the own ratio to the sampler
            factor = output["importance_sampling_ratio"]
            output["importance_sampling_ratio"] = torch.ones_like(factor)
        return self._logged_ratios(self.accelerator.gather(local))

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> Batch:
        before = self._buffered_inputs
        inputs: Batch = super()._prepare_inputs(generation_batch)
        if not (self.model.training and self._objective.needs_ratios):
            return inputs
        if self._buffered_inputs is not before and self.args.whole_groups:
            rows = torch.cat([batch[GROUP_ROW] for batch in self._buffered_inputs])
            arranged = batches.in_whole_groups(self._buffered_inputs, rows, self.num_generations)
            if arranged is not None:
                self._buffered_inputs = arranged
                self._rollout = dataclasses.replace(self._rollout, whole=True)
        if self._is_stale() and not self._rollout.whole:
            with self._clock.measure("refresh", self._metrics["train"]), torch.no_grad():
                self._refresh_advantages()
        buffered: list[Batch] = self._buffered_inputs
        return buffered[self._step % self.args.steps_per_generation]

    def _is_stale(self) -> bool:
        return self._rollout.step != self.state.global_step

    def _refresh_advantages(self) -> None:
        """Set the advantages of every buffered sample from the ratios under today's policy."""
        buffered: list[Batch] = self._buffered_inputs
        forward = GRPOTrainer._get_per_token_logps_and_entropies
        others, local = inspect.signature(forward).parameters, []  # such as images
        for batch in buffered:
            logps, *_ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
                **{name: batch[name] for name in others if batch.get(name) is not None},
            )
            local.append(batches.log_ratios(batch, logps))
        rows = self.accelerator.gather(torch.cat([batch[GROUP_ROW] for batch in buffered])).cpu()
        found = torch.empty(self._rollout.rewards.size, dtype=torch.float64)
        found[rows] = self.accelerator.gather(torch.cat(local)).double().cpu()
        log_ratios = self._logged_ratios(found)
        fresh = self._scaled(self._rollout.advantages(self._objective, log_ratios=log_ratios))
        for batch in buffered:
            _set_advantages(batch, fresh[batch[GROUP_ROW].cpu().numpy()])
        self._rollout = dataclasses.replace(self._rollout, step=self.state.global_step)

    def _scaled(self, advantages: np.ndarray) -> np.ndarray:
        """Return advantages (P, n) as the loss gets them, (P * n,)."""
        return self._scale.factor(advantages.shape[1]) * advantages.reshape(-1)

    def _logged_ratios(self, log_ratios: torch.Tensor) -> np.ndarray:
        """Return log ratios of whole groups as an array (P, n), and log them."""
        groups = log_ratios.double().cpu().numpy().reshape(-1, self.num_generations)
        clamp = self.args.delta_clamp
        log.log_ratios(self._metrics["train"], groups, k=self._rollout.k, clamp=clamp)
        return groups

    def _compute_loss(self, model: Any, inputs: Batch) -> torch.Tensor:
        training = self.model.training
        skips = training and self.args.skip_zero_advantages
        if skips and not (self._is_stale() and self._rollout.whole):  # where the pass sets them
            count = (inputs["advantages"] != 0).sum().clamp(min=1)[None]
            # Every process keeps as many, because TRL gathers one value a sample of all of them.
            inputs = batches.of_most_signal(inputs, int(self.accelerator.gather(count).max()))
        if training and batches.behaviour_logps(inputs) is not None:
            self._batch_in_loss = inputs
        return super()._compute_loss(model, inputs)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        forward = super()._get_per_token_logps_and_entropies
        if self._shared is not None:
            inner = self.accelerator.unwrap_model(model)
            forward = functools.partial(self._shared.run, forward, inner)
        found = forward(model, *args, **kwargs)
        batch, self._batch_in_loss = self._batch_in_loss, None
        if batch is not None and self._is_stale():
            self._read_ratios(batch, batches.log_ratios(batch, found[0].detach()))
        return found

    def _read_ratios(self, batch: Batch, log_ratios: torch.Tensor) -> None:
        """Log the ratios of the loss's own pass; set the advantages of whole groups by them."""
        seen = self.accelerator.gather(log_ratios)
        if self._rollout.whole:
            self._logged_ratios(seen)  # of all processes
            own = log_ratios.double().cpu().numpy().reshape(-1, self.num_generations)
            groups = self._rollout.at(batch[GROUP_ROW].cpu().numpy())
            fresh = self._scaled(groups.advantages(self._objective, log_ratios=own))
            _set_advantages(batch, fresh)
        elif not self._objective.needs_ratios:  # otherwise an extra pass has given them
            ratios, clamp = seen.double().cpu().numpy(), self.args.delta_clamp
            log.log_ratios(self._metrics["train"], ratios, clamp=clamp)

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
            checkpoint.mkdir(parents=True, exist_ok=True)
            with atomic_write(self._buffer_file(checkpoint)) as partial:
                rollout = msgspec.to_builtins(self._rollout, enc_hook=np.ndarray.tolist)
                state = {"step": self._step, "slices": self._buffered_inputs, "rollout": rollout}
                torch.save(state, partial)
        if self.args.should_save:
            self._scale.save(checkpoint)
        super()._save_checkpoint(model, trial)

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
        self._sampler = super()._get_train_sampler(*args, **kwargs)
        return self._sampler

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        if self._sampler is not None and self._sampler.shuffle:  # once for every epoch
            for _ in range(int(self.state.epoch or 0)):
                torch.randperm(self._sampler.num_samples, generator=self._sampler.generator)
        folder, device = Path(checkpoint), self.accelerator.device
        if device.type == "cpu":  # torch.load knows no number of a CPU
            device = torch.device("cpu")
        self._scale.load(folder)
        file = self._buffer_file(folder)
        if file.is_file():
            state = torch.load(file, map_location=device, weights_only=True)
            self._step, self._buffered_inputs = state["step"], state["slices"]
            self._rollout = msgspec.convert(
                state["rollout"], Rollout, dec_hook=lambda _, values: np.array(values)
            )
        elif list(folder.glob("buffer-*-of-*.pt")):
            warnings.warn(
                f"{folder}: was written by another number of processes than "
                f"{self.accelerator.num_processes}; what was left of a rollout batch is dropped",
                stacklevel=2,
            )

    def _buffer_file(self, checkpoint: Path) -> Path:
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        return checkpoint / f"buffer-{rank}-of-{world}.pt"


def _set_advantages(batch: Batch, values: np.ndarray) -> None:
    like = batch["advantages"]
    batch["advantages"] = torch.from_numpy(np.ascontiguousarray(values)).to(like.device, like.dtype)
