"""The advantages that reach the loss, against enumeration over this file's own forward passes."""

import numpy as np
import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS, method_of
from maxatk.train import MaxAtKTrainer
from maxatk.train.ratios import GROUP_ROW
from oracles import subsets

from .conftest import GROUP, SpyTrainer, own_model, reward_with_gaps, text_reward

CVAR = {"credit": {"cvar": 0.5, "of": 3}, "baseline": "replace_one"}
TRAINED = [name for name, method in METHODS.items() if not method.kind.needs_answers]
CORRECTED = [name for name, method in METHODS.items() if method.correction != "none"]
CLAMP = 0.5


def sequence_logps(model_folder, policy, rows):
    """log pi(completion | prompt) of every row, one row at a time, without padding."""
    model = own_model(model_folder)
    model.load_state_dict(policy)
    result = []
    for i in range(len(rows["prompt_ids"])):
        prompt = rows["prompt_ids"][i][rows["prompt_mask"][i].bool()]
        completion = rows["completion_ids"][i][rows["completion_mask"][i].bool()]
        ids = torch.cat([prompt, completion])[None]
        with torch.no_grad():
            logps = model(ids).logits.double().log_softmax(-1)[0, len(prompt) - 1 : -1]
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


def expected_by_step(trainer, model_folder, *, method, k, form):
    """The advantages of the last rollout batch under the policy of every optimizer step."""
    policy, rows, rewards = trainer.generations[-1]
    scored = rewards.double().numpy().reshape(-1, GROUP)
    old_logps = sequence_logps(model_folder, policy, rows)
    expected = {}
    for step, now in {seen.step: seen.policy for seen in trainer.seen}.items():
        log_ratios = (sequence_logps(model_folder, now, rows) - old_logps).reshape(-1, GROUP)
        expected[step] = brute_force(method, scored, log_ratios, k=k, form=form).reshape(-1)
    return expected


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("method", CORRECTED)
def test_off_policy_advantages_match_brute_force_with_split_groups(
    make_trainer, model_folder, method, form
):
    # 16 rows a generation in 8 micro-batches, 4 micro-batches a step, 2 passes: 4 steps a buffer.
    trainer = make_trainer(
        method=method,
        form=form,
        per_device_train_batch_size=2,
        steps_per_generation=8,
        gradient_accumulation_steps=4,
        num_iterations=2,
        max_steps=4,
    )
    trainer.train()
    assert len(trainer.generations) == 1
    assert len(trainer.seen) == 16
    moved = 0.0
    expected = expected_by_step(trainer, model_folder, method=method, k=2, form=form)
    for seen in trainer.seen:
        own = expected[seen.step][seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=2e-5)
        on_policy = trainer.generations[0][1]["advantages"].numpy()
        moved = max(moved, float(np.abs(expected[seen.step] - on_policy).max()))
    assert moved > 1e-3, "the policy did not move: this test would pass without any correction"


def test_groups_are_really_split_over_micro_batches(make_trainer):
    trainer = make_trainer(
        per_device_train_batch_size=4, steps_per_generation=4, gradient_accumulation_steps=2
    )
    trainer.train()
    groups = [set((seen.inputs[GROUP_ROW] // GROUP).tolist()) for seen in trainer.seen]
    assert any(len(found) > 1 for found in groups)


@pytest.mark.parametrize("method", [*TRAINED, CVAR])
def test_every_method_sets_the_advantages_of_its_row(make_trainer, model_folder, method):
    trainer = make_trainer(method=method, max_steps=1)
    trainer.train()
    expected = expected_by_step(trainer, model_folder, method=method, k=2, form="ppo")[0]
    rows = trainer.seen[0].inputs[GROUP_ROW].numpy()
    np.testing.assert_allclose(
        trainer.seen[0].inputs["advantages"].numpy(), expected[rows], atol=1e-5
    )
    assert np.abs(expected).max() > 0


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact"])
def test_unscorable_samples_leave_their_group(make_trainer, model_folder, method):
    trainer = make_trainer(reward_with_gaps, method=method, num_iterations=2, max_steps=2)
    trainer.train()
    rewards = trainer.generations[0][2]
    assert rewards.isnan().any()
    assert not rewards.isnan().all()
    expected = expected_by_step(trainer, model_folder, method=method, k=2, form="ppo")
    for seen in trainer.seen:
        own = expected[seen.step][seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=2e-5)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_method_grpo_gives_the_losses_and_weights_of_trl(
    make_trainer, model_folder, prompts, loss_type
):
    settings = {"num_iterations": 2, "max_steps": 4, "loss_type": loss_type, "optim": "adamw_torch"}
    settings |= {"learning_rate": 1e-3, "rollouts": "trl"}
    ours = make_trainer(method="grpo", cls=MaxAtKTrainer, **settings)
    ours.train()  # before the other is made: making a trainer sets the seed
    shared = {
        name: value
        for name, value in vars(ours.args).items()
        if name in GRPOConfig.__dataclass_fields__
    }
    # Both spell the same batch: TRL refuses the one it derives from the other.
    shared["generation_batch_size"] = None
    theirs = GRPOTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=GRPOConfig(**shared),
        train_dataset=prompts,
    )
    theirs.train()
    assert losses(ours) == pytest.approx(losses(theirs), abs=1e-6)
    assert any(abs(loss) > 1e-4 for loss in losses(ours))
    for name, weight in theirs.model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], weight, atol=1e-5, rtol=0)


def losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def test_reinforce_hides_the_old_log_probabilities_from_the_surrogate(make_trainer):
    trainer = make_trainer(method="bon_off_policy_exact", form="reinforce", num_iterations=2)
    trainer.train()
    assert all("old_per_token_logps" not in seen.inputs for seen in trainer.seen)


class Counting(SpyTrainer):
    """Counts the extra forward passes."""

    extra = 0

    def _forward_log_ratios(self, batch):
        self.extra += 1
        return super()._forward_log_ratios(batch)


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ({"max_steps": 2}, 0),  # strictly on-policy
        ({"num_iterations": 2, "max_steps": 4}, 0),  # 8 rows hold whole groups of 4
        # 2 rows do not: 4 slices, once for each of the two steps that reuse samples
        (
            {
                "num_iterations": 2,
                "max_steps": 4,
                "per_device_train_batch_size": 2,
                "gradient_accumulation_steps": 4,
            },
            8,
        ),
    ],
)
def test_extra_forward_passes_only_where_groups_are_split(make_trainer, settings, extra):
    trainer = make_trainer(method="bon_off_policy_exact", cls=Counting, **settings)
    trainer.train()
    assert trainer.extra == extra
    assert len(trainer.generations) == 2


@pytest.mark.parametrize("form", ["ppo", "reinforce"])
@pytest.mark.parametrize("method", CORRECTED)
def test_whole_groups_take_their_ratios_from_the_loss(make_trainer, model_folder, method, form):
    # 16 rows a generation, 2 micro-batches of 2 groups, one a step, 2 passes: 4 steps a buffer.
    trainer = make_trainer(
        reward_with_gaps,
        cls=Counting,
        method=method,
        form=form,
        steps_per_generation=2,
        gradient_accumulation_steps=1,
        num_iterations=2,
        max_steps=4,
    )
    trainer.train()
    assert trainer.extra == 0
    assert len(trainer.generations) == 1
    rows = [seen.inputs[GROUP_ROW].tolist() for seen in trainer.seen]
    assert sorted(rows[0] + rows[1]) == list(range(16))
    assert all(group[0] % GROUP == 0 for r in rows for group in (r[:GROUP], r[GROUP:]))
    expected = expected_by_step(trainer, model_folder, method=method, k=2, form=form)
    for seen in trainer.seen:
        own = expected[seen.step][seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=2e-5)


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact"])
def test_masked_truncated_completions_leave_groups_whose_weights_need_ratios(
    make_trainer, model_folder, method
):
    trainer = make_trainer(
        method=method,
        mask_truncated_completions=True,
        max_completion_length=80,  # an untrained model stops at about one token in 120
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    _, rows, rewards = trainer.generations[0]
    masked = rows["completion_mask"].sum(dim=1) == 0
    assert masked.any()
    assert not masked.all()
    if method == "bon_off_policy_exact":
        rewards[masked] = torch.nan
    expected = expected_by_step(trainer, model_folder, method=method, k=2, form="ppo")
    for seen in trainer.seen:
        own = expected[seen.step][seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=2e-5)


def test_several_rewards_are_added_with_their_weights(make_trainer, model_folder):
    trainer = make_trainer(
        [text_reward, reward_with_gaps],
        reward_weights=[1.0, -0.5],
        method="bon_off_policy_exact",
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    texts = trainer._logs["completion"]
    one, other = text_reward(texts), reward_with_gaps(texts)
    expected = [a - 0.5 * (b or 0.0) for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(trainer.generations[0][2].numpy(), expected, atol=1e-6)
    method = "bon_off_policy_exact"
    expected = expected_by_step(trainer, model_folder, method=method, k=2, form="ppo")
    for seen in trainer.seen:
        own = expected[seen.step][seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=2e-5)


def test_the_advantages_follow_the_schedule_of_k(make_trainer, model_folder):
    trainer = make_trainer(k=4, k_schedule="linear", max_steps=4)
    trainer.train()
    logged = [row["objective/k"] for row in trainer.state.log_history if "loss" in row]
    assert logged == [4.0, 3.0, 3.0, 2.0]  # 4 - 3 * step / 4, halves rounded up
    for seen, generation, k in zip(trainer.seen, trainer.generations, logged, strict=True):
        rewards = generation[2].double().numpy().reshape(-1, GROUP)
        expected = brute_force("bon_loo1", rewards, np.zeros_like(rewards), k=int(k), form="ppo")
        own = expected.reshape(-1)[seen.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(seen.inputs["advantages"].numpy(), own, atol=1e-5)


def test_what_is_logged_describes_the_groups(make_trainer):
    trainer = make_trainer(method="bon_off_policy_exact", num_iterations=2, max_steps=2)
    trainer.train()
    first, second = [row for row in trainer.state.log_history if "loss" in row]
    rewards = trainer.generations[0][2].double().numpy().reshape(-1, GROUP)
    for k in (1, 2, GROUP):
        expected = np.mean([subsets.max_at_k(list(group), k) for group in rewards])
        assert first[f"max@{k}"] == pytest.approx(expected, abs=1e-6)
    assert 0 <= first["frac_groups_without_signal"] < 1
    assert second["ratio/mean_abs_delta"] > 0
    assert "ratio/mean_abs_delta" not in first


def test_too_few_prompts_for_one_generation_are_refused(make_trainer):
    with pytest.raises(InvalidValueError, match=r"24 prompts, fewer than the 32"):
        make_trainer(per_device_train_batch_size=128).train()
