"""Checkpoints from which a training goes on to the bit, also in the middle of a rollout batch."""

from __future__ import annotations

import dataclasses
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from maxatk.folders import last_checkpoint
from maxatk.objectives.objective import Objective
from maxatk.train.last_step import EndsAtLastStep
from maxatk.train.rollout_batch import RolloutBatch
from maxatk.train.rollout_trainer import RolloutTrainer
from maxatk.training import Learner
from maxatk.writing import atomic_write

# Settings that a rollout batch in a checkpoint was drawn, scored or cut into micro-batches with,
# beside those of the objective. Under others its columns lack, or mean something else.
_MADE_WITH = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "num_iterations",
    "num_generations",
    "temperature",
    "beta",
    "mask_truncated_completions",
    "reward_weights",
    "behaviour",
    "use_vllm",
    "vllm_importance_sampling_correction",
    "vllm_importance_sampling_mode",
)


class ResumingTrainer(EndsAtLastStep, RolloutTrainer):
    """A trainer whose checkpoints hold what is left of a rollout batch, and the running scale.

    TRL's have neither: a run that resumes would draw a new rollout batch, and go through the
    prompts of a later epoch in the order of the first. An interrupted trainer may be the one that
    goes on.
    """

    _buffered_inputs: Any  # of TRL: the micro-batches of the rollout batch
    _rollout: RolloutBatch  # the one that is trained on, from the first one on

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._sampler: Any = None  # of a training that has begun on a set with a length

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does, from the checkpoint alone: nothing stays of an earlier training.

        True stands for the newest complete checkpoint.
        """
        self._forget_training()
        if resume_from_checkpoint is True:
            # transformers would fail at one that Ctrl-C or a kill has cut off.
            resume_from_checkpoint = last_checkpoint(Path(self.args.output_dir)) or True
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def _forget_training(self) -> None:
        """Set what is kept between two micro-batches to what it is in a new trainer."""
        self._step = 0
        self._buffered_inputs = None
        self._learner = Learner(self.args.objective)  # whose scale runs over the rollout batches
        # What TRL sums up for the next row of the log.
        self._current_train_step_time = 0.0
        self._entropy_window_stats = None
        self._metrics: Any = {"train": defaultdict(list), "eval": defaultdict(list)}
        self._pending_extra_logs: Any = defaultdict(list)
        self._pending_metrics: Any = defaultdict(list)
        self._last_loaded_step = -1  # the step whose weights vLLM has: those may be others now

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        # Tied weights are stored under one of their names: the others are not lost.
        if getattr(self.model.config, "tie_word_embeddings", False):
            tied = getattr(self.model, "_tied_weights_keys", None) or ()
            missing = load_result.missing_keys
            missing[:] = [name for name in missing if name not in tied]
        super()._issue_warnings_after_load(load_result)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Before TRL's own files, of which the last tells a complete checkpoint.
        folder = Path(self._get_output_dir(trial=trial))
        checkpoint = folder / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        within_rollout_batch = self._step % (self.args.steps_per_generation * self.num_iterations)
        if within_rollout_batch:
            state = {
                "made_with": self._made_with(),
                "step": self._step,
                "slices": self._buffered_inputs,
                "rollout_batch": msgspec.to_builtins(self._rollout, enc_hook=np.ndarray.tolist),
            }
            with atomic_write(self._buffer_file(checkpoint)) as partial:
                torch.save(state, partial)
        if self.args.should_save:
            self._learner.save(checkpoint)
        super()._save_checkpoint(model, trial)

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
        self._sampler = super()._get_train_sampler(*args, **kwargs)
        return self._sampler

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        # transformers skips the batches of the epochs that are done without shuffling for them, so
        # the order of the prompts would be that of the first epoch again.
        if self._sampler is not None and self._sampler.shuffle:
            for _ in range(int(self.state.epoch or 0)):
                torch.randperm(self._sampler.num_samples, generator=self._sampler.generator)
        folder = Path(checkpoint)
        self._learner.load(folder)
        device = self.accelerator.device
        if device.type == "cpu":  # torch.load knows no number of a CPU
            device = torch.device("cpu")
        file = self._buffer_file(folder)
        if file.is_file():
            self._take_buffer(torch.load(file, map_location=device, weights_only=True), folder)
        elif list(folder.glob("buffer-*-of-*.pt")):
            processes = self.accelerator.num_processes
            _warn_of_drop(folder, f"another number of processes than {processes}")

    def _take_buffer(self, state: dict[str, Any], folder: Path) -> None:
        """Go on with what a checkpoint has left of a rollout batch, if it was made as one is now.

        A warning names the settings that are others now, with which the next batch is drawn.
        """
        now = self._made_with()
        # A version of before may not have had a setting of now, so that nobody knows its value.
        before = {name: state["made_with"].get(name, "unknown") for name in now}
        changed = [name for name, value in now.items() if before[name] != value]
        if changed:
            named = [f"{name} {before[name]!r} (now {now[name]!r})" for name in changed]
            _warn_of_drop(folder, f"a training with {', '.join(named)}")
            return
        self._step = state["step"]
        self._buffered_inputs = state["slices"]
        self._rollout = msgspec.convert(
            state["rollout_batch"], RolloutBatch, dec_hook=lambda _, values: np.array(values)
        )

    def _made_with(self) -> dict[str, Any]:
        """Return the settings that the rollout batch depends on, as JSON has them."""
        objective_settings = [field.name for field in dataclasses.fields(Objective)]
        names = [name for name in (*_MADE_WITH, *objective_settings) if hasattr(self.args, name)]
        return {name: getattr(self.args, name) for name in names}

    def _buffer_file(self, checkpoint: Path) -> Path:
        world = self.accelerator.num_processes
        rank = self.accelerator.process_index
        return checkpoint / f"buffer-{rank}-of-{world}.pt"


def _warn_of_drop(folder: Path, of: str) -> None:
    warnings.warn(
        f"{folder}: was written by {of}; what was left of a rollout batch is dropped", stacklevel=3
    )
