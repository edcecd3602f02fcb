"""The optimizer steps of a training by verl, repeated in plain torch from the same weights."""

import dataclasses

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import maxatk


@dataclasses.dataclass
class Step:
    """One optimizer step: the largest errors of verl's numbers, and the gradient's norm.

    Advantages are in the unit of `maxatk.advantages`, not multiplied by the size of the group.
    """

    largest_log_ratio: float
    ratio_error: float
    advantage_error: float
    largest_advantage: float
    gradient_norm: float
    group_sizes: list[int]


def replay(ranks, model_path, *, steps, method, k, n, learning_rate):
    """Return the steps of `ranks`, the micro-batches of each, in the order of the losses.

    One sequence at a time: log-probabilities, importance ratios, `maxatk.advantages`, PPO's
    clipped surrogate as a mean over tokens, clipping of the gradient, AdamW.
    """
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    micros = len(ranks[0]) // steps
    replayed = []
    for step in range(steps):
        batches = [b for rank in ranks for b in rank[step * micros : (step + 1) * micros]]
        replayed.append(_step(model, optimizer, _rows(batches), method, k, n))
    return replayed


def _rows(batches):
    names = (
        "uids",
        "sessions",
        "rewards",
        "real",
        "old",
        "now",
        "advantages",
        "prompts",
        "responses",
    )
    columns = [[value for batch in batches for value in batch[name]] for name in names]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return [row for row in rows if row["real"]]


def _step(model, optimizer, rows, method, k, n):
    logps = [log_probs(model, row["prompts"], row["responses"]) for row in rows]
    old = [torch.tensor(row["old"]) for row in rows]
    ratios = np.array([float((a.detach() - b).sum()) for a, b in zip(logps, old, strict=True)])
    used = [sum(row["now"]) - sum(row["old"]) for row in rows]
    advantages, sizes = _advantages(rows, ratios, method, k, n)
    recorded = np.array([row["advantages"][0] for row in rows])
    tokens = sum(len(row["responses"]) for row in rows)
    total = 0.0
    for now, then, advantage in zip(logps, old, advantages, strict=True):
        total = total + _surrogate(now, then, float(advantage)) / tokens
    optimizer.zero_grad()
    total.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return Step(
        largest_log_ratio=float(np.abs(ratios).max()),
        ratio_error=float(np.abs(ratios - used).max()),
        advantage_error=float(np.abs(advantages - recorded).max()) / n,
        largest_advantage=float(np.abs(recorded).max()) / n,
        gradient_norm=float(norm),
        group_sizes=sizes,
    )


def log_probs(model, prompt, response):
    logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, torch.tensor(response)[:, None])[:, 0]


def _advantages(rows, ratios, method, k, n):
    """n times maxatk.advantages of each group, those that lost samples filled with NaN.

    The outputs of a session are one sample: the ratio is that of all of them together.
    """
    groups = {}
    for place, row in enumerate(rows):
        groups.setdefault(row["uids"], {}).setdefault(row["sessions"], []).append(place)
    scaled = np.zeros(len(rows))
    for sessions in groups.values():
        rewards = np.full((1, n), np.nan)
        logs = np.zeros((1, n))
        for sample, places in enumerate(sessions.values()):
            rewards[0, sample] = rows[places[-1]]["rewards"]
            logs[0, sample] = ratios[places].sum()
        advantages = maxatk.advantages(rewards, method, k, log_ratios=logs)
        for sample, places in enumerate(sessions.values()):
            scaled[places] = n * advantages[0, sample]
    return scaled, sorted(len(sessions) for sessions in groups.values())


def _surrogate(now, then, advantage):
    ratio = (now - then).clamp(-20, 20).exp()
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2))
    if advantage < 0:  # verl's dual clip
        loss = torch.minimum(torch.full_like(loss, -advantage * 3.0), loss)
    return loss.sum()
