"""The advantages that a loss must have got, by enumeration and forward passes of the tests."""

import numpy as np
import torch

from maxatk.objectives import method_of
from maxatk.train.batch import GROUP_ROW
from oracles import subsets

from .conftest import GROUP, with_weights

CLAMP = 0.5


def sequence_logps(model_folder, policy, rows):
    """log pi(completion | prompt) of every row under a policy."""
    return row_logps(with_weights(model_folder, policy), rows)


@torch.no_grad()
def row_logps(model, rows):
    """log pi(completion | prompt) under a model as it is, one row at a time, without padding."""
    result = []
    for i in range(len(rows["prompt_ids"])):
        prompt = rows["prompt_ids"][i][rows["prompt_mask"][i].bool()]
        completion = rows["completion_ids"][i][rows["completion_mask"][i].bool()]
        ids = torch.cat([prompt, completion])[None]
        logps = model(input_ids=ids).logits.double().log_softmax(-1)[0, len(prompt) - 1 : -1]
        result.append(float(logps.gather(1, completion[:, None]).sum()))
    return np.array(result)


def brute_force(method, rewards, log_ratios, *, k, form):
    """Advantages of groups (P, n) as the loss gets them by default, by enumeration of subsets."""
    result = np.zeros_like(rewards)
    deltas = np.clip(np.expm1(log_ratios), -CLAMP, CLAMP)
    for row, group in enumerate(rewards):
        scored = ~np.isnan(group)
        if scored.sum() >= method_of(method).samples_needed(k):
            result[row, scored] = subsets.advantages(
                list(group[scored]), list(deltas[row, scored]), k, method_of(method), form
            )
    row = method_of(method)
    # The loss is a mean over samples; the credits of several samples are sums, unless scaled.
    summed = row.scale == "none" and row.credit != "reward"
    return result * (rewards.shape[1] if summed else 1)


def policies(trainer):
    """The policy of every optimizer step."""
    return {batch.step: batch.policy for batch in trainer.seen}


def expected_by_step(trainer, model_folder, *, method, k=2, form="ppo"):
    """The advantages of the last rollout batch under the policy of every optimizer step."""
    policy, rows, rewards = trainer.generations[-1]
    scored = rewards.double().numpy().reshape(-1, GROUP)
    old_logps = sequence_logps(model_folder, policy, rows)
    expected = {}
    for step, now in policies(trainer).items():
        log_ratios = (sequence_logps(model_folder, now, rows) - old_logps).reshape(-1, GROUP)
        expected[step] = brute_force(method, scored, log_ratios, k=k, form=form).reshape(-1)
    return expected


def check_advantages(trainer, expected, *, atol=2e-5):
    """Every micro-batch has its rows of the advantages of its step, in the order of samples."""
    for batch in trainer.seen:
        expected_rows = expected[batch.step][batch.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), expected_rows, atol=atol)


def check_every_step(trainer, model_folder, *, method, form="ppo", atol=2e-5):
    """The same with what `expected_by_step` says; returns how far the advantages have moved."""
    expected = expected_by_step(trainer, model_folder, method=method, form=form)
    check_advantages(trainer, expected, atol=atol)
    on_policy = trainer.generations[-1][1]["advantages"].numpy()
    return max(float(np.abs(values - on_policy).max()) for values in expected.values())
