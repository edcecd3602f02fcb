"""TRL's GRPOTrainer with the advantages of `maxatk.objectives`, on-policy and off-policy.

The order of calls, where * marks a method of TRL that is overridden here and + one of
`RolloutTrainer` (`ResumingTrainer`, between the two, has the checkpoints):

    training_step*                              one micro-batch
      _prepare_inputs*                          a new rollout batch, or a slice of the buffer
        _generate_and_score_completions*        a `RolloutBatch` and its advantages
          _generate+                          again for groups without a signal, if asked to
            _generate_single_turn+            completions of this package's loop, or of TRL; the
                                              loop hands those that end to the verifier
          _calculate_rewards+                   scores of all processes
        _refresh_advantages                     split groups: an extra pass gives the ratios
      _compute_loss*                            says what reads the loss's forward pass
        _get_per_token_logps_and_entropies*     that pass: `_correct_groups` reads its ratios
        inputs["advantages"]                    TRL reads them here, and not before
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from maxatk.conversations import transcript
from maxatk.errors import InvalidValueError, counted
from maxatk.folders import known_values
from maxatk.train import batch as batches
from maxatk.train.arguments import by_name, check_arguments, check_evaluation
from maxatk.train.attention_kernels import without_cudnn_attention
from maxatk.train.batch import BEHAVIOUR_LOGPS, GROUP_ROW, MicroBatch
from maxatk.train.config import MaxAtKConfig
from maxatk.train.finite_gradients import FiniteGradients
from maxatk.train.launch import check_processes
from maxatk.train.model_card import describe_training
from maxatk.train.policy_drift import PolicyDrift
from maxatk.train.record_callback import RecordCallback
from maxatk.train.resuming import ResumingTrainer
from maxatk.train.rollout_batch import Scored, functions_of_caller
from maxatk.train.settings_of_now import SettingsOfNow
from maxatk.train.shared_prompts import SharedPasses
from maxatk.train.start_checks import check_trl
from maxatk.training import Step, TrainingRecord
from maxatk.training.groups import in_groups
from maxatk.training.keys import SILENT


class MaxAtKTrainer(ResumingTrainer):
    """Train for max@k: a GRPOTrainer whose advantages come from a row of `maxatk.METHODS`.

    Takes the arguments of TRL's GRPOTrainer; `args` is a `MaxAtKConfig`. A correction (and the form
    "reinforce") sets the advantages again at every optimizer step that reuses samples, from the
    ratios of the whole group under its policy. A run resumes in the middle of a rollout batch.

    Raises InvalidValueError for arguments that the settings do not go with, before the weights are
    loaded; MissingDependencyError for a TRL that lacks what is used.
    """

    # Of TRL's model card.
    _name = "maxatk"
    _tag_names = ("trl", "maxatk", "best-of-n")
    _paper: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        *more: Any,
        **others: Any,
    ) -> None:
        check_trl()
        if not isinstance(args, MaxAtKConfig):
            raise InvalidValueError(f"args: must be a MaxAtKConfig, got {type(args).__name__}")
        functions = functions_of_caller(reward_funcs)
        check_processes(args)
        self._arguments = by_name(
            GRPOTrainer.__init__, model, functions, args, train_dataset, *more, **others
        )
        check_arguments(args, self._arguments)
        super().__init__(model, functions, args, train_dataset, *more, **others)
        # For the checks of later evaluation sets, which need not load it again.
        self._arguments = {**self._arguments, "processing_class": self.processing_class}
        self._eval_set_name = ""  # of several sets; else empty
        self.add_callback(FiniteGradients())
        self.add_callback(SettingsOfNow())
        self._record_callback: RecordCallback | None = None
        if args.log_groups:
            self._record_callback = RecordCallback()
            self.add_callback(self._record_callback)
        self._shared_passes: SharedPasses | None = None
        if args.share_prompts:
            size = args.per_device_train_batch_size
            # As many as a group has, spread over prompts, between which the padding differs.
            compared = slice(0, size, max(1, size // args.num_generations))
            self._shared_passes = SharedPasses(compared)
        # A call for one forward pass, that of the loss. `_compute_loss` sets it right before TRL's
        # loss runs this pass, and `_get_per_token_logps_and_entropies`, which TRL has run it with,
        # takes it away again and hands it the log-probabilities. All other passes find None.
        self._on_loss_pass: Callable[[torch.Tensor], None] | None = None
        self._drift = PolicyDrift(args.delta_clamp)
        self._seconds_of_update: list[float] = []  # of the micro-batches since the last one

    def _forget_training(self) -> None:
        super()._forget_training()
        self._on_loss_pass = None
        self._drift.forget()
        self._seconds_of_update = []

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does; refuse to end without a step, and warn without any signal."""
        result = super().train(*args, **kwargs)
        if self.state.global_step == 0:
            needed = self.args.generation_batch_size // self.num_generations
            raise InvalidValueError(
                "train_dataset: ended before the first rollout batch, of "
                f"{counted(needed, 'prompt')}, so no step was taken; allowed: more prompts or a "
                "smaller batch"
            )
        if min(known_values(self.state.log_history, SILENT), default=0) == 1:
            warnings.warn(
                "train: every group of the training had equal rewards or none, so that all "
                "advantages were 0 and the rewards changed nothing",
                stacklevel=2,
            )
        return result

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return TRL's loader of an evaluation set, or of the one of that name.

        Raises InvalidValueError for a set that TRL would fail on once it has sampled.
        """
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(eval_dataset, str):
            dataset = self.eval_dataset[eval_dataset]
        if dataset is not None:  # which TRL refuses
            check_evaluation(self.args, dataset, self._arguments)
        return super().get_eval_dataloader(eval_dataset)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Evaluate as TRL does; of sets by name every metric has the name of its set."""
        self._eval_set_name = metric_key_prefix.removeprefix("eval").removeprefix("_")
        result: dict[str, float] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        return result

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, which calls the metrics of every evaluation set `eval_` alike."""
        if self._eval_set_name and not self.model.training:
            metrics = self._metrics["eval"]
            renamed = {f"{self._eval_set_name}_{name}": values for name, values in metrics.items()}
            metrics.clear()
            metrics.update(renamed)
        super().log(logs, start_time)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Take TRL's training step, which is one micro-batch.

        Of an optimizer step it logs the seconds without sampling, rewards and refresh.
        """
        seconds = self._seconds_of_update
        with self._clock.measure("update", {"seconds/update": seconds}), without_cudnn_attention():
            loss = super().training_step(*args, **kwargs)
        if self.accelerator.sync_gradients:  # the last micro-batch before the optimizer moves
            self._metrics["train"]["seconds/update"].append(sum(seconds))
            seconds.clear()
            self._drift.log(self._metrics["train"])
        return loss

    def create_model_card(self, model_name: str | None = None, **kwargs: Any) -> None:
        """Write TRL's model card, and into it the method, its k and what the log shows."""
        super().create_model_card(model_name=model_name, **kwargs)
        if self.is_world_process_zero():
            describe_training(self)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> MicroBatch:
        with self._clock.measure("rollout", self._mode_metrics):
            drawn, scored, output = self._draw_rollout_batch(inputs)
        texts = in_groups(scored.texts, drawn.size)
        if not self.model.training:
            self._replace_advantages(self._learner.step(drawn, texts, held_out=True), output)
            return output
        self._rollout = dataclasses.replace(drawn, step=self.state.global_step)
        log_ratios = None
        if self.args.behaviour == "sampler":
            log_ratios = self._ratios_to_sampler(output)
        step = self._learner.step(drawn, texts, log_ratios=log_ratios)
        self._replace_advantages(step, output)
        if self._record_callback is not None:
            self._record_groups(self._record_callback.record, inputs, scored, step)
        rows = self._rows_here(output)
        output[GROUP_ROW] = torch.arange(rows.start, rows.stop, device=output["advantages"].device)
        if self.args.form == "reinforce" and "old_per_token_logps" in output:
            old = output.pop("old_per_token_logps")  # the surrogate is to have no ratio
            output.setdefault(BEHAVIOUR_LOGPS, old)
        return output

    def _rows_here(self, output: MicroBatch) -> slice:
        """Return the places of this process's samples in the rollout batch of all processes."""
        rows = len(output["advantages"])
        first = self.accelerator.process_index * rows
        return slice(first, first + rows)

    def _replace_advantages(self, step: Step, output: MicroBatch) -> None:
        """Put the advantages of a step in place of TRL's, and log what the step came to."""
        advantages = step.advantages.reshape(-1)  # of all processes
        _set_advantages(output, advantages[self._rows_here(output)])
        for name, value in step.metrics.items():
            self._mode_metrics[name].append(value)
        # TRL has logged its own advantages for its table of completions.
        logged = self._logs["advantages"]
        for _ in range(min(len(advantages), len(logged))):
            logged.pop()
        logged.extend(advantages.tolist())

    def _record_groups(
        self,
        record: TrainingRecord | None,
        inputs: list[dict[str, Any]],
        scored: Scored,
        step: Step,
    ) -> None:
        """Write the first groups of a rollout batch, of which all values are in TRL's order."""
        # Every process gathers, whether or not it writes.
        lengths = gather_object(self._tokens_drawn)
        ids = gather_object([row.get("problem_id") for row in inputs])
        if record is None:  # in every process but the first
            return
        groups = self._rollout
        n = groups.size
        count = groups.rewards.size  # of the last rows that TRL has logged
        prompts = list(self._logs["prompt"])[-count:]
        rewards = {
            name: np.array(list(column)[-count:]).reshape(groups.rewards.shape)
            for name, column in self._logs["rewards"].items()
        }
        record.add(
            self.state.global_step + 1,
            groups,
            step.advantages,
            prompts=[transcript(prompt) for prompt in prompts[::n]],
            texts=in_groups(scored.texts, n),
            ids=ids[::n],
            tokens=in_groups(lengths, n),
            rewards=rewards if len(rewards) > 1 else {},
            tests=in_groups(scored.tests, n),
        )

    def _ratios_to_sampler(self, output: MicroBatch) -> np.ndarray:
        """Return the log ratios (P, n) to the probabilities of the sampler, before any step."""
        sampled = output["sampling_per_token_logps"]
        old = output["old_per_token_logps"]
        # Where vLLM has none the ratio at sampling is one, as in TRL's own.
        output[BEHAVIOUR_LOGPS] = torch.where(sampled.isnan(), old, sampled)
        local = batches.log_ratios(output, old)
        if self.args.form == "reinforce":  # the weights hold the own ratio to the sampler
            factor = output["importance_sampling_ratio"]
            output["importance_sampling_ratio"] = torch.ones_like(factor)
        ratios = self._by_group(self.accelerator.gather(local))
        self._drift.add(ratios, masked=self._rollout.masked, k=self._rollout.k)
        return ratios

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> MicroBatch:
        before = self._buffered_inputs
        inputs: MicroBatch = super()._prepare_inputs(generation_batch)
        if not (self.model.training and self._learner.objective.needs_ratios):
            return inputs
        is_fresh = self._buffered_inputs is not before
        if is_fresh and self.args.ratios_in_loss:
            rows = torch.cat([batch[GROUP_ROW] for batch in self._buffered_inputs])
            arranged = batches.in_whole_groups(self._buffered_inputs, rows, self.num_generations)
            if arranged is not None:
                self._buffered_inputs = arranged
                self._rollout = dataclasses.replace(self._rollout, whole=True)
        if self._is_stale() and not self._rollout.whole:
            with self._clock.measure("refresh", self._metrics["train"]), torch.no_grad():
                self._refresh_advantages()
        # TRL has chosen its slice of the buffer before the buffer was changed.
        buffered: list[MicroBatch] = self._buffered_inputs
        return buffered[self._step % self.args.steps_per_generation]

    def _is_stale(self) -> bool:
        """Return whether the buffer's advantages are those of an earlier policy."""
        return self._rollout.step != self.state.global_step

    def _refresh_advantages(self) -> None:
        """Set the advantages of every buffered sample from the ratios under today's policy."""
        buffered: list[MicroBatch] = self._buffered_inputs
        forward = GRPOTrainer._get_per_token_logps_and_entropies
        names = inspect.signature(forward).parameters  # such as those of images
        local_ratios = []
        for batch in buffered:
            logps, *_ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
                **{name: batch[name] for name in names if batch.get(name) is not None},
            )
            local_ratios.append(batches.log_ratios(batch, logps))
        # TRL has shuffled the samples, so that their places put a group together again.
        rows = self.accelerator.gather(torch.cat([batch[GROUP_ROW] for batch in buffered])).cpu()
        ratios = torch.empty(self._rollout.rewards.size, dtype=torch.float64)
        ratios[rows] = self.accelerator.gather(torch.cat(local_ratios)).double().cpu()
        log_ratios = self._by_group(ratios)
        self._drift.add(log_ratios, masked=self._rollout.masked, k=self._rollout.k)
        fresh = self._learner.advantages(self._rollout, log_ratios).reshape(-1)
        for batch in buffered:
            _set_advantages(batch, fresh[batch[GROUP_ROW].cpu().numpy()])
        self._rollout = dataclasses.replace(self._rollout, step=self.state.global_step)

    def _by_group(self, values: torch.Tensor) -> np.ndarray:
        """Return values of the samples of whole groups as an array (P, n), float64."""
        table: np.ndarray = values.double().cpu().numpy().reshape(-1, self.num_generations)
        return table

    def _compute_loss(self, model: Any, inputs: MicroBatch) -> torch.Tensor:
        if not self.model.training:
            return super()._compute_loss(model, inputs)
        if self._is_stale() and self._rollout.whole:
            self._on_loss_pass = functools.partial(self._correct_groups, inputs)
            # The advantages that this will set are unknown yet, and so are those that are 0.
            return super()._compute_loss(model, inputs)
        if self.args.skip_zero_advantages:
            inputs = self._without_idle_samples(inputs)
        if self._is_stale() and not self._learner.objective.needs_ratios:
            self._on_loss_pass = functools.partial(self._log_drift, inputs)
        return super()._compute_loss(model, inputs)

    def _without_idle_samples(self, inputs: MicroBatch) -> MicroBatch:
        """Return a micro-batch of the samples with an advantage, as many in every process."""
        count = (inputs["advantages"] != 0).sum().clamp(min=1)[None]
        # Every process keeps as many, because TRL gathers one value a sample of all of them.
        most = int(self.accelerator.gather(count).max())
        return batches.of_most_signal(inputs, most)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        forward = super()._get_per_token_logps_and_entropies
        if self._shared_passes is not None:
            unwrapped = self.accelerator.unwrap_model(model)
            forward = functools.partial(self._shared_passes.run, forward, unwrapped)
        logps_and_entropies = forward(model, *args, **kwargs)
        on_loss_pass = self._on_loss_pass
        self._on_loss_pass = None  # which is for this pass alone
        if on_loss_pass is not None:
            on_loss_pass(logps_and_entropies[0].detach())
        return logps_and_entropies

    def _correct_groups(self, batch: MicroBatch, logps: torch.Tensor) -> None:
        """Set the advantages of whole groups by the ratios of the loss's own pass."""
        log_ratios = batches.log_ratios(batch, logps)
        gathered_groups = self._rollout.at(self.accelerator.gather(batch[GROUP_ROW]).cpu().numpy())
        gathered_ratios = self._by_group(self.accelerator.gather(log_ratios))
        self._drift.add(gathered_ratios, masked=gathered_groups.masked, k=gathered_groups.k)
        groups = self._rollout.at(batch[GROUP_ROW].cpu().numpy())
        corrected = self._learner.advantages(groups, self._by_group(log_ratios))
        _set_advantages(batch, corrected.reshape(-1))

    def _log_drift(self, batch: MicroBatch, logps: torch.Tensor) -> None:
        """Log how far the policy has moved, where the advantages do not depend on it."""
        local_ratios = batches.log_ratios(batch, logps)
        ratios = self.accelerator.gather(local_ratios).double().cpu().numpy()
        rows = self.accelerator.gather(batch[GROUP_ROW]).cpu().numpy()
        masked = self._rollout.masked
        masked_rows = None if masked is None else masked.ravel()[rows]
        self._drift.add(ratios, masked=masked_rows)


def _set_advantages(batch: MicroBatch, advantages: np.ndarray) -> None:
    like = batch["advantages"]
    tensor = torch.from_numpy(np.ascontiguousarray(advantages))
    batch["advantages"] = tensor.to(like.device, like.dtype)
