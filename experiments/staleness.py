"""What old samples cost asynchronous training, and what a correction gives back.

    python experiments/staleness.py WORK --seeds 11 12 13 --out docs/study/staleness

Trains the built-in model with `MaxAtKAsyncTrainer` on groups that were sampled 1, 4 and 16 versions
of the weights ago: without a correction (TRL's clipped surrogate alone), with that of the joint
ratios of a group (eq. 10), and with truncated importance sampling of whole sequences (TIS), which
multiplies an advantage by min(ratio, 2). Method, k, learning rate, steps and evaluation are those
of the demo. The weights of every version go to the sampler as they go to a server, and a batch is
drawn from those that are so many versions old when it is trained on; nothing depends on the speed
of the machine. WORK is the folder of the studies on the built-in model (`work` of
`recipes/mini/demo_seeds.yaml`): what it has is used, what it lacks is made. A training or
evaluation that has ended is not repeated.

Written are `scores.csv` (a row a model and seed) and `differences.csv` (t over the seeds).
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import asyncio
import csv
import dataclasses
import json
import multiprocessing
import queue
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl.experimental.async_grpo.async_rollout_worker import RolloutGroup, TrainingSequence

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import maxatk
from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.mini import MiniSettings, build_mini
from maxatk.problems import load_problems
from maxatk.rewards import load_reward
from maxatk.rewards.reward import columns_of
from maxatk.sampling import SamplingSettings
from maxatk.statistics.significance import FEWEST_SEEDS, over_seeds
from maxatk.train.asynchronous import MaxAtKAsyncConfig, MaxAtKAsyncTrainer, MaxAtKRolloutLoop
from maxatk.verifier import VerifierSettings
from train.asynchronous_stand_ins import RESPONSE, TEMPLATE, NoTransfer, without_gpu

ARMS = ("no correction", "eq. (10)", "TIS")
VERSIONS = (1, 4, 16)
KS = (1, 8, 128)
GROUPS = 4  # of a batch
SIZE = 16  # completions of a group
LENGTH = 32  # tokens of a completion
STEPS = 160
TRUNCATED = 2.0  # the largest ratio of TIS
VERIFIER = VerifierSettings(workers=1, time_limit=1.0, memory_limit_mb=256)


class Versions(NoTransfer):
    """The sampler: keeps the weights of the last versions, and draws from any of them."""

    def __init__(self, folder: Path, kept: int) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.version = -1  # the first transfer is that of the start
        self._kept: deque[tuple[int, dict[str, torch.Tensor]]] = deque(maxlen=kept + 2)

    def send_weights(self, iterator) -> None:
        self.version += 1
        self._kept.append(
            (self.version, {name: weight.detach().clone() for name, weight in iterator})
        )

    @torch.no_grad()
    def draw(self, prompts: list[list[int]], version: int) -> list[tuple[list[int], list[float]]]:
        """Return ids and log-probabilities of a completion of every prompt."""
        weights = next(
            weights for stored_version, weights in self._kept if stored_version == version
        )
        self.model.load_state_dict(weights, strict=False)
        longest = max(map(len, prompts))
        pad = self.model.config.pad_token_id or 0
        ids = torch.tensor([[pad] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        output = self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=LENGTH,
            pad_token_id=pad,
            output_logits=True,
            return_dict_in_generate=True,
        )
        drawn = output.sequences[:, longest:]
        logps = torch.stack(output.logits, 1).log_softmax(-1)
        logps = logps.gather(-1, drawn[..., None])[..., 0]
        end = self.model.generation_config.eos_token_id
        return [
            _until(row.tolist(), chances.tolist(), end)
            for row, chances in zip(drawn, logps, strict=True)
        ]


def _until(ids: list[int], logps: list[float], end: int) -> tuple[list[int], list[float]]:
    length = ids.index(end) + 1 if end in ids else len(ids)
    return ids[:length], logps[:length]


class Worker:
    """TRL's worker without a process: the rows of a batch are made when TRL asks for the first.

    TRL reads a batch ahead, so the batch of a step is made while the one before is trained on.
    """

    _loop_cls = MaxAtKRolloutLoop

    def __init__(self, sampler, loop, problems, tokenizer, *, lag: int, seed: int) -> None:
        self.rollout_buffer = self
        self.metrics_queue = queue.Queue()
        self._sampler = sampler
        self._loop = loop
        self._tokenizer = tokenizer
        self._problems = problems
        self._columns = columns_of(problems)
        self._lag = lag
        self._batches = 0
        self._rows = deque()
        generator = np.random.default_rng(seed)
        self._order = np.concatenate([generator.permutation(len(problems)) for _ in range(2)])

    def get(self, timeout: float):  # noqa: ARG002 - as a queue has it
        if not self._rows:
            self._rows.extend(self._batch())
        return self._rows.popleft()

    def qsize(self) -> int:
        return len(self._rows)

    def _batch(self):
        chosen = self._order[self._batches * GROUPS : (self._batches + 1) * GROUPS]
        version = max(0, self._batches - self._lag)
        prompts = [
            self._tokenizer(self._problems[position].prompt)["input_ids"] for position in chosen
        ]
        drawn = self._sampler.draw([p for p in prompts for _ in range(SIZE)], version)
        for number, (position, prompt) in enumerate(zip(chosen, prompts, strict=True)):
            completions = drawn[number * SIZE : (number + 1) * SIZE]
            group = self._group(int(position), prompt, completions, version)
            group.group_id = self._batches * GROUPS + number
            yield from asyncio.run(self._loop._score_group(group))
        self._batches += 1

    def _group(self, position: int, prompt: list[int], drawn, version: int) -> RolloutGroup:
        texts = [self._tokenizer.decode(ids, skip_special_tokens=True) for ids, _ in drawn]
        before = [0] * len(prompt)
        sequences = [
            TrainingSequence(
                [*prompt, *ids], [*before, *[1] * len(ids)], [*map(float, before), *logps], str(n)
            )
            for n, (ids, logps) in enumerate(drawn)
        ]
        return RolloutGroup(
            prompts=[self._problems[position].prompt] * SIZE,
            reward_kwargs={
                name: [column[position]] * SIZE for name, column in self._columns.items()
            },
            completions=texts,
            completions_ids=[ids for ids, _ in drawn],
            completions_sequences=[[sequence] for sequence in sequences],
            tool_call_counts=[0] * SIZE,
            tool_failure_counts=[0] * SIZE,
            model_version=version,  # TRL counts from 1: its staleness is that of the step
            group_id=0,
            env_rewards=[None] * SIZE,
            rollout_rewards=[None] * SIZE,
        )

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def update_model_version(self, version: int) -> None: ...
    def check_health(self, stale_after_s: float) -> None: ...


class Truncated(MaxAtKAsyncTrainer):
    """Advantages without a correction, times the truncated ratio of the sequence."""

    def _corrected(self, rewards: torch.Tensor, log_ratios: torch.Tensor) -> np.ndarray:
        groups = rewards.numpy().reshape(-1, SIZE)
        plain = SIZE * maxatk.advantages(groups, "bon_loo1", self.args.k).reshape(-1)
        return plain * np.minimum(np.exp(log_ratios.numpy().reshape(-1)), TRUNCATED)


def settings(out: Path, arm: str, *, lag: int, seed: int) -> MaxAtKAsyncConfig:
    """The demo's settings, as far as TRL's asynchronous trainer has them."""
    return MaxAtKAsyncConfig(
        output_dir=str(out),
        method="bon_loo1" if arm == "no correction" else "bon_off_policy_exact",
        form="reinforce" if arm == "TIS" else "ppo",
        k=8,
        num_generations=SIZE,
        per_device_train_batch_size=GROUPS * SIZE,
        max_steps=STEPS,
        learning_rate=3e-4,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=15,
        max_staleness=lag + 1,
        max_completion_length=LENGTH,
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=10,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )


def train(mini: Path, out: Path, arm: str, *, lag: int, seed: int) -> None:
    """Train one model, unless its folder has one that is finished."""
    if (out / "log.json").is_file():
        return
    set_seed(seed)
    config = settings(out, arm, lag=lag, seed=seed)
    problems = load_problems(mini / "train.jsonl")
    tokenizer = AutoTokenizer.from_pretrained(mini / "base")
    speaking = AutoTokenizer.from_pretrained(mini / "base")  # as TRL's loop asks for
    speaking.chat_template = TEMPLATE
    speaking.response_template = RESPONSE
    sampler = Versions(mini / "base", lag)
    context = multiprocessing.get_context("spawn")
    with VERIFIER.open() as verifier:
        reward = load_reward("continuous", verifier=verifier)
        loop = MaxAtKRolloutLoop(
            objective=config.objective,
            model_name=str(mini / "base"),
            dataset=Dataset.from_list([{"prompt": []}]),
            reward_funcs=[reward],
            processing_class=speaking,
            eos_token_ids=[tokenizer.eos_token_id],
            num_generations=SIZE,
            rollout_buffer=None,
            model_version_value=context.Value("i", 0),
            heartbeat_value=None,
            failed_event=None,
            exception_info_queue=None,
            metrics_queue=None,
        )
        trainer = (Truncated if arm == "TIS" else MaxAtKAsyncTrainer)(
            model=str(mini / "base"),
            reward_funcs=reward,
            args=config,
            processing_class=speaking,
            train_dataset=Dataset.from_list([{"prompt": []}]),
            rollout_worker=Worker(sampler, loop, problems, tokenizer, lag=lag, seed=seed),
            weight_transfer=sampler,
        )
        trainer.train()
    trainer.save_model(str(out))
    tokenizer.save_pretrained(str(out))
    (out / "log.json").write_text(json.dumps(trainer.state.log_history, default=float))


def scores(mini: Path, model: Path, out: Path, *, seed: int) -> np.ndarray:
    """Return max@k of the held-out problems (problems, KS), with the demo's evaluation."""
    sampling = SamplingSettings(samples=256, max_new_tokens=LENGTH, seed=seed)
    recipe = EvalRecipe(
        model=str(model),
        problems=str(mini / "test.jsonl"),
        out=str(out),
        sampling=sampling,
        verifier=VERIFIER,
    )
    values = evaluate(recipe).per_problem.values["max@k"]
    return np.array([values[k] for k in KS], dtype=float).T


def built_in(work: Path, seed: int) -> Path:
    """Return the folder of the built-in model of a seed; made where there is none."""
    folders = sorted(work.glob(f"mini-{seed}-*"))
    if folders:
        return folders[0]
    out = work / f"mini-{seed}-made"
    defaults = MiniSettings(train_problems=1000, test_problems=40, tests=6, seed=seed)
    warm = dataclasses.replace(defaults.warm_start, problems=45000)
    build_mini(out, dataclasses.replace(defaults, warm_start=warm))
    return out


def table(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def differences(values_of_arms: dict[tuple[str, int], dict[int, np.ndarray]]) -> list[list[str]]:
    """Return the rows of arms at a lag, and of an arm at a lag and at the smallest."""
    pairs = [((arm, lag), (ARMS[0], lag)) for lag in VERSIONS for arm in ARMS[1:]]
    pairs += [((ARMS[1], lag), (ARMS[2], lag)) for lag in VERSIONS]
    pairs += [((arm, lag), (arm, VERSIONS[0])) for arm in ARMS for lag in VERSIONS[1:]]
    rows = []
    for first, second in pairs:
        shared = sorted(
            values_of_arms.get(first, {}).keys() & values_of_arms.get(second, {}).keys()
        )
        if len(shared) < FEWEST_SEEDS:
            continue
        by_seed = [values_of_arms[first][seed] - values_of_arms[second][seed] for seed in shared]
        test = over_seeds(by_seed)
        above = (np.array([of_seed.mean(0) for of_seed in by_seed]) > 0).sum(0)
        for position, k in enumerate(KS):
            low = test.low[position]
            high = test.high[position]
            rows.append(
                [
                    f"{first[0]}, {first[1]} − {second[0]}, {second[1]}",
                    f"max@{k}",
                    f"{test.mean[position]:+.3f}",
                    f"[{low:+.3f}, {high:+.3f}]",
                    f"{test.p[position]:.3f}",
                    f"{above[position]} of {len(shared)}",
                ]
            )
    return rows


def write(out: Path, values_of_arms: dict[tuple[str, int], dict[int, np.ndarray]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        [arm, str(lag), str(seed), *(f"{value:.4f}" for value in values.mean(0))]
        for (arm, lag), by_seed in values_of_arms.items()
        for seed, values in sorted(by_seed.items())
    ]
    names = [f"max@{k}" for k in KS]
    table(out / "scores.csv", ["correction", "versions", "seed", *names], rows)
    head = ["correction, versions", "metric", "difference", "95%, t over seeds", "p", "seeds above"]
    table(out / "differences.csv", head, differences(values_of_arms))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    without_gpu(pytest.MonkeyPatch())
    torch.set_num_threads(1)
    values_of_arms: dict[tuple[str, int], dict[int, np.ndarray]] = {}
    for seed in options.seeds:
        mini = built_in(options.work, seed)
        for lag in VERSIONS:
            for arm in ARMS:
                started = time.monotonic()
                name = f"stale-{arm.split()[0].rstrip('.')}-{lag}-{seed}"
                train(mini, options.work / name, arm, lag=lag, seed=seed)
                values = scores(mini, options.work / name, options.work / f"eval-{name}", seed=seed)
                values_of_arms.setdefault((arm, lag), {})[seed] = values
                means = " ".join(f"{value:.3f}" for value in values.mean(0))
                print(f"{name}: max@{KS} {means} ({time.monotonic() - started:.0f} s)", flush=True)
                write(options.out, values_of_arms)


if __name__ == "__main__":
    main()
