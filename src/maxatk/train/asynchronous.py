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

from maxatk.check import needing, require, returned_rewards
from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Objective
from maxatk.objectives.setting import method_of
from maxatk.python_numbers import use_python_numbers
from maxatk.train.arguments import by_name
from maxatk.train.checked_rewards import LARGEST_REWARD, with_checked_values
from maxatk.train.config import WithObjective
from maxatk.train.finite_gradients import FiniteGradients
from maxatk.train.last_step import EndsAtLastStep
from maxatk.train.launch import check_processes
from maxatk.train.policy_drift import PolicyDrift
from maxatk.train.rollout_batch import refuse_best_of
from maxatk.train.setting_checks import UNTRUNCATED, require_settings
from maxatk.train.settings_of_now import SettingsOfNow
from maxatk.train.unread_settings import check_unread
from maxatk.training import Groups, Learner
from maxatk.training.keys import SHARED

with needing(f"trl {trl.__version__}: asynchronous training needs 1.16: pip install 'trl>=1.16'"):
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop
    from trl.experimental.async_grpo.packing import TreeRow
    from trl.trainer.utils import disable_dropout_in_model

    from maxatk.train.asynchronous_checks import check_conversations

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
        use_python_numbers(self)
        self._refuse_answers()
        self.check_objective()
        if self.objective.needs_ratios:
            method = f"the method {self.method!r}"
            needed = {**UNTRUNCATED, "neftune_noise_alpha": (None,)}
            require_settings(self, needed, f"with {method}, made of ratios")
            rows = self.per_device_train_batch_size
            group = self.num_generations
            allowed = f"a multiple of num_generations {group}, whose groups {method} needs whole"
            require(rows % group == 0, "per_device_train_batch_size", allowed, rows)
            why = f"with {method}, which needs whole groups in a micro-batch"
            require_settings(self, {"token_budget": (0,)}, why)
        super().__post_init__()
        check_unread(self)

    def _refuse_answers(self) -> None:
        """Refuse a method on answers, which the worker does not read from completions."""
        if method_of(self.method).credit_row.needs_answers:
            raise InvalidValueError(
                f"method: {self.method!r} looks at answers, which asynchronous training does not "
                "read; MaxAtKConfig has a setting for them"
            )


class MaxAtKRolloutLoop(_AsyncRolloutLoop):
    """TRL's loop that samples and scores, with the advantages of an `objective`.

    A worker of your own is an AsyncRolloutWorker with `_loop_cls = MaxAtKRolloutLoop` that is given
    `objective=config.objective`.
    """

    reward_funcs: list[Any]  # which TRL sets and calls

    def __init__(self, *, objective: Objective, **settings: Any) -> None:
        super().__init__(**settings)
        self._learner = Learner(objective)
        # The names of environments that have rewards come behind those of the functions.
        names = self.reward_func_names[: len(self.reward_funcs)]
        self.reward_funcs = with_checked_values(self.reward_funcs, names)

    async def _score_group(self, group: Any) -> list[Any]:
        """Return TRL's rows of a group, with this package's advantages and log."""
        for environment, reward in filter(None, group.env_rewards):
            called = f"environment_factory: get_reward of {environment.__name__}"
            returned_rewards([reward], 1, called=called, largest=LARGEST_REWARD)
        rows: list[Any] = await super()._score_group(group)
        rows_of_conversations = [len(sequences) for sequences in group.completions_sequences]
        conversations = len(rows_of_conversations)
        place_of_row = np.repeat(np.arange(conversations), rows_of_conversations)
        rewards = np.full((1, conversations), np.nan)  # of one without a trained token
        for place, row in zip(place_of_row, rows, strict=True):
            rewards[0, place] = row.metrics["reward"]
        objective = self._learner.objective
        texts = [str(ids) for ids in group.completions_ids]
        step = self._learner.step(Groups(rewards, objective.k), [texts])
        del step.metrics[SHARED]  # which is 0 of a group by itself, whatever the others say
        first_rows = np.diff(place_of_row, prepend=-1) > 0
        for place, is_first, row in zip(place_of_row, first_rows, rows, strict=True):
            row.advantage = float(step.advantages[0, place])
            if is_first:  # TRL averages over the rows that have a metric
                row.metrics |= step.metrics
            if objective.needs_ratios:
                row.metrics |= {_PLACE: float(place), _ROWS: float(len(rows))}
        return rows


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
        stream = self._whole_groups()
        count = self.processes * self.groups
        while True:
            batch = list(itertools.islice(stream, count))
            if len(batch) < count:
                return
            yield self._micro_batch(batch)

    def _micro_batch(self, batch: list[list[Mapping[str, Any]]]) -> dict[str, Any]:
        """Return a micro-batch of all processes, to which groups are dealt in turns."""
        packed = [TreeRow() for _ in range(self.processes)]
        conversations: list[list[int]] = [[] for _ in packed]
        rewards = torch.full((self.processes, self.groups * self.size), torch.nan).double()
        for number, group in enumerate(batch):
            group_of_process, process = divmod(number, self.processes)
            for row in group:
                # TRL averages the metrics into its log, where these two mean nothing.
                del row["metrics"][_ROWS]
                place = int(row["metrics"].pop(_PLACE))
                conversation = group_of_process * self.size + place
                packed[process].add(row)
                conversations[process].append(conversation)
                rewards[process, conversation] = row["metrics"]["reward"]
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(places) for places in conversations],
            batch_first=True,
            padding_value=-1,
        )
        return {**self.pack([packed]), _REWARDS: rewards, _CONVERSATION: padded}

    def _whole_groups(self) -> Iterator[list[Mapping[str, Any]]]:
        """Yield the rows of each group; TRL drops rows one by one as they become too old."""
        group: list[Mapping[str, Any]] = []
        for row in self.rows:
            if group and group[0]["group_id"] != row["group_id"]:
                self.metrics["sample/dropped_incomplete_total"].append(float(len(group)))
                group = []
            group.append(row)
            if len(group) == row["metrics"][_ROWS]:
                yield group
                group = []


class MaxAtKAsyncTrainer(EndsAtLastStep, AsyncGRPOTrainer):
    """Train for max@k while a server samples: an AsyncGRPOTrainer with advantages of this package.

    Takes the arguments of TRL's AsyncGRPOTrainer. A correction sets the advantages in every
    micro-batch, from the ratios pi_theta / pi_sampled of whole conversations. Dropout is off.

    Raises InvalidValueError, before the weights are loaded, for settings of another class, a reward
    of `maxatk.best_of`, a `rollout_worker` that scores groups by itself or for other settings, and
    without one for prompts and a tokenizer of which TRL makes no conversations.
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
        check_processes(args)
        refuse_best_of(reward_funcs if isinstance(reward_funcs, list) else [reward_funcs])
        if rollout_worker is not None:
            _check_worker(rollout_worker, args)
        else:
            arguments = by_name(
                AsyncGRPOTrainer.__init__, model, reward_funcs, args, *more, **others
            )
            check_conversations(args, arguments)
        self._learner = Learner(args.objective)
        self._drift = PolicyDrift(args.objective.delta_clamp)
        super().__init__(model, reward_funcs, args, *more, rollout_worker=rollout_worker, **others)
        disable_dropout_in_model(self.model)
        self.add_callback(FiniteGradients())
        self.add_callback(SettingsOfNow())
        if rollout_worker is None and self.rollout_worker is not None:  # the main process alone
            self.rollout_worker._loop_cls = MaxAtKRolloutLoop
            self.rollout_worker._loop_kwargs["objective"] = self._learner.objective

    def get_train_dataloader(self) -> Any:
        """Return TRL's loader; with a correction, of micro-batches of whole groups."""
        loader = super().get_train_dataloader()
        if not self._learner.objective.needs_ratios:
            return loader
        rows = loader.dataset
        if self.accelerator.is_main_process:
            size = self.args.num_generations
            rows = WholeGroups(
                self._rollout_dataset,
                loader.collate_fn,
                processes=self.accelerator.num_processes,
                groups=self.args.per_device_train_batch_size // size,
                size=size,
                metrics=self._metrics["train"],
            )
        # An item of the set is already a micro-batch of all processes.
        unwrap = operator.itemgetter(0)
        return self.accelerator.prepare(
            torch.utils.data.DataLoader(rows, batch_size=1, collate_fn=unwrap)
        )

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Take the training step of transformers, which is one micro-batch."""
        loss = super().training_step(*args, **kwargs)
        if self.accelerator.sync_gradients:  # the last micro-batch before the optimizer moves
            self._drift.log(self._metrics["train"])
        return loss

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """Return TRL's loss; with a correction, of advantages that its own forward pass sets.

        TRL hands all rows of a micro-batch to the model as one packed sequence. `token_index` is
        the place in it of each trained token, -1 for padding, and `segment_id` the row of each.
        """
        if not self._learner.objective.needs_ratios:
            return super().compute_loss(model, inputs, *args, **kwargs)
        selected = inputs["token_index"] >= 0
        token_index = inputs["token_index"][selected]
        sampled = inputs["old_log_probs"][selected]
        advantages = inputs["advantages"][selected]
        # A conversation may have several rows, and its ratio is the product over all of them.
        conversation = inputs[_CONVERSATION][0][inputs["segment_id"][selected]]
        rewards = inputs[_REWARDS]

        def forward(**tokens: Any) -> Any:
            outputs = model(**tokens)
            now = outputs.log_probs.detach().flatten()[token_index]
            log_ratios = torch.zeros_like(rewards[0])
            log_ratios.index_add_(0, conversation, (now - sampled).to(log_ratios))
            ratios = self._in_groups(self.accelerator.gather(log_ratios))
            self._drift.add(ratios, k=self._learner.objective.k)
            groups = Groups(self._in_groups(rewards), self._learner.objective.k)
            fresh = self._learner.advantages(groups, self._in_groups(log_ratios)).reshape(-1)
            advantages.copy_(torch.from_numpy(fresh).to(advantages)[conversation])
            if self._learner.objective.form == "reinforce":
                sampled.copy_(now)  # so that the ratio of the surrogate is one
            return outputs

        late = {"old_log_probs": _Selected(sampled), "advantages": _Selected(advantages)}
        return super().compute_loss(forward, {**inputs, **late}, *args, **kwargs)

    def _in_groups(self, values: torch.Tensor) -> np.ndarray:
        """Return values of conversations as an array (P, n)."""
        groups: np.ndarray = values.cpu().numpy().reshape(-1, self.args.num_generations)
        return groups


def _check_worker(worker: Any, config: MaxAtKAsyncConfig) -> None:
    """Refuse a worker whose groups have the advantages of TRL, or of other settings."""
    loop_class = getattr(worker, "_loop_cls", object)
    if not issubclass(loop_class, MaxAtKRolloutLoop):
        raise InvalidValueError(
            f"rollout_worker: {type(worker).__name__} scores groups by itself (TRL's "
            "divides by their deviation); allowed: None, or a _loop_cls of MaxAtKRolloutLoop"
        )
    settings = getattr(worker, "_loop_kwargs", None)  # of TRL's class; others have what they like
    if settings is None:
        return
    objective = settings.get("objective")
    allowed = f"that of the settings, {config.objective}"
    require(objective == config.objective, "rollout_worker: objective", allowed, objective)
    size = settings.get("num_generations", config.num_generations)
    allowed = f"that of the settings, {config.num_generations}"
    require(size == config.num_generations, "rollout_worker: num_generations", allowed, size)


@dataclasses.dataclass
class _Selected:
    """A column of a micro-batch whose values the forward pass inside TRL's loss still sets.

    `AsyncGRPOTrainer.compute_loss` of TRL 1.16 goes in this order: it masks the columns of the
    batch (`inputs["advantages"][selected]`, likewise `old_log_probs`), then calls the model, then
    multiplies. A correction knows its advantages only after that call, when TRL has already made
    copies of the old values by masking. TRL offers no hook between the two.

    So the batch holds this object in place of the column. `compute_loss` above has done the
    selection once, TRL's selection with the same mask gets that very tensor, whatever it asks for,
    and `forward` writes the values into the tensor in place before TRL reads them. If a later TRL
    indexed the column otherwise, or before and after the pass, values would be wrong: the gradient
    test of tests/train/test_asynchronous.py against enumeration would tell, and the extra is bound
    to a TRL that has this order.
    """

    values: torch.Tensor

    def __getitem__(self, _: Any) -> torch.Tensor:
        return self.values
