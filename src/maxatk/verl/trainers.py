"""Entry point `verl.plugins`: two trainers, and all that touches verl's V1 trainer.

A correction is found in one of two places. Where micro-batches hold whole groups, the loss knows
all ratios (`loss.group_loss`), under any number of mini-batches and epochs. Where they do not, a
forward pass before each optimizer step finds them.

The methods that are overridden, in the order in which verl calls them at a step:

    on_train_begin            the record opens, after the checkpoint that a training goes on from
    _balance_batch            whole groups lie together, filled up to as many rows
    _compute_advantage        the learner's step; verl spreads it over the tokens
    _update_actor             one call of the workers, or one an optimizer step with `_refresh`
    _compute_metrics          the row of the log
    _save_checkpoint          the running scale
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.padding import response_from_nested

from maxatk.training import Learner, TrainingRecord
from maxatk.verl import loss, options, sessions
from maxatk.verl.balancing import balanced_order, filled_groups, prompt_of, rows_of_group
from maxatk.verl.installation import check_versions
from maxatk.verl.log import FIELDS, log_row, logged_values, record_groups
from maxatk.verl.rows import selection_scores, validation_metrics


class MaxAtKTrainer(PPOTrainer):
    """A trainer of verl with the advantages of this package at every optimizer step.

    Raises InvalidValueError for settings that do not fit, MissingDependencyError for such a verl.
    """

    _mode: str  # what verl calls it

    def __init__(self, config: Any) -> None:
        check_versions()
        objective = options.check_config(config)
        self._learner = Learner(objective)
        self._k = objective.k  # of the rollout batch that is trained on
        self._record: TrainingRecord | None = None  # until the training begins
        self._fields = ["uid", "response_mask", "rm_scores", loss.SESSION]
        if objective.selection is not None:
            self._fields.append(loss.SELECTION_KEY)
        self._n = config.actor_rollout_ref.rollout.n
        self._rows_of_group = self._n  # of the batch; more where sessions have several outputs
        self._ranks = options.data_parallel(config)
        self._corrects_in_loss = objective.needs_ratios and options.holds_whole_groups(config)
        self._corrects_on_driver = objective.needs_ratios and not self._corrects_in_loss
        actor = config.actor_rollout_ref.actor
        self._epochs = actor.ppo_epochs
        self._groups_of_mini_batch = actor.ppo_mini_batch_size
        self._mini_batches = config.data.train_batch_size // self._groups_of_mini_batch
        with open_dict(config):
            # verl compares the mode with "sync" in six places; any other name makes the replay
            # buffer, the dataloader and the checkpoints asynchronous.
            config.trainer.v1.trainer_mode = self._mode
            if self._corrects_in_loss and not actor.use_dynamic_bsz:
                # With `force_group_size`, which keeps groups whole, verl counts groups here.
                actor.ppo_micro_batch_size_per_gpu //= self._n
            if self._corrects_on_driver:
                # This class loops over epochs and mini-batches, because advantages are found again
                # before each: a call of the workers is one optimizer step.
                actor.ppo_epochs = 1
        super().__init__(config)

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        if self._corrects_on_driver:
            # The workers step their scheduler at the end of every call, which is one optimizer step
            # here and a whole rollout batch in verl.
            steps_a_batch = self._epochs * self._mini_batches
            optim = self.config.actor_rollout_ref.actor.optim
            with open_dict(optim):
                optim.total_training_steps *= steps_a_batch
                if optim.lr_warmup_steps > 0:
                    optim.lr_warmup_steps *= steps_a_batch

    def _setup(self) -> None:
        super()._setup()
        if self._corrects_in_loss:
            actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
            group_loss = partial(loss.group_loss, actor, self._learner.objective, self._n)
            self.actor_rollout_wg.set_loss_fn(group_loss)

    def on_train_begin(self) -> None:
        """Open the record, after the checkpoint that a training goes on from."""
        super().on_train_begin()
        most = options.groups_kept(self.config.algorithm)
        if most:
            self._record = TrainingRecord(
                self.config.trainer.default_local_dir,
                self._learner.objective,
                group_size=self._n,
                steps=self.total_training_steps,
                step=self.global_steps - 1,
                most=most,
                batches=options.parts_of_rollout_batch(self.config),
            )

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **others: Any) -> Any:
        """Return whole groups, filled to as many rows, and as many tokens of them for each rank."""
        if not self._learner.objective.needs_ratios:
            return super()._balance_batch(batch, metrics, **others)
        # verl's own filling knows no groups: it would leave some with fewer rows than n.
        groups = len({prompt_of(key) for key in batch.keys})
        mini_batches = math.ceil(groups / self._groups_of_mini_batch)
        self._rows_of_group = rows_of_group(batch.keys, self._n)
        row_count = mini_batches * self._groups_of_mini_batch * self._rows_of_group
        batch = upsample_batch_to_divisible_size(batch, row_count, self.tokenizer.eos_token_id)
        rows = filled_groups(batch, self._rows_of_group)
        tokens = np.asarray([sum(batch.tags[row]["seq_len"] for row in group) for group in rows])
        ranks = self._ranks if self._corrects_in_loss else 1
        order = balanced_order(tokens, mini_batches=mini_batches, ranks=ranks)
        batch.reorder([row for group in order for row in rows[group]])
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        objective = self._learner.objective
        self._k = objective.k_at((self.global_steps - 1) / max(self.total_training_steps, 1))
        if objective.selection is not None:
            # A column in the shape of verl's own, so that it is cut into micro-batches with them.
            data = self._fetch(batch, ["response_mask", "extra_fields"])
            scores = selection_scores(list(data["extra_fields"]), objective.selection)
            self._put(batch, loss.SELECTION_KEY, loss.spread(data, scores))
        data = self._fetch(batch, [*self._fields, *FIELDS])
        advantages = self._step(data, metrics)
        # verl has no argument by which a trainer hands advantages to its estimator: they travel in
        # the configuration, where `plugin.maxatk_advantage` finds them and spreads them.
        with open_dict(self.config.algorithm):
            self.config.algorithm.maxatk[options.CURRENT] = advantages.tolist()
            batch = super()._compute_advantage(batch, metrics)
            del self.config.algorithm.maxatk[options.CURRENT]
        return batch

    def _step(self, data: Any, metrics: dict[str, Any]) -> np.ndarray:
        """Return one advantage a row (N,), 0 without a trained token; log and record the groups."""
        rows = loss.trained_rows(data, self._n)
        if not len(rows.places):
            return np.zeros(len(rows.ids))
        selection = loss.row_selection(self._learner.objective, data)
        groups = rows.groups(loss.row_rewards(data), self._k, selection=selection)
        members = rows.members
        tokens = [
            [str([data["responses"][row].tolist() for row in part]) for part in group]
            for group in members
        ]
        step = self._learner.step(groups, tokens)
        metrics.update(logged_values(step))
        if self._record is not None:
            record_groups(
                self._record,
                groups,
                step,
                number=self.global_steps,
                members=members,
                data=data,
                tokenizer=self.tokenizer,
            )
        return rows.of_batch(step.advantages)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._corrects_in_loss:
            factor = self._learner.factor(self._n)
            batch.extra_info.update(
                {
                    "force_group_size": self._rows_of_group,
                    loss.K_KEY: self._k,
                    loss.FACTOR_KEY: factor,
                }
            )
        if not self._corrects_on_driver:
            return self._update_whole(batch, metrics)
        collected: dict[str, list[float]] = defaultdict(list)
        size = self._groups_of_mini_batch * self._rows_of_group
        # Ratios are one before the first step, unless the samples are of other weights.
        on_policy = not options.keeps_sampler_log_probs(self.config)
        for _ in range(self._epochs):
            for start in range(0, len(batch), size):  # whole groups, balanced over the ranks
                part = batch.select_keys(batch.keys[start : start + size])
                part = super()._balance_batch(part, metrics={})
                part_metrics: dict[str, Any] = {} if on_policy else self._refresh(part)
                on_policy = False
                self._update_whole(part, part_metrics)
                for name, value in part_metrics.items():
                    collected[name].append(value)
        metrics.update({name: float(np.mean(values)) for name, values in collected.items()})
        return batch

    def _update_whole(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Do verl's update, whose mini-batches are so many groups of `rollout.n` rows each."""
        rollout = self.config.actor_rollout_ref.rollout
        with open_dict(rollout):
            rollout.n = self._rows_of_group
            try:
                return super()._update_actor(batch, metrics)
            finally:
                rollout.n = self._n

    def _refresh(self, batch: Any) -> dict[str, float]:
        """Put today's advantages into a batch of whole groups, and return what to log of them."""
        rollout = self.config.actor_rollout_ref.rollout
        batch.extra_info.update(
            calculate_entropy=False, compute_loss=False, temperature=rollout.temperature
        )
        if not rollout.log_prob_use_dynamic_bsz:  # made for whole batches; a mini-batch is smaller
            batch.extra_info["micro_batch_size_per_gpu"] = math.gcd(
                len(batch) // self._ranks, rollout.log_prob_micro_batch_size_per_gpu
            )
        self.actor_rollout_wg.compute_log_prob(batch)
        batch.extra_info.pop("micro_batch_size_per_gpu", None)  # the update has its own
        data = self._fetch(batch, [*self._fields, "old_log_probs", "log_probs"])
        now = response_from_nested(data["log_probs"], data["response_mask"]).to_padded_tensor(0.0)
        unscaled, moved = loss.corrected_rows(
            self._learner.objective, data, now, k=self._k, group_size=self._n
        )
        scaled = self._learner.factor(self._n) * unscaled
        self._put(batch, "advantages", loss.spread(data, scaled))
        return moved

    def _fetch(self, batch: Any, fields: list[str]) -> Any:
        return tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=fields
        )

    def _put(self, batch: Any, name: str, column: torch.Tensor) -> None:
        fields = TensorDict({name: column}, batch_size=len(batch))
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _save_checkpoint(self) -> None:
        root = Path(self.config.trainer.default_local_dir)
        # Before verl calls the checkpoint complete.
        self._learner.save(root / f"global_step_{self.global_steps}")
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps == 0:  # a training that begins
            return
        trainer = self.config.trainer
        folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if trainer.resume_mode == "resume_path":
            folder = Path(trainer.resume_from_path)
        self._learner.load(folder)

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], *others: Any, **more: Any
    ) -> None:
        super()._compute_metrics(batch, metrics, *others, **more)
        if self._record is not None:
            row = log_row(metrics)
            if self.global_steps >= self.total_training_steps:
                row["train_runtime"] = self._record.seconds  # by which a page knows that it ended
            self._record.log(self.global_steps, row)
            self._record.send(self.config.trainer.logger, step=self.global_steps)

    def _val_metrics_update(
        self, sources: Any, ids: Any, columns: Any, *others: Any, **more: Any
    ) -> dict[str, float]:
        metrics = super()._val_metrics_update(sources, ids, columns, *others, **more)
        for name in [name for name in metrics if "/best@" in name]:
            # verl's own draws with replacement: it stands aside.
            metrics[name.replace("val-core", "val-aux")] = metrics.pop(name)
        k = self._learner.objective.k
        return metrics | validation_metrics(sources, ids, columns, k=k)


sessions.tell_estimator()


@register_trainer(options.MODE)
class MaxAtKTrainerSync(MaxAtKTrainer, PPOTrainerSync):
    """verl's synchronous trainer, which samples and trains in turns."""

    _mode = "sync"


@register_trainer(options.ASYNC_MODE)
class MaxAtKTrainerSeparateAsync(MaxAtKTrainer, PPOTrainerSeparateAsync):
    """verl's asynchronous trainer; ratios are to the weights that sampled, some steps ago."""

    _mode = "separate_async"
