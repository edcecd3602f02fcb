"""verl's own training on a CPU, repeated in plain torch."""

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxatk import advantages
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.exchange import read_log
from maxatk.problems import load_problems
from maxatk.training.group_log import training_log
from maxatk.training.symptoms import findings
from maxatk.view.advantages import advantages_under
from maxatk.view.watched_training import WatchedTraining
from processes import patience
from verl_plugin.replay import log_probs, replay
from verl_plugin.training import LEARNING_RATE, K, N, train, variables

METHOD = "bon_off_policy_exact"
pytestmark = pytest.mark.timeout(patience(900))  # a dozen processes import torch before any work


@pytest.fixture(scope="module")
def in_loss(mini, tmp_path_factory):
    """One rank, micro-batches of one group, two epochs of two mini-batches, two steps."""
    out = tmp_path_factory.mktemp("in_loss")
    return train(
        mini,
        out,
        environment=variables(out, WANDB_MODE="offline", WANDB_DIR=str(out)),
        overrides=[
            "trainer.logger=[console,file,wandb]",
            f"trainer.rollout_data_dir={out}/rollouts",
            f"trainer.validation_data_dir={out}/validation",
            "trainer.total_training_steps=2",
            "trainer.test_freq=2",
            "trainer.save_freq=2",
            "actor_rollout_ref.rollout.val_kwargs.n=4",
            "actor_rollout_ref.rollout.val_kwargs.do_sample=True",
            "actor_rollout_ref.rollout.val_kwargs.temperature=1.0",
        ],
    )


def check_replay(run, mini, *, steps, method=METHOD, sizes=(N,)):
    """Compare the first optimizer steps with plain torch; return them."""
    replayed = replay(
        run.seen,
        mini / "model",
        steps=steps,
        method=method,
        k=K,
        n=N,
        learning_rate=LEARNING_RATE,
    )
    # Adam turns rounding into steps of its own, so that two trainings drift apart.
    for first, bound in ((4, 1), (steps, 100)):
        assert max(step.ratio_error for step in replayed[:first]) < 1e-3 * bound
        assert max(step.advantage_error for step in replayed[:first]) < 1e-4 * bound
    assert max(step.largest_advantage for step in replayed) > 1e-2
    assert {size for step in replayed for size in step.group_sizes} <= set(sizes)
    return replayed


def logged(run, name):
    return [row["data"][name] for row in run.metrics if name in row["data"]]


def test_every_optimizer_step_uses_the_advantages_of_its_own_ratios(in_loss, mini):
    assert in_loss.status == 0, in_loss.log[-3000:]
    steps = check_replay(in_loss, mini, steps=8)
    assert steps[0].largest_log_ratio < 1e-4  # the samples are of these weights
    assert max(step.largest_log_ratio for step in steps) > 0.1
    norms = np.array([step.gradient_norm for step in steps]).reshape(2, 4).mean(axis=1)
    logged_norms = logged(in_loss, "actor/grad_norm")
    np.testing.assert_allclose(logged_norms[0], norms[0], rtol=1e-3)
    np.testing.assert_allclose(logged_norms[1], norms[1], rtol=5e-2)  # after the drift


def test_the_samples_come_from_the_weights_that_are_trained(in_loss):
    differences = logged(in_loss, "training/rollout_probs_diff_max")
    assert len(differences) == 2
    assert max(differences) < 1e-5


def test_the_log_tells_the_objective_and_unbiased_validation(in_loss):
    for name in ("objective/k", "max@1", "max@4", "frac_without_reward", "advantages/rms"):
        assert len(logged(in_loss, f"maxatk/{name}")) == 2
    at_k = [logged(in_loss, f"val-core/mini/reward/max@{k}") for k in (1, 2, 4)]
    assert [len(values) for values in at_k] == [1, 1, 1]
    assert at_k == sorted(at_k)
    assert 0 < at_k[0][0] < at_k[-1][0] <= 1
    # verl's own draws with replacement: in a group of n it sees fewer than n samples.
    assert at_k[-1][0] > logged(in_loss, "val-aux/mini/reward/best@4/mean")[0]
    assert not [
        name
        for row in in_loss.metrics
        for name in row["data"]
        if "val-core" in name and "best@" in name
    ]


def test_the_record_holds_what_the_losses_saw_and_is_read_as_that_of_a_training(in_loss, mini):
    training = WatchedTraining(in_loss.out / "checkpoints")
    assert training.progress == "step 2 of 2, ended"
    assert list(training.groups) == [1, 2]
    assert training.about["num_generations"] == N
    decode = AutoTokenizer.from_pretrained(mini / "model").decode
    ids = {problem.id for problem in load_problems(mini / "problems.jsonl")}
    for step in (1, 2):
        groups = [training.group(step, place) for place in range(len(training.groups[step]))]
        samples_of_prompts = {}
        for batch in in_loss.seen[0][8 * step - 8 : 8 * step - 4]:
            texts = [decode(tokens, skip_special_tokens=True) for tokens in batch["responses"]]
            samples_of_prompts[decode(batch["prompts"][0])] = sorted(
                zip(texts, batch["rewards"], strict=True)
            )
        assert {group["prompt"] for group in groups} == samples_of_prompts.keys()
        for group in groups:
            samples = [(sample["text"], sample["reward"]) for sample in group["samples"]]
            assert sorted(samples) == samples_of_prompts[group["prompt"]]
            assert group["id"] in ids
            recorded = [sample["advantage"] for sample in group["samples"]]
            np.testing.assert_allclose(recorded, advantages_under(group, METHOD, K), atol=1e-5)
    stored = WatchedTraining(
        Path(__file__).parents[1] / "view" / "verl"
    )  # what its page is tested with
    assert stored.about.keys() == training.about.keys()
    assert stored.group(1, 0).keys() == training.group(1, 0).keys()
    assert stored.group(1, 0)["samples"][0].keys() == training.group(1, 0)["samples"][0].keys()
    rows = training_log(in_loss.out / "checkpoints")
    assert [row["max@8"] for row in rows] == logged(in_loss, "maxatk/max@8")
    assert all(np.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in rows)
    assert findings(rows) is not None


def test_wandb_has_the_groups_of_the_record_as_tables(in_loss):
    training = WatchedTraining(in_loss.out / "checkpoints")
    tables = sorted(in_loss.out.glob("wandb/offline-run-*/files/media/table/groups_*.json"))
    assert len(tables) == 2
    for step, path in enumerate(tables, 1):
        table = json.loads(path.read_text())
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
        groups = [training.group(step, place) for place in range(len(training.groups[step]))]
        recorded = [
            (group["prompt"], sample["text"]) for group in groups for sample in group["samples"]
        ]
        assert [(row["prompt"], row["text"]) for row in rows] == recorded
        assert {row["step"] for row in rows} == {step}


def test_the_rollouts_that_verl_dumps_are_read_with_their_groups_and_rewards(in_loss):
    for step in (1, 2):
        rows = read_log(in_loss.out / "rollouts" / f"{step}.jsonl", log_format="verl")
        groups = {}
        for row in rows:
            groups.setdefault(row.problem_id, []).append(row.reward)
        # Four micro-batches of a group each, twice: the epochs.
        rewards = [batch["rewards"] for batch in in_loss.seen[0][8 * step - 8 : 8 * step - 4]]
        assert sorted(map(sorted, groups.values())) == sorted(map(sorted, rewards))
        assert {row.sample for row in rows} == set(range(N))
        assert all(row.completion is not None for row in rows)


def test_the_validation_that_verl_dumps_gives_the_metrics_that_were_logged(in_loss, tmp_path):
    results = score_rewards(
        in_loss.out / "validation" / "2.jsonl", tmp_path / "run", log_format="verl"
    )
    for k in (1, 2, 4):
        (logged_value,) = logged(in_loss, f"val-core/mini/reward/max@{k}")
        per_problem = results.per_problem.values["max@k"][k]
        assert len(per_problem) == 4
        np.testing.assert_allclose(np.mean(per_problem), logged_value, atol=1e-6)


def test_a_trainer_of_verl_goes_on_with_the_estimator_alone(in_loss, mini, tmp_path):
    """Resumed from the checkpoint above, with rewards by the verifier, without a correction."""
    run = train(
        mini,
        tmp_path,
        overrides=[
            "trainer.v1.trainer_mode=sync",
            "trainer.total_training_steps=3",
            "trainer.resume_mode=resume_path",
            f"trainer.resume_from_path={in_loss.out}/checkpoints/global_step_2",
            "algorithm.maxatk.method=bon_loo1",
            "actor_rollout_ref.actor.ppo_mini_batch_size=4",
            "actor_rollout_ref.actor.ppo_epochs=1",
            "reward.custom_reward_function.path=pkg://maxatk.verifier",
        ],
    )
    assert run.status == 0, run.log[-3000:]
    assert logged(run, "training/global_step") == [3]
    assert max(logged(run, "training/rollout_probs_diff_max")) < 1e-5
    rewards = [reward for batch in run.seen[0] for reward in batch["rewards"]]
    assert len(rewards) == 4 * N
    assert set(np.round(np.multiply(rewards, 3), 5)) <= {0.0, 1.0, 2.0, 3.0}  # of three tests


def advantages_by_text(run, *, first, last):
    """(prompt, response) -> the advantages at some micro-batches, however often it was drawn."""
    by_text = {}
    for batch in run.seen[0][first:last]:
        for row in zip(batch["prompts"], batch["responses"], batch["advantages"], strict=True):
            by_text.setdefault((tuple(row[0]), tuple(row[1])), []).append(row[2][0])
    return {text: sorted(values) for text, values in by_text.items()}


def check_same(by_text, expected):
    assert by_text.keys() == expected.keys()
    for text, values in expected.items():
        np.testing.assert_allclose(by_text[text], values, atol=1e-4)


def test_the_same_seed_gives_the_same_advantages(in_loss, mini, tmp_path):
    run = train(mini, tmp_path)
    assert run.status == 0, run.log[-3000:]
    assert len(run.seen[0]) == 8  # 4 optimizer steps of two groups
    first = advantages_by_text(run, first=0, last=4)
    assert max(abs(value) for values in first.values() for value in values) > 0.1
    check_same(first, advantages_by_text(in_loss, first=0, last=4))


@pytest.fixture(scope="module")
def selected(mini, tmp_path_factory):
    """A method of parts, a selection and the running scale, on-policy: two steps of four groups."""
    return train(mini, tmp_path_factory.mktemp("selected"), overrides=SELECTED)


SELECTED = [
    "trainer.total_training_steps=2",
    "trainer.save_freq=1",
    "algorithm.maxatk.method={credit: max_at_k, correction: exact, baseline: leave_one_out}",
    "+algorithm.maxatk.selection=judge",
    "+algorithm.maxatk.advantage_scale=batch",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_epochs=1",
]


def judge(text):
    """What the reward function of the tests returns beside the reward."""
    return zlib.crc32(text.encode()) % 9973


def test_a_second_key_of_the_reward_selects_and_one_root_mean_square_divides(selected, mini):
    assert selected.status == 0, selected.log[-3000:]
    decode = AutoTokenizer.from_pretrained(mini / "model").decode
    assert len(selected.seen[0]) == 8
    squares = []
    for step in range(2):
        groups = selected.seen[0][4 * step : 4 * step + 4]
        expected = []
        plain = []
        for group in groups:
            texts = [decode(tokens, skip_special_tokens=True) for tokens in group["responses"]]
            scores = [[judge(text) for text in texts]]
            plain += [advantages([group["rewards"]], "bon_loo1", K, selection=scores)[0]]
            # A correction orders the tied scores of equal texts by their places.
            ones = [[0.0] * N]
            exact = "bon_off_policy_exact"
            expected += [
                advantages([group["rewards"]], exact, K, selection=scores, log_ratios=ones)[0]
            ]
        squares.append(np.mean(np.square([row for row in plain if row.any()])))
        weights = [0.99 * 0.01, 0.01][-len(squares) :]
        running = np.dot(weights, squares) / sum(weights)
        used = [[row[0] for row in group["advantages"]] for group in groups]
        np.testing.assert_allclose(used, np.divide(expected, np.sqrt(running)), atol=1e-3)


def test_a_resumed_training_goes_on_with_the_running_scale(selected, mini, tmp_path):
    checkpoint = f"trainer.resume_from_path={selected.out}/checkpoints/global_step_1"
    run = train(
        mini,
        tmp_path,
        overrides=[*SELECTED, "trainer.resume_mode=resume_path", checkpoint],
    )
    assert run.status == 0, run.log[-3000:]
    assert len(run.seen[0]) == 4
    check_same(
        advantages_by_text(run, first=0, last=4), advantages_by_text(selected, first=4, last=8)
    )


def test_the_kl_term_is_about_the_weights_before_the_training(mini, tmp_path):
    """The reference worker offloads its weights; the advantages are those of the rewards alone."""
    run = train(
        mini,
        tmp_path,
        overrides=[
            "trainer.total_training_steps=2",
            "actor_rollout_ref.actor.use_kl_loss=True",
            "actor_rollout_ref.actor.kl_loss_coef=0.05",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
            "+actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=fp32",
        ],
    )
    assert run.status == 0, run.log[-3000:]
    model = AutoModelForCausalLM.from_pretrained(mini / "model", dtype=torch.float32)
    batches = run.seen[0]
    assert len(batches) == 16
    for batch in batches:
        rows = zip(batch["prompts"], batch["responses"], batch["reference"], strict=True)
        with torch.no_grad():
            gaps = [log_probs(model, *row) - torch.tensor(reference) for *row, reference in rows]
        assert max(gap.abs().max() for gap in gaps) < 1e-4
        ratios = [
            [sum(now) - sum(old) for now, old in zip(batch["now"], batch["old"], strict=True)]
        ]
        expected = N * advantages([batch["rewards"]], METHOD, K, log_ratios=ratios)[0]
        np.testing.assert_allclose([row[0] for row in batch["advantages"]], expected, atol=1e-4)
    first, second = logged(run, "actor/kl_loss")
    assert 0 < first < second
    assert training_log(tmp_path / "checkpoints")[1]["kl"] == pytest.approx(second)


def test_two_ranks_with_groups_in_pieces_use_the_ratios_of_whole_groups(mini, tmp_path):
    """Micro-batches of four rows: the ratios come from a pass before each optimizer step."""
    run = train(
        mini,
        tmp_path,
        overrides=[
            "trainer.n_gpus_per_node=2",
            "actor_rollout_ref.rollout.n_gpus_per_node=2",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        ],
        environment=variables(tmp_path, VERL_ON_CPU_UNSCORED="1"),
    )
    assert run.status == 0, run.log[-3000:]
    assert len(run.seen) == 2
    steps = check_replay(run, mini, steps=4)
    assert max(step.largest_log_ratio for step in steps) > 0.1
    (norm,) = logged(run, "actor/grad_norm")
    np.testing.assert_allclose(norm, np.mean([s.gradient_norm for s in steps]), rtol=1e-3)
    assert logged(run, "maxatk/frac_without_reward")[0] > 0


def test_two_nodes_with_failed_rollouts_keep_groups_whole(mini, tmp_path, monkeypatch):
    """One rank and one rollout server on each node; groups that lost samples are filled up."""
    from ray.cluster_utils import Cluster

    for name, value in variables(tmp_path, VERL_ON_CPU_FAILURES="0.12").items():
        monkeypatch.setenv(name, value)  # the nodes hand their environment on to the workers
    node = {"num_cpus": 8, "num_gpus": 1, "object_store_memory": 2 * 10**8}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        run = train(
            mini,
            tmp_path,
            ray_address=cluster.address,
            overrides=["trainer.nnodes=2", f"trainer.rollout_data_dir={tmp_path}/rollouts"],
            environment=dict(os.environ),
        )
    finally:
        cluster.shutdown()
    assert run.status == 0, run.log[-3000:]
    assert len(run.seen) == 2
    steps = check_replay(run, mini, steps=4, sizes=range(1, N + 1))
    assert min(size for step in steps for size in step.group_sizes) < N
    dumped = read_log(tmp_path / "rollouts" / "1.jsonl", log_format="verl")
    real = sum(sum(batch["real"]) for rank in run.seen for batch in rank)
    assert len(dumped) == real // 2  # each is in the losses of two epochs
    (norm,) = logged(run, "actor/grad_norm")
    np.testing.assert_allclose(norm, np.mean([s.gradient_norm for s in steps]), rtol=1e-3)


def test_settings_that_do_not_fit_are_refused_before_any_worker(mini, tmp_path):
    run = train(
        mini,
        tmp_path,
        overrides=["algorithm.maxatk.k=9", "actor_rollout_ref.actor.shuffle=True"],
    )
    assert run.status != 0
    assert (
        "algorithm.maxatk.k: must be a whole number from 1 to actor_rollout_ref.rollout.n (8)"
        in run.log
    )
    assert "actor_rollout_ref.actor.shuffle: must be False" in run.log
    assert not run.seen


@pytest.fixture(scope="module")
def asynchronous(mini, tmp_path_factory):
    """A server of its own that samples ahead; each of three steps trains on two mini-batches."""
    rollout = "actor_rollout_ref.rollout"
    out = tmp_path_factory.mktemp("asynchronous")
    return train(
        mini,
        out,
        environment=variables(out, VERL_LOGGING_LEVEL="WARN"),  # verl's own line at INFO raises
        overrides=[
            "trainer.v1.trainer_mode=maxatk_separate_async",
            "trainer.v1.separate_async.parameter_sync_step=2",
            "trainer.total_training_steps=3",
            "algorithm.rollout_correction.bypass_mode=True",
            "actor_rollout_ref.hybrid_engine=False",
            "actor_rollout_ref.actor.ppo_epochs=1",
            f"{rollout}.nnodes=1",
            f"{rollout}.checkpoint_engine.backend=file",
            f"+{rollout}.checkpoint_engine.custom_backend_module=verl_on_cpu.transfer",
        ],
    )


def test_groups_that_older_weights_sampled_are_corrected_to_what_they_were_drawn_from(
    asynchronous, mini
):
    assert asynchronous.status == 0, asynchronous.log[-3000:]
    steps = check_replay(asynchronous, mini, steps=6)
    assert steps[0].largest_log_ratio < 1e-4  # the first ones are of these weights
    assert max(step.largest_log_ratio for step in steps[2:]) > 0.1
    training = WatchedTraining(asynchronous.out / "checkpoints")
    assert list(training.groups) == [1, 2, 3]
    assert len(training.groups[3]) == 4
