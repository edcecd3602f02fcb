"""Asynchronous training for max@k: TRL's AsyncGRPOTrainer with the advantages of whole groups.

TRL forms advantages in another process. A method with a correction gets them again in the loss,
from the ratios of the whole group to the weights that sampled it: section 3.3 and eq. (10).
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import trl

from maxatk.check import needing, require
from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Objective
from maxatk.statistics.groups import group_values
from maxatk.statistics.symptoms import WITHOUT
from maxatk.train import log
from maxatk.train.config import UNTRUNCATED, WithObjective, require_settings
from maxatk.train.rollouts import refuse_best_of

with needing(f"trl {trl.__version__}: asynchronous training needs 1.16: pip install 'trl>=1.16'"):
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop
    from trl.experimental.async_grpo.packing import TreeRow
    from trl.trainer.utils import disable_dropout_in_model

__all__ = ["MaxAtKAsyncConfig", "MaxAtKAsyncTrainer", "MaxAtKRolloutLoop"]

# What the rows of a group carry in the metrics, the only field that TRL hands on unread.
_PLACE = "maxatk/place"  # of the conversation in its group
_ROWS = "maxatk/rows"  # of the whole group; a conversation may have several
# What the collator adds to a micro-batch, both with one line a process.
_REWARDS = "maxatk_rewards"  # of all conversations, group by group
_CONVERSATION = "maxatk_conversation"  # of each row


@dataclasses.dataclass
class MaxAtKAsyncConfig(WithObjective, AsyncGRPOConfig):
    """Settings of `MaxAtKAsyncTrainer`: AsyncGRPOConfig's, and some of `MaxAtKConfig`.

    Raises InvalidValueError for a value that is not allowed; with a correction also for what splits
    groups or truncates the sampler's distribution, whose probabilities the trainer would not have.
    """

    method: str | dict[str, Any] = "bon_off_policy_exact"
    k: int = 4
    form: str = "ppo"
    delta_clamp: float | None = 0.5
    max_weight: float = 1.0
    token_budget: int | None = 0  # a correction needs micro-batches of whole groups

    def __post_init__(self) -> None:
        self.check_objective()
        if self.objective.needs_ratios:
            of = f"the method {self.method!r}"
            require_settings(self, UNTRUNCATED, f"with {of}, made of ratios")
            rows, group = self.per_device_train_batch_size, self.num_generations
            allowed = f"a multiple of num_generations {group}, whose groups {of} needs whole"
            require(rows % group == 0, "per_device_train_batch_size", allowed, rows)
            why = f"with {of}, which needs whole groups in a micro-batch"
            require_settings(self, {"token_budget": (0,)}, why)
        super().__post_init__()


class MaxAtKRolloutLoop(_AsyncRolloutLoop):
    """TRL's loop that samples and scores, with the advantages of an `objective`.

    A worker of your own is an AsyncRolloutWorker with `_loop_cls = MaxAtKRolloutLoop` that is given
    `objective=config.objective`.
    """

    def __init__(self, *, objective: Objective, **settings: Any) -> None:
        super().__init__(**settings)
        self._objective = objective

    async def _score_group(self, group: Any) -> list[Any]:
        """Return TRL's rows of a group, with this package's advantages and log."""
        samples: list[Any] = await super()._score_group(group)
        counts = [len(sequences) for sequences in group.completions_sequences]
        places = np.repeat(np.arange(len(counts)), counts)
        rewards = np.full((1, len(counts)), np.nan)  # of a conversation without a trained token
        for place, sample in zip(places, samples, strict=True):
            rewards[0, place] = sample.metrics["reward"]
        fresh = _advantages(self._objective, rewards)
        texts = [str(ids) for ids in group.completions_ids]
        found = group_values(rewards, fresh[None], [texts], k=self._objective.k)
        found[WITHOUT] = float(np.isnan(rewards).mean())
        for place, sample in zip(places, samples, strict=True):
            sample.advantage = float(fresh[place])
            sample.metrics |= found
            if self._objective.needs_ratios:
                sample.metrics |= {_PLACE: float(place), _ROWS: float(len(samples))}
        return samples


@dataclasses.dataclass
class WholeGroups(torch.utils.data.IterableDataset):
    """Micro-batches of whole groups from TRL's stream, without those it has dropped a part of."""

    rows: Iterable[Mapping[str, Any]]
    pack: Callable[[list[list[TreeRow]]], dict[str, Any]]  # TRL's collator
    processes: int
    groups: int  # a process
    size: int  # of a group
    metrics: Mapping[str, list[float]]  # which count the rows of groups that are dropped

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield micro-batches of TRL with rewards of groups, and the conversation of each row."""
        whole, count = self._whole(), self.processes * self.groups
        while len(waiting := list(itertools.islice(whole, count))) == count:
            packed = [TreeRow() for _ in range(self.processes)]
            places: list[list[int]] = [[] for _ in packed]
            rewards = torch.full((self.processes, self.groups * self.size), torch.nan).double()
            for number, group in enumerate(waiting):
                first, process = divmod(number, self.processes)
                for row in group:
                    del row["metrics"][_ROWS]
                    place = first * self.size + int(row["metrics"].pop(_PLACE))
                    packed[process].add(row)
                    places[process].append(place)
                    rewards[process, place] = row["metrics"]["reward"]
            padded = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(own) for own in places], batch_first=True, padding_value=-1
            )
            yield {**self.pack([packed]), _REWARDS: rewards, _CONVERSATION: padded}

    def _whole(self) -> Iterator[list[Mapping[str, Any]]]:
        group: list[Mapping[str, Any]] = []
        for row in self.rows:
            if group and group[0]["group_id"] != row["group_id"]:
                self.metrics["sample/dropped_incomplete_total"].append(float(len(group)))
                group = []
            group.append(row)
            if len(group) == row["metrics"][_ROWS]:
                yield group
                group = []


class MaxAtKAsyncTrainer(AsyncGRPOTrainer):
    """Train for max@k while a server samples: an AsyncGRPOTrainer with advantages of this package.

    Takes the arguments of TRL's AsyncGRPOTrainer. A correction sets the advantages in every
    micro-batch, from the ratios pi_theta / pi_sampled of whole conversations. Dropout is off.

    Raises InvalidValueError for settings of another class, a reward of `maxatk.best_of`, and a
    `rollout_worker` that scores groups by itself, since TRL's divides by the deviation.
    """

    def __init__(
        self,
        model: str,
        reward_funcs: Any = None,
        args: MaxAtKAsyncConfig | None = None,
        *more: Any,
        rollout_worker: Any = None,
        **others: Any,
    ) -> None:
        if not isinstance(args, MaxAtKAsyncConfig):
            raise InvalidValueError(f"args: must be a MaxAtKAsyncConfig, got {type(args).__name__}")
        refuse_best_of(reward_funcs if isinstance(reward_funcs, list) else [reward_funcs])
        own_loop = getattr(rollout_worker, "_loop_cls", object)
        if rollout_worker is not None and not issubclass(own_loop, MaxAtKRolloutLoop):
            raise InvalidValueError(
                f"rollout_worker: {type(rollout_worker).__name__} scores groups by itself (TRL's "
                "divides by their deviation); allowed: None, or a _loop_cls of MaxAtKRolloutLoop"
            )
        self._objective = args.objective
        super().__init__(model, reward_funcs, args, *more, rollout_worker=rollout_worker, **others)
        disable_dropout_in_model(self.model)
        if rollout_worker is None and self.rollout_worker is not None:  # the main process alone
            self.rollout_worker._loop_cls = MaxAtKRolloutLoop
            self.rollout_worker._loop_kwargs["objective"] = self._objective

    def get_train_dataloader(self) -> Any:
        """Return TRL's loader; with a correction, of micro-batches of whole groups."""
        loader = super().get_train_dataloader()
        if not self._objective.needs_ratios:
            return loader
        rows, size = loader.dataset, self.args.num_generations
        if self.accelerator.is_main_process:
            rows = WholeGroups(
                self._rollout_dataset,
                loader.collate_fn,
                processes=self.accelerator.num_processes,
                groups=self.args.per_device_train_batch_size // size,
                size=size,
                metrics=self._metrics["train"],
            )
        one = operator.itemgetter(0)  # a micro-batch of all processes
        return self.accelerator.prepare(
            torch.utils.data.DataLoader(rows, batch_size=1, collate_fn=one)
        )

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """Return TRL's loss; with a correction, of advantages that its own forward pass sets."""
        if not self._objective.needs_ratios:
            return super().compute_loss(model, inputs, *args, **kwargs)
        selected = inputs["token_index"] >= 0
        token_index = inputs["token_index"][selected]
        sampled, advantages = inputs["old_log_probs"][selected], inputs["advantages"][selected]
        conversation = inputs[_CONVERSATION][0][inputs["segment_id"][selected]]
        rewards, size = inputs[_REWARDS], self.args.num_generations

        def forward(**tokens: Any) -> Any:
            outputs = model(**tokens)
            now = outputs.log_probs.detach().flatten()[token_index]
            log_ratios = torch.zeros_like(rewards[0])
            log_ratios.index_add_(0, conversation, (now - sampled).to(log_ratios))
            values = (rewards, log_ratios, self.accelerator.gather(log_ratios))
            own, logs, seen = (value.cpu().numpy().reshape(-1, size) for value in values)
            k, clamp = self._objective.k, self._objective.delta_clamp
            log.log_ratios(self._metrics["train"], seen, k=k, clamp=clamp)
            fresh = torch.from_numpy(_advantages(self._objective, own, logs)).to(advantages)
            advantages.copy_(fresh[conversation])
            if self._objective.form == "reinforce":  # the surrogate is to have no ratio
                sampled.copy_(now)
            return outputs

        late = {"old_log_probs": _Selected(sampled), "advantages": _Selected(advantages)}
        return super().compute_loss(forward, {**inputs, **late}, *args, **kwargs)


@dataclasses.dataclass
class _Selected:
    """What TRL's loss selects before its forward pass, while that pass still sets the values."""

    values: torch.Tensor

    def __getitem__(self, _: Any) -> torch.Tensor:
        return self.values


def _advantages(
    objective: Objective, rewards: np.ndarray, log_ratios: np.ndarray | None = None
) -> np.ndarray:
    """Return advantages as TRL's mean over tokens needs them, flat, of rewards (P, n)."""
    found = objective.advantages(rewards, objective.k, log_ratios=log_ratios)
    return objective.scale().factor(rewards.shape[1]) * found.reshape(-1)
