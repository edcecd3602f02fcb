"""TRL's GRPOTrainer with the advantages of `maxatk.objectives`, on-policy and off-policy."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from trl import GRPOTrainer

from maxatk.errors import InvalidValueError
from maxatk.objectives import advantages, max_at_k

# Keys that this trainer adds to TRL's batches; both survive TRL's shuffling and splitting.
GROUP_ROW = "maxatk_group_row"  # place of a sample in the generation batch of all processes
SAMPLING_LOGPS = "maxatk_sampling_logps"  # old_per_token_logps, hidden from TRL's surrogate


class MaxAtKTrainer(GRPOTrainer):
    """Train for max@k: a GRPOTrainer whose advantages come from a row of `maxatk.METHODS`.

    Takes the arguments of TRL's GRPOTrainer; `args` is a `MaxAtKConfig`. Nothing but the
    advantages differs from the parent class: sampling, rewards, loss and logging are TRL's.

    Methods without a correction set the advantages once a generation. A correction (and the form
    "reinforce") sets them again at every optimizer step that reuses samples, from the ratios of
    the whole group under the policy of that step: one forward pass without gradient over the
    buffered samples.

    Raises InvalidValueError when the training set holds fewer prompts than one generation needs.
    """

    # Of the last generation of all processes: rewards (P, n), and the optimizer step whose policy
    # the advantages in the buffer belong to.
    _group_rewards = np.empty((0, 0))
    _advantages_step = -1

    def get_train_dataloader(self) -> DataLoader:
        """Return TRL's loader; refuse a training set from which it would take no step at all."""
        prompts = self.args.generation_batch_size // self.num_generations
        if isinstance(self.train_dataset, Sized) and len(self.train_dataset) < prompts:
            raise InvalidValueError(
                f"train_dataset: has {len(self.train_dataset)} prompts, fewer than the {prompts} "
                "of one generation, so no step would be taken; use more prompts or a smaller batch"
            )
        return super().get_train_dataloader()

    def _calculate_rewards(
        self,
        inputs: list[Any],
        prompts: list[Any],
        completions: list[Any],
        completion_ids: list[Any],
    ) -> torch.Tensor:
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids)
        weights = self.reward_weights.to(rewards_per_func.device)
        rewards = (rewards_per_func * weights).nansum(dim=1)
        rewards[rewards_per_func.isnan().all(dim=1)] = torch.nan
        self._last_rewards = rewards
        return rewards_per_func

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        training = self.model.training
        group_size = self.num_generations if training else self.num_generations_eval
        rewards = self._last_rewards.double().cpu().numpy().reshape(-1, group_size)
        fresh = self._advantages(rewards, log_ratios=None)
        rows = len(output["advantages"])
        first = self.accelerator.process_index * rows
        output["advantages"] = _like(fresh[first : first + rows], output["advantages"])
        self._replace_logged_advantages(fresh)
        self._log_group_metrics(rewards, fresh, mode="train" if training else "eval")
        if training:
            self._group_rewards = rewards
            self._advantages_step = self.state.global_step
            device = output["advantages"].device
            output[GROUP_ROW] = torch.arange(first, first + rows, device=device)
            if self.args.form == "reinforce" and "old_per_token_logps" in output:
                output[SAMPLING_LOGPS] = output.pop("old_per_token_logps")
        return output

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training and self.args.needs_ratios and self._is_stale():
            self._refresh_advantages()
        return inputs

    def _is_stale(self) -> bool:
        return self._advantages_step != self.state.global_step

    def _refresh_advantages(self) -> None:
        """Set the advantages of every buffered sample from the ratios under today's policy."""
        with torch.no_grad():
            local = torch.cat([self._log_ratios(batch) for batch in self._buffered_inputs])
        rows = torch.cat([batch[GROUP_ROW] for batch in self._buffered_inputs])
        log_ratios = torch.empty(self._group_rewards.size, dtype=torch.float64)
        gathered_rows = self.accelerator.gather(rows).cpu()
        log_ratios[gathered_rows] = self.accelerator.gather(local).double().cpu()
        shaped = log_ratios.numpy().reshape(self._group_rewards.shape)
        fresh = self._advantages(self._group_rewards, log_ratios=shaped)
        for batch in self._buffered_inputs:
            own = batch[GROUP_ROW].cpu().numpy()
            batch["advantages"] = _like(fresh[own], batch["advantages"])
        self._advantages_step = self.state.global_step
        deviation = np.abs(np.expm1(shaped))
        self._metrics["train"]["ratio/mean_abs_delta"].append(float(deviation.mean()))
        self._metrics["train"]["ratio/max_abs_delta"].append(float(deviation.max()))

    def _log_ratios(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return log pi_theta(y) - log pi_old(y) of every sequence of a batch, shape (rows,)."""
        old = batch.get("old_per_token_logps", batch.get(SAMPLING_LOGPS))
        mask = batch["completion_mask"]
        if old is None:  # TRL keeps no old log-probabilities where every step is on-policy
            return torch.zeros(len(mask), device=mask.device)
        now = self._get_per_token_logps_and_entropies(
            self.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], mask], dim=1),
            batch["completion_ids"].size(1),
        )[0]
        return ((now - old) * mask).sum(dim=1)

    def _advantages(self, rewards: np.ndarray, *, log_ratios: np.ndarray | None) -> np.ndarray:
        """Return the advantages of rewards (P, n) as one row of P * n values."""
        k = min(self.args.k, rewards.shape[1])  # evaluation groups may be smaller than k
        return advantages(
            rewards,
            self.args.method,
            k,
            log_ratios=log_ratios,
            form=self.args.form,
            clamp=self.args.delta_clamp,
        ).reshape(-1)

    def _replace_logged_advantages(self, fresh: np.ndarray) -> None:
        """Put the advantages in use where TRL logged its own."""
        logged = self._logs["advantages"]
        for _ in range(min(len(fresh), len(logged))):
            logged.pop()
        logged.extend(fresh.tolist())

    def _log_group_metrics(self, rewards: np.ndarray, fresh: np.ndarray, *, mode: str) -> None:
        """Log max@k of the groups for k = 1, the trained k and n, and groups without signal."""
        n = rewards.shape[1]
        for k in sorted({1, min(self.args.k, n), n}):
            value = np.nanmean(max_at_k(rewards, k)) if np.isfinite(rewards).any() else np.nan
            self._metrics[mode][f"max@{k}"].append(float(value))
        silent = (fresh.reshape(-1, n) == 0).all(axis=1)
        self._metrics[mode]["frac_groups_without_signal"].append(float(silent.mean()))


def _like(values: np.ndarray, tensor: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(tensor.device, tensor.dtype)
