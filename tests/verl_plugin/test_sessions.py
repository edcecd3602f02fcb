"""Agent loops of verl that return several outputs for a session: a session is one sample."""

import numpy as np
import pytest

pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.v1 import trainer_base

import maxatk
import maxatk.verl.trainers
from maxatk import METHODS
from maxatk.objectives import method_of
from maxatk.objectives.objective import Objective
from maxatk.verl.rows import TrainedRows, advantages_of_rows
from maxatk.view.advantages import advantages_under
from maxatk.view.watched_training import WatchedTraining
from processes import patience
from verl_plugin.replay import replay
from verl_plugin.training import LEARNING_RATE, K, N, train, variables

pytestmark = pytest.mark.timeout(patience(900))

ON_POLICY = [
    name
    for name, method in METHODS.items()
    if method.correction == "none" and not method_of(name).credit_row.needs_answers
]


def split_batch(seed, prompts=3):
    """Rewards (P, N) and rows of 1 to 4 outputs a session, in any order, with their keys."""
    rng = np.random.default_rng(seed)
    rewards = np.round(rng.random((prompts, N)), 1)
    keys = [
        f"u_{prompt}_{session}_{output}"
        for prompt in range(prompts)
        for session in range(N)
        for output in range(rng.integers(1, 5))
    ]
    keys = [keys[place] for place in rng.permutation(len(keys))]
    places = [tuple(map(int, key.split("_")[1:3])) for key in keys]
    return rewards, keys, places


def as_verl_has_it(rewards, places, untrained=()):
    """The rows as verl's trainer hands them to an estimator; some have no trained token."""
    tokens = 5
    mask = torch.zeros(len(places), tokens)
    token_rewards = torch.zeros(len(places), tokens)
    for row, place in enumerate(places):
        length = 1 + row % tokens
        mask[row, :length] = row not in untrained
        token_rewards[row, length - 1] = rewards[place]  # verl gives all outputs the last one's
    tensors = {"token_level_rewards": token_rewards, "response_mask": mask}
    uids = np.array([f"u_{prompt}" for prompt, _ in places], dtype=object)
    return DataProto.from_dict(tensors, non_tensors={"uid": uids})


def of_estimator(rewards, keys, places, estimator, config, untrained=()):
    data = trainer_base.compute_advantage_for_multi_trajectories(
        as_verl_has_it(rewards, places, untrained),
        batch_keys=keys,
        adv_estimator=estimator,
        num_repeat=N,
        norm_adv_by_std_in_grpo=True,
        config=config,
    )
    return data.batch["advantages"][:, 0].numpy()


@pytest.mark.parametrize("method", ON_POLICY)
def test_the_estimator_under_a_trainer_of_verl_counts_sessions(method):
    config = OmegaConf.create({"maxatk": {"method": method, "k": K, "advantage_scale": "sum"}})
    for seed in range(4):
        rewards, keys, places = split_batch(seed)
        expected = maxatk.advantages(rewards, method, K)
        values = of_estimator(rewards, keys, places, "maxatk", config)
        np.testing.assert_allclose(values, [expected[place] for place in places], atol=1e-5)
    assert "sessions" not in config.maxatk


@pytest.mark.parametrize("method", ON_POLICY)
def test_outputs_without_a_trained_token_are_no_part_of_their_session(method):
    config = OmegaConf.create({"maxatk": {"method": method, "k": K, "advantage_scale": "sum"}})
    rewards, keys, places = split_batch(0)
    kept_whole = [places.index((prompt, session)) for prompt, session in {*places}]
    untrained = {row for row in range(len(places)) if row not in kept_whole}
    lost = places.index((0, 0))
    untrained.add(lost)  # a session of which no row is left
    assert len(untrained) > N
    known_rewards = rewards.copy()
    known_rewards[0, 0] = np.nan
    expected = maxatk.advantages(known_rewards, method, K)
    values = of_estimator(rewards, keys, places, "maxatk", config, untrained)
    wanted = [0 if row in untrained else expected[place] for row, place in enumerate(places)]
    np.testing.assert_allclose(values, wanted, atol=1e-5)
    everything = range(len(places))
    assert (of_estimator(rewards, keys, places, "maxatk", config, everything) == 0).all()


def test_grpo_is_that_of_verl():
    rewards, keys, places = split_batch(0)
    config = OmegaConf.create({"maxatk": {"method": "grpo", "k": 1}})
    ours = of_estimator(rewards, keys, places, "maxatk", config)
    theirs = of_estimator(rewards, keys, places, "grpo", config)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)  # an epsilon beside the deviation


def test_a_lone_success_in_three_rows_has_its_advantage_three_times():
    """The example of docs/objectives.md, whose rows counted one by one give 0.167 each."""
    rewards = np.array([[1.0, 0.0, 0.0, 0.5]])
    places = [(0, 0), (0, 0), (0, 0), (0, 1), (0, 2), (0, 3)]
    keys = ["u_0_0_0", "u_0_0_1", "u_0_0_2", "u_0_1_0", "u_0_2_0", "u_0_3_0"]
    config = OmegaConf.create({"maxatk": {"method": "bon_loo1", "k": 2, "advantage_scale": "sum"}})
    values = of_estimator(rewards, keys, places, "maxatk", config)
    np.testing.assert_allclose(values, [0.4167] * 3 + [0, 0, 0.1667], atol=1e-4)


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact", "bon_off_policy"])
def test_splitting_sessions_changes_no_advantage_and_ratios_are_products(method):
    for seed in range(4):
        rewards, _, places = split_batch(seed)
        rng = np.random.default_rng(seed)
        parts = rng.normal(0, 0.1, len(places))
        logs = np.zeros_like(rewards)
        for place, part in zip(places, parts, strict=True):
            logs[place] += part
        corrected = METHODS[method].correction != "none"
        ratios = {"log_ratios": logs} if corrected else {}
        expected = maxatk.advantages(rewards, method, K, **ratios)
        values = advantages_of_rows(
            Objective(method=method, k=K),
            TrainedRows(
                [f"u{prompt}" for prompt, _ in places], N, [session for _, session in places]
            ),
            np.array([rewards[place] for place in places]),
            k=K,
            log_ratios=parts if corrected else None,
        )
        np.testing.assert_allclose(values, [expected[place] for place in places], atol=1e-9)


def agent_settings(folder):
    path = folder / "agent.yaml"
    path.write_text("- name: two_outputs\n  _target_: verl_on_cpu.agent.TwoOutputs\n")
    where = "actor_rollout_ref.rollout.agent"
    return [f"{where}.agent_loop_config_path={path}", f"{where}.default_agent_loop=two_outputs"]


def check(run, mini, *, method, steps):
    """Compare the optimizer steps with plain torch, in which a session is one sample."""
    assert run.status == 0, run.log[-3000:]
    sessions = []
    for batch in run.seen[0]:
        pairs = zip(batch["sessions"], batch["real"], strict=True)
        sessions += [session for session, real in pairs if real]
    odd = sum(session % 2 for session in sessions)
    assert odd == 2 * (len(sessions) - odd)
    stepped = replay(
        run.seen, mini / "model", steps=steps, method=method, k=K, n=N, learning_rate=LEARNING_RATE
    )
    assert {size for step in stepped for size in step.group_sizes} == {N}
    assert max(step.ratio_error for step in stepped[:4]) < 1e-3
    assert max(step.advantage_error for step in stepped[:4]) < 1e-4
    assert max(step.largest_advantage for step in stepped) > 1e-2
    return stepped


def check_record(run, method):
    training = WatchedTraining(run.out / "checkpoints")
    group = training.group(1, 0)
    assert len(group["samples"]) == N
    recorded = [sample["advantage"] for sample in group["samples"]]
    np.testing.assert_allclose(recorded, advantages_under(group, method, K), atol=1e-5)
    assert sum("\n\n" in sample["text"] for sample in group["samples"]) >= N // 4


def test_the_correction_is_by_the_ratios_of_whole_sessions(mini, tmp_path):
    run = train(mini, tmp_path, overrides=agent_settings(tmp_path))
    stepped = check(run, mini, method="bon_off_policy_exact", steps=4)
    assert max(step.largest_log_ratio for step in stepped) > 0.1
    check_record(run, "bon_off_policy_exact")


def test_groups_in_pieces_are_corrected_by_a_pass_before_each_step(mini, tmp_path):
    pieces = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4"
    run = train(mini, tmp_path, overrides=[*agent_settings(tmp_path), pieces])
    check(run, mini, method="bon_off_policy_exact", steps=4)


def test_an_asynchronous_training_counts_sessions(mini, tmp_path):
    rollout = "actor_rollout_ref.rollout"
    run = train(
        mini,
        tmp_path,
        environment=variables(tmp_path, VERL_LOGGING_LEVEL="WARN"),  # verl's own line raises
        overrides=[
            *agent_settings(tmp_path),
            "trainer.v1.trainer_mode=maxatk_separate_async",
            "trainer.v1.separate_async.parameter_sync_step=2",
            "trainer.total_training_steps=2",
            "algorithm.rollout_correction.bypass_mode=True",
            "actor_rollout_ref.hybrid_engine=False",
            "actor_rollout_ref.actor.ppo_epochs=1",
            f"{rollout}.nnodes=1",
            f"{rollout}.checkpoint_engine.backend=file",
            f"+{rollout}.checkpoint_engine.custom_backend_module=verl_on_cpu.transfer",
        ],
    )
    check(run, mini, method="bon_off_policy_exact", steps=4)


def test_a_trainer_of_verl_counts_sessions(mini, tmp_path):
    run = train(
        mini,
        tmp_path,
        overrides=[
            *agent_settings(tmp_path),
            "trainer.v1.trainer_mode=sync",
            "algorithm.maxatk.method=bon_loo1",
            "actor_rollout_ref.actor.ppo_epochs=1",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        ],
    )
    assert run.status == 0, run.log[-3000:]
    groups = {}
    for batch in run.seen[0]:
        columns = (batch["uids"], batch["sessions"], batch["rewards"], batch["advantages"])
        for uid, session, reward, advantage in zip(*columns, strict=True):
            if not uid.startswith("pad"):
                groups.setdefault(uid, {}).setdefault(session, []).append((reward, advantage[0]))
    assert len(groups) == 4
    for sessions in groups.values():
        ordered = [sessions[session] for session in range(N)]
        assert [len(outputs) for outputs in ordered] == [1, 2] * (N // 2)
        expected = N * maxatk.advantages([[outputs[-1][0] for outputs in ordered]], "bon_loo1", K)
        for outputs, wanted in zip(ordered, expected[0], strict=True):
            values = [value for _, value in outputs]
            assert values == pytest.approx([wanted] * len(outputs), abs=1e-5)
