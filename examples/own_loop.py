"""A trainer of one file: REINFORCE for max@k in plain PyTorch, with all that a training needs.

    maxatk mini runs/mini
    python examples/own_loop.py runs/mini runs/own
    maxatk view runs/own        # and: maxatk diagnose runs/own

It samples groups, takes two optimizer steps on each batch (the second one off-policy, corrected by
the ratios of whole groups), moves k from 8 to 1, and writes the record that the commands read. What
is about max@k is `maxatk.training`; the rest is any loop of your own.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxatk import Verifier, load_problems
from maxatk.training import Groups, Learner, Objective, TrainingRecord, ratio_values

PROMPTS = 4  # of a batch
SAMPLES = 16  # of a prompt
REUSE = 2  # optimizer steps on a batch
OBJECTIVE = Objective(
    method="bon_off_policy_exact", k=8, k_schedule="linear", form="reinforce", delta_clamp=0.5
)


def sample(model, tokenizer, prompts):
    """Return the ids of SAMPLES completions of each prompt, and which of them are completions."""
    repeated = [prompt for prompt in prompts for _ in range(SAMPLES)]
    inputs = tokenizer(repeated, return_tensors="pt", padding=True)
    with torch.no_grad():
        ids = model.generate(**inputs, do_sample=True, top_k=0, max_new_tokens=32)
    start = inputs["input_ids"].shape[1]
    completions = ids[:, start:]
    ended = (completions == tokenizer.eos_token_id).cumsum(1)
    drawn = (ended == 0) | ((ended == 1) & (completions == tokenizer.eos_token_id))
    attention = torch.cat([inputs["attention_mask"], drawn.long()], dim=1)
    texts = tokenizer.batch_decode(completions, skip_special_tokens=True)
    return ids, attention, drawn, texts


def log_probabilities(model, ids, attention, drawn):
    """Return log pi of every whole completion, (rows,)."""
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=attention, position_ids=positions).logits
    length = drawn.shape[1]
    logps = logits[:, -length - 1 : -1].log_softmax(-1)
    of_tokens = logps.gather(2, ids[:, -length:, None])[..., 0]
    return (of_tokens * drawn).sum(1)


def train(folder: Path, out: Path, steps: int) -> None:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder / "base", padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder / "base")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    problems = load_problems(str(folder / "train.jsonl"))
    order = np.random.default_rng(0)
    learner = Learner(OBJECTIVE)
    record = TrainingRecord(out, OBJECTIVE, group_size=SAMPLES, steps=steps)
    with Verifier(workers=2, time_limit=1.0) as verifier:
        for step in range(1, steps + 1, REUSE):
            chosen = [problems[int(i)] for i in order.choice(len(problems), PROMPTS, replace=False)]
            *batch, texts = sample(model, tokenizer, [problem.prompt for problem in chosen])
            by_group = [texts[i : i + SAMPLES] for i in range(0, len(texts), SAMPLES)]
            jobs = [(t, p.tests) for p, group in zip(chosen, by_group, strict=True) for t in group]
            rewards = [verdict.reward for verdict in verifier.verify_many(jobs)]  # None if unknown
            table = np.array(rewards, dtype=float).reshape(PROMPTS, SAMPLES)
            groups = Groups(table, k=OBJECTIVE.k_at((step - 1) / steps))
            drawn_by = log_probabilities(model, *batch).detach()
            taken = learner.step(groups, by_group)
            record.add(
                step,
                groups,
                taken.advantages,
                prompts=[problem.prompt for problem in chosen],
                texts=by_group,
                ids=[problem.id for problem in chosen],
            )
            row = {"reward": taken.mean_reward, **taken.metrics}
            for reused in range(min(REUSE, steps - step + 1)):  # the last batch may have fewer
                now = log_probabilities(model, *batch)
                moved = (now.detach() - drawn_by).double().numpy().reshape(table.shape)
                weights = torch.from_numpy(learner.advantages(groups, moved).ravel()).float()
                loss = -(weights * now).mean()  # the ratios are in the weights: REINFORCE
                optimizer.zero_grad()
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                row |= ratio_values(moved, clamp=OBJECTIVE.delta_clamp, k=groups.k)
                row |= {"loss": loss.item(), "grad_norm": norm.item()}
                record.log(step + reused, row)
                row = {}
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mini", type=Path, help="the folder that `maxatk mini` wrote")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=80)
    arguments = parser.parse_args()
    train(arguments.mini, arguments.out, arguments.steps)
