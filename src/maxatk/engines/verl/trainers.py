"""Entry point `verl.plugins`: two trainers, and all that touches verl's V1 trainer.

A correction is found in one of two places. Where micro-batches hold whole groups, the loss knows
all ratios (`loss.group_loss`), under any number of mini-batches and epochs. Where they do not, a
forward pass before each optimizer step finds them.
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

from maxatk.engines.verl import loss, options
from maxatk.engines.verl.record import FIELDS, OWN, Record
from maxatk.engines.verl.rows import selection_scores, validation_metrics
from maxatk.engines.verl.surface import check_versions
from maxatk.errors import InvalidValueError
from maxatk.objectives.layout import layout_of_ids
from maxatk.statistics.groups import group_values
from maxatk.statistics.symptoms import WITHOUT


class MaxAtKTrainer(PPOTrainer):
    """A trainer of verl with the advantages of this package at every optimizer step.

    Raises InvalidValueError for settings that do not fit, MissingDependencyError for such a verl.
    """

    _mode: str  # what verl calls it

    def __init__(self, config: Any) -> None:
        check_versions()
        self._objective = options.check_config(config)
        self._scale = self._objective.scale()
        self._record: Record | None = None  # until the training begins
        self._fields = ["uid", "response_mask", "rm_scores"]
        if self._objective.selection is not None:
            self._fields.append(loss.SELECTION_KEY)
        self._n = config.actor_rollout_ref.rollout.n
        self._ranks = options.data_parallel(config)
        self._in_loss = self._objective.needs_ratios and options.holds_whole_groups(config)
        self._on_driver = self._objective.needs_ratios and not self._in_loss
        actor = config.actor_rollout_ref.actor
        self._epochs, self._mini = actor.ppo_epochs, actor.ppo_mini_batch_size
        self._parts = config.data.train_batch_size // self._mini
        with open_dict(config):
            # verl compares the mode with "sync" in six places; any other name makes the replay
            # buffer, the dataloader and the checkpoints asynchronous.
            config.trainer.v1.trainer_mode = self._mode
            if self._in_loss and not actor.use_dynamic_bsz:
                actor.ppo_micro_batch_size_per_gpu //= self._n  # verl counts forced groups then
            if self._on_driver:
                actor.ppo_epochs = 1  # this class loops; a call of the worker is one step
        super().__init__(config)

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        if self._on_driver:  # the worker steps its scheduler at the end of every call
            optim = self.config.actor_rollout_ref.actor.optim
            with open_dict(optim):
                optim.total_training_steps *= self._epochs * self._parts
                if optim.lr_warmup_steps > 0:
                    optim.lr_warmup_steps *= self._epochs * self._parts

    def _setup(self) -> None:
        super()._setup()
        if self._in_loss:
            actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
            group_loss = partial(loss.group_loss, actor, self._objective, self._n)
            self.actor_rollout_wg.set_loss_fn(group_loss)

    def on_train_begin(self) -> None:
        """Open the record, after the checkpoint that a training goes on from."""
        super().on_train_begin()
        if most := options.groups_kept(self.config.algorithm):
            places = {"step": self.global_steps - 1, "steps": self.total_training_steps}
            each = -(-most // options.updates(self.config))
            self._record = Record(self.config, self._objective, **places, most=each)

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **others: Any) -> Any:
        """Return whole groups, filled to n rows, about as many tokens of them for each rank."""
        if any(key.rsplit("_", 1)[1] != "0" for key in batch.keys):
            raise InvalidValueError(
                "actor_rollout_ref.rollout.agent: an agent loop gave several outputs for one "
                "sample, which would count as samples of their own; use a loop with one output"
            )
        if not self._objective.needs_ratios:
            return super()._balance_batch(batch, metrics, **others)
        groups = len({key.rsplit("_", 2)[0] for key in batch.keys})  # {uid}_{session}_{output}
        whole = -(-groups // self._mini) * self._mini  # verl's own filling knows no groups
        eos = self.tokenizer.eos_token_id
        batch = upsample_batch_to_divisible_size(batch, whole * self._n, eos)
        rows = _filled_groups(batch, self._n)
        tokens = np.asarray([sum(batch.tags[row]["seq_len"] for row in group) for group in rows])
        ranks = self._ranks if self._in_loss else 1
        order = _dealt(tokens, parts=whole // self._mini, ranks=ranks)
        batch.reorder([row for group in order for row in rows[group]])
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self._k = self._objective.k_at((self.global_steps - 1) / max(self.total_training_steps, 1))
        if (key := self._objective.selection) is not None:  # a column in the shape of verl's own
            data = self._fetch(batch, ["response_mask", "extra_fields"])
            scores = selection_scores(list(data["extra_fields"]), key)
            self._put(batch, loss.SELECTION_KEY, loss.spread(data, scores))
        data = self._fetch(batch, [*self._fields, *FIELDS])
        found = loss.row_advantages(self._objective, data, k=self._k, group_size=self._n)
        layout = layout_of_ids(loss.row_ids(data), least=self._n)
        self._scale.observe(np.nan_to_num(layout.rows("advantages", found)))
        with open_dict(self.config.algorithm):
            told = self._scale.factor(self._n) * found
            self.config.algorithm.maxatk[options.CURRENT] = told.tolist()
            batch = super()._compute_advantage(batch, metrics)
            del self.config.algorithm.maxatk[options.CURRENT]
        data["advantages"] = loss.spread(data, told)
        self._observe(data, told, metrics)
        return batch

    def _observe(self, data: Any, told: np.ndarray, metrics: dict[str, Any]) -> None:
        """Log and record the groups of a rollout batch, without the rows that fill it."""
        mask = data["response_mask"].to_padded_tensor(0).sum(-1).cpu().numpy()
        real, ids, rewards = np.flatnonzero(mask), loss.row_ids(data), loss.row_rewards(data)
        groups: dict[str, list[int]] = defaultdict(list)
        for row in real:
            groups[ids[row]].append(int(row))
        layout = layout_of_ids([ids[row] for row in real], least=self._n)
        values = group_values(
            layout.rows("rewards", rewards[real]),
            np.nan_to_num(layout.rows("advantages", told[real])),
            [[str(data["responses"][row].tolist()) for row in rows] for rows in groups.values()],
            k=self._k,
        )
        values[WITHOUT] = float(np.isnan(rewards[real]).mean())
        values["reward"] = float(np.nanmean(rewards[real])) if values[WITHOUT] < 1 else math.nan
        metrics.update({OWN + name: value for name, value in values.items()})
        if self._record is not None:
            rows = list(groups.values())
            self._record.add(self.global_steps, data, self.tokenizer, rows, k=self._k)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._in_loss:
            told = {loss.K_KEY: self._k, loss.FACTOR_KEY: self._scale.factor(self._n)}
            batch.extra_info.update({"force_group_size": self._n, **told})
        if not self._on_driver:
            return super()._update_actor(batch, metrics)
        collected: dict[str, list[float]] = defaultdict(list)
        size = self._mini * self._n
        # Ratios of one before the first step.
        fresh = not options.keeps_sampler_log_probs(self.config)
        for _ in range(self._epochs):
            for start in range(0, len(batch), size):  # whole groups, balanced over the ranks
                part = batch.select_keys(batch.keys[start : start + size])
                part = super()._balance_batch(part, metrics={})
                own: dict[str, Any] = {} if fresh else self._refresh(part)
                fresh = False
                super()._update_actor(part, own)
                for name, value in own.items():
                    collected[name].append(value)
        metrics.update({name: float(np.mean(values)) for name, values in collected.items()})
        return batch

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
        found, moved = loss.corrected(self._objective, data, now, k=self._k, group_size=self._n)
        self._put(batch, "advantages", loss.spread(data, self._scale.factor(self._n) * found))
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
        self._scale.save(root / f"global_step_{self.global_steps}")  # before verl calls it complete
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        trainer = self.config.trainer
        folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if trainer.resume_mode == "resume_path":
            folder = Path(trainer.resume_from_path)
        if self.global_steps > 0:
            self._scale.load(folder)

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], *others: Any, **more: Any
    ) -> None:
        super()._compute_metrics(batch, metrics, *others, **more)
        if self._record is not None:
            ended = self.global_steps >= self.total_training_steps
            self._record.log(self.global_steps, metrics, ended=ended)

    def _val_metrics_update(
        self, sources: Any, ids: Any, columns: Any, *others: Any, **more: Any
    ) -> dict[str, float]:
        found = super()._val_metrics_update(sources, ids, columns, *others, **more)
        for name in [name for name in found if "/best@" in name]:
            # verl's own draws with replacement: it stands aside.
            found[name.replace("val-core", "val-aux")] = found.pop(name)
        return found | validation_metrics(sources, ids, columns, k=self._objective.k)


@register_trainer(options.MODE)
class MaxAtKTrainerSync(MaxAtKTrainer, PPOTrainerSync):
    """verl's synchronous trainer, which samples and trains in turns."""

    _mode = "sync"


@register_trainer(options.ASYNC_MODE)
class MaxAtKTrainerSeparateAsync(MaxAtKTrainer, PPOTrainerSeparateAsync):
    """verl's asynchronous trainer; ratios are to the weights that sampled, some steps ago."""

    _mode = "separate_async"


def _filled_groups(batch: Any, n: int) -> list[list[int]]:
    """Return the rows of every group, those that lost rollouts filled up with verl's empty rows."""
    by_prompt, spare = defaultdict[str, list[int]](list), []
    for row, (key, tag) in enumerate(zip(batch.keys, batch.tags, strict=True)):
        if tag.get("is_padding"):
            spare.append(row)
        else:
            by_prompt[key.rsplit("_", 2)[0]].append(row)
    groups = list(by_prompt.values())
    for group in groups:
        group += [spare.pop() for _ in range(n - len(group))]
    return groups + [spare[start : start + n] for start in range(0, len(spare), n)]


def _dealt(tokens: np.ndarray, *, parts: int, ranks: int) -> list[int]:
    """Return the order of G groups in which the ranks' shares lie, each cut into mini-batches.

    Long groups are dealt first, to the rank with the fewest tokens so far.
    """
    each = len(tokens) // ranks
    shares: list[list[int]] = [[] for _ in range(ranks)]
    for group in np.argsort(-tokens, kind="stable"):
        free = [share for share in shares if len(share) < each]
        min(free, key=lambda share: sum(tokens[g] for g in share)).append(int(group))
    order = []
    for share in shares:
        for part in range(parts):  # long and short groups in each of its mini-batches
            order += share[part::parts]
    return order
