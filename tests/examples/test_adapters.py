"""The files of examples/, with stand-ins for the projects that are not installed here.

Each stand-in calls the adapter as the project does, with the names and the types of its arguments.
"""

import asyncio
import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from maxatk import advantages
from maxatk.errors import InvalidValueError

EXAMPLES = Path(__file__).parents[2] / "examples"
GROUPS = {
    "x": [0.0, 1.0, 0.5, 0.25, 0.75, 1.0],
    "y": [0.0, 0.0, 0.25, 0.0, 2.0, -1.5],
    "z": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
}
ORDER = [(name, place) for place in (3, 0, 5, 1, 4, 2) for name in ("y", "x", "z")]
IDS = [name for name, _ in ORDER]
REWARDS = [GROUPS[name][place] for name, place in ORDER]


def expected_of(rewards, method="bon_loo1"):
    """The advantages of one group, times its size."""
    return len(rewards) * advantages(np.array([rewards]), method, k=4)[0]


def expected(method="bon_loo1"):
    """The advantages of each group, times its size, at the places of its rows."""
    by_group = {name: expected_of(rewards, method) for name, rewards in GROUPS.items()}
    return np.array([by_group[name][place] for name, place in ORDER])


@pytest.fixture
def load(monkeypatch):
    """Load a file of examples/ where packages have the given names alone."""

    def loaded(file, **modules):
        for dotted, names in modules.items():
            parts = dotted.replace("__", ".").split(".")
            for end in range(1, len(parts) + 1):
                name = ".".join(parts[:end])
                if name not in sys.modules or end == len(parts):
                    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
                if end > 1:
                    parent = sys.modules[".".join(parts[: end - 1])]
                    monkeypatch.setattr(parent, parts[end - 1], sys.modules[name], raising=False)
            vars(sys.modules[name]).update(names)
        spec = importlib.util.spec_from_file_location(Path(file).stem, EXAMPLES / file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def test_every_file_has_at_most_30_lines():
    files = [*EXAMPLES.glob("*_adapter.py"), *EXAMPLES.glob("*_best_of.py")]
    assert len(files) == 9
    assert max(len(file.read_text().splitlines()) for file in files) <= 30


def test_skyrl(load):
    registered = {}
    registry = types.SimpleNamespace(register=registered.__setitem__)
    load(
        "skyrl_adapter.py",
        skyrl__backends__skyrl_train__utils__ppo_utils={"AdvantageEstimatorRegistry": registry},
        skyrl__train__entrypoints__main_base={"main": None},
    )
    tokens = torch.zeros(len(REWARDS) + 1, 3)
    tokens[:-1, 1] = torch.tensor(REWARDS)
    mask = torch.ones_like(tokens)
    mask[::2, 2] = 0
    with pytest.warns(UserWarning, match="1 of 4 groups with fewer than 4"):  # the row that pads
        estimates, returns = registered["maxatk"](
            token_level_rewards=tokens,
            response_mask=mask,
            index=[*IDS, "pad0"],
            values=None,
            grpo_norm_by_std=True,
            gamma=1.0,
            lambd=1.0,
            config=None,
        )
    wanted = torch.tensor([*expected(), 0.0]).float()[:, None] * mask
    torch.testing.assert_close(estimates, wanted)
    torch.testing.assert_close(returns, wanted)


def test_slime(load):
    class Sample:
        def __init__(self, group_index, reward):
            self.group_index = group_index
            self.reward = reward

        def get_reward_value(self, args):
            return self.reward[args.reward_key]

    samples = [Sample(i, {"score": r}) for i, r in zip(IDS, REWARDS, strict=True)]
    args = types.SimpleNamespace(reward_key="score")
    raw, estimates = load("slime_adapter.py").post_process(args, samples)
    assert raw == REWARDS
    assert isinstance(estimates, list)
    np.testing.assert_allclose(estimates, expected())


def test_slime_with_rollouts_of_several_samples(load):
    generator = np.random.default_rng(0)
    samples = []
    for row, (group_index, reward) in enumerate(zip(IDS, REWARDS, strict=True)):
        for _ in range(generator.integers(1, 5)):
            sample = types.SimpleNamespace(group_index=group_index, rollout_id=row, place=row)
            sample.get_reward_value = lambda args, reward=reward: reward
            samples.append(sample)
    samples = [samples[place] for place in generator.permutation(len(samples))]
    post_process = load("slime_adapter.py").post_process
    _, values = post_process(None, samples)
    np.testing.assert_allclose(values, expected()[[sample.place for sample in samples]])
    samples[0].get_reward_value = lambda args: 7.0
    split = [s for s in samples if s.rollout_id == samples[0].rollout_id]
    if len(split) == 1:
        samples.append(types.SimpleNamespace(**{**vars(split[0]), "get_reward_value": lambda _: 3}))
    with pytest.raises(InvalidValueError, match="the rows of one rollout of group"):
        post_process(None, samples)


@pytest.mark.parametrize("rewards", [GROUPS["y"], [1.0, 0.0, 0.5, 0.0], [1.0, 0.0], [1.0]])
def test_prime_rl(load, rewards):
    class GRPOAlgorithm:
        pass

    table = {"grpo": GRPOAlgorithm}

    def assign_advantages(trace, value):
        assert isinstance(value, float)
        trace.advantage = value

    def iter_trainable_traces(episodes):
        return ((episode, trace) for episode in episodes for trace in episode.traces if trace.ok)

    algo = {"ALGORITHM_CLASSES": table, "GRPOAlgorithm": GRPOAlgorithm}
    load(
        "prime_rl_adapter.py",
        prime_rl__entrypoints__orchestrator={"main": None},
        prime_rl__orchestrator__algo={**algo, "assign_advantages": assign_advantages},
        prime_rl__orchestrator__algo__base={"iter_trainable_traces": iter_trainable_traces},
    )

    def trace(reward, role="solver", *, ok=True):
        agent = types.SimpleNamespace(name=role)
        return types.SimpleNamespace(reward=reward, ok=ok, agent=agent)

    traces = [trace(r) for r in rewards]
    judges = [trace(1.0 - r, "judge") for r in rewards]  # which is trained in the same episodes
    failed = trace(9.0, ok=False)
    episodes = [
        types.SimpleNamespace(traces=[solver, judge])
        for solver, judge in zip(traces, judges, strict=True)
    ]
    episodes.append(types.SimpleNamespace(traces=[failed]))
    asyncio.run(table["grpo"]().score_group(episodes))
    for role in (traces, judges):
        of_role = [trace.reward for trace in role]
        wanted = expected_of(of_role) if len(rewards) >= 4 else np.zeros(len(rewards))
        np.testing.assert_allclose([trace.advantage for trace in role], wanted)
    assert not hasattr(failed, "advantage")


@pytest.mark.parametrize(
    "groups",
    [list(GROUPS.values()), [GROUPS["x"], GROUPS["y"][:5]], [GROUPS["y"][:4]], [[1.0, 0.0]]],
)
def test_tinker(load, groups):
    train = types.SimpleNamespace(compute_advantages=None)
    load("tinker_adapter.py", tinker_cookbook__rl={"train": train})
    trajectories = [types.SimpleNamespace(get_total_rewards=lambda g=g: list(g)) for g in groups]
    estimates = train.compute_advantages(trajectories)
    assert len(estimates) == len(groups)
    for row, rewards in zip(estimates, groups, strict=True):
        wanted = expected_of(rewards) if len(rewards) >= 4 else np.zeros(len(rewards))
        torch.testing.assert_close(row, torch.tensor(wanted).float())


@pytest.mark.parametrize(
    "groups", [list(GROUPS.values()), [GROUPS["x"], GROUPS["y"][:5]], [[1.0, 0.0]]]
)
def test_rllm(load, groups):
    registered = {}

    def register(name):
        return lambda function: registered.setdefault(name, function)

    load(
        "rllm_adapter.py",
        rllm__trainer__algorithms__advantage={"register_rllm_adv_estimator": register},
    )
    estimates, returns = registered["other"](
        rewards=[np.array(g) for g in groups], algorithm_config=None, traj_groups=None
    )
    for row, rewards in zip(estimates, groups, strict=True):
        wanted = expected_of(rewards) if len(rewards) >= 4 else np.zeros(len(rewards))
        np.testing.assert_allclose(row, wanted)
    assert returns is estimates


def test_nemo_rl(load):
    grpo = types.SimpleNamespace(GRPOAdvantageEstimator=type("Grpo", (), {}))
    load("nemo_rl_adapter.py", nemo_rl__algorithms={"grpo": grpo})
    prompts = torch.zeros(
        len(IDS), 1200, dtype=torch.long
    )  # they differ in one token in the middle
    prompts[:, 600] = torch.tensor([ord(name) for name in IDS])
    mask = torch.ones(len(IDS), 4)
    estimates = grpo.GRPOAdvantageEstimator().compute_advantage(
        prompt_ids=prompts,
        rewards=torch.tensor(REWARDS),
        mask=mask,
        repeated_batch=None,
        logprobs_policy=None,
        logprobs_reference=None,
    )
    assert estimates.shape == mask.shape
    torch.testing.assert_close(estimates, torch.tensor(expected()).float()[:, None] * mask)


def test_openrlhf(load):
    """Batches of its own order, after a length penalty, before the mean of a group goes."""

    def penalties(experiences, args):
        for experience in experiences:
            experience.rewards = experience.rewards - 0.5 * experience.long

    module = types.SimpleNamespace(apply_length_penalties=penalties)
    names = {"length_penalty": module}
    load("openrlhf_adapter.py", openrlhf__trainer__ppo_utils=names).install()
    rewards = torch.tensor([GROUPS["x"], GROUPS["y"]]).reshape(-1)
    long = torch.zeros(12)
    long[[1, 9]] = 1
    experiences = [
        types.SimpleNamespace(index=places, rewards=rewards[places], long=long[places])
        for places in ([11, 0, 1, 6, 7], [2, 9, 10, 3, 8, 4, 5])
    ]
    rollout = types.SimpleNamespace(n_samples_per_prompt=6)
    module.apply_length_penalties(experiences, types.SimpleNamespace(rollout=rollout))
    shaped = (rewards - 0.5 * long).reshape(2, 6).tolist()
    wanted = np.concatenate([expected_of(row, "bon_centred") for row in shaped])
    for experience in experiences:
        torch.testing.assert_close(
            experience.rewards, torch.tensor(wanted[experience.index]).float()
        )
    for row in wanted.reshape(2, 6):
        assert abs(row.mean()) < 1e-12  # what "dr_grpo" subtracts


def test_ms_swift(load):
    class ORM:
        def __init__(self, args=None, **kwargs):
            self.args = args

    class Accuracy(ORM):
        def __call__(self, completions, solution, **kwargs):
            return [float(c == s) for c, s in zip(completions, solution, strict=True)]

    table = {"accuracy": Accuracy}
    load("ms_swift_best_of.py", swift__rewards={"ORM": ORM, "orms": table})
    settings = {"num_generations": 6, "num_generations_eval": None, "scale_rewards": "none"}
    right = [[1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1]]
    completions = [str(is_right) for group in right for is_right in group]
    columns = {
        "trainer_state": None,
        "solution": ["1"] * 18,
        "prompt_id": ["prompt_0"] * 6 + ["prompt_1"] * 12,  # two equal prompts in a row
        "messages": [[{"role": "assistant", "content": text}] for text in completions],
    }
    reward = table["best_of"](args=types.SimpleNamespace(**settings))
    wanted = np.concatenate([expected_of([float(x) for x in g], "bon_centred") for g in right])
    np.testing.assert_allclose(reward(completions, **columns), wanted, atol=1e-15)
    reward = table["best_of"](args=types.SimpleNamespace(**{**settings, "scale_rewards": "group"}))
    with pytest.raises(InvalidValueError, match="scale_rewards"):
        reward(completions, **columns)


def test_unsloth(load, monkeypatch):
    trl = pytest.importorskip("trl")
    made = []

    def trainer(model, reward_funcs, args, train_dataset, processing_class):
        made.append((model, reward_funcs, args, train_dataset["prompt"], processing_class))
        return types.SimpleNamespace(train=lambda: None)

    monkeypatch.setattr(trl, "GRPOTrainer", trainer)
    kind = types.SimpleNamespace(
        from_pretrained=lambda name, max_seq_length: ("model", "tokenizer"),
        get_peft_model=lambda model: f"{model} and adapter",
    )
    module = load("unsloth_best_of.py", unsloth={"FastLanguageModel": kind})
    module.main(use_cpu=True, bf16=False)
    [(model, reward, args, prompts, tokenizer)] = made
    assert (model, tokenizer, len(prompts)) == ("model and adapter", "tokenizer", 2)
    assert args.scale_rewards in (False, "none")
    texts = ["1", "1a", "b", "c2", "123d", "", "e", "4"]
    rewards = reward(prompts=["p"] * 8, completions=texts, args=args)
    wanted = expected_of([1.0, 0.5, 0.0, 0.5, 0.75, 0.0, 0.0, 1.0], "bon_centred")
    np.testing.assert_allclose(rewards, wanted, atol=1e-15)
