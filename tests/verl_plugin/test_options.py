"""Settings of verl that do not go together are refused in one message; no verl is needed."""

import numpy as np
import pytest

from maxatk import METHODS, advantages
from maxatk.errors import InvalidValueError
from maxatk.objectives import method_of
from maxatk.objectives.objective import Objective
from maxatk.verl.options import (
    ASYNC_MODE,
    MODE,
    check_config,
    data_parallel,
    holds_whole_groups,
    needs_trainer,
    read_objective,
)
from maxatk.verl.rows import TrainedRows, advantages_of_rows, selection_scores

CORRECTED = [name for name, row in METHODS.items() if row.correction != "none"]


class Node(dict):
    """What verl's configuration offers: `config.a.b` and `config.get("a")`."""

    __getattr__ = dict.__getitem__


def node(mapping):
    return Node(
        {key: node(value) if isinstance(value, dict) else value for key, value in mapping.items()}
    )


def config(**changes):
    """A valid configuration; `actor__ppo_epochs=2` and the like win."""
    tree = {
        "trainer": {
            "n_gpus_per_node": 2,
            "nnodes": 1,
            "v1": {"trainer_mode": MODE, "separate_async": {"parameter_sync_step": 2}},
        },
        "data": {"train_batch_size": 8, "max_prompt_length": 64, "max_response_length": 64},
        "algorithm": {
            "adv_estimator": "maxatk",
            "use_kl_in_reward": False,
            "maxatk": {"method": CORRECTED[0], "k": 4},
        },
        "actor": {
            "strategy": "fsdp2",
            "ppo_mini_batch_size": 4,
            "ppo_micro_batch_size_per_gpu": 8,
            "use_dynamic_bsz": False,
            "ppo_max_token_len_per_gpu": 1024,
            "shuffle": False,
            "policy_loss": {"loss_mode": "vanilla"},
        },
        "rollout": {"n": 8, "log_prob_micro_batch_size_per_gpu": 8},
        "ref": {},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = tree
        for parent in parents:
            place = place[parent]
        place[last] = value
    sections = {name: tree[name] for name in ("trainer", "data", "algorithm")}
    return node(
        {
            **sections,
            "actor_rollout_ref": {name: tree[name] for name in ("actor", "rollout", "ref")},
        }
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_taken_unless_it_needs_answers(method):
    chosen = config(algorithm__maxatk={"method": method, "k": 4})
    if METHODS[method].credit_row.needs_answers:
        with pytest.raises(InvalidValueError, match="looks at answers"):
            check_config(chosen)
    else:
        assert check_config(chosen).method == method


def test_an_asynchronous_correction_needs_the_samplers_probabilities_and_whole_groups():
    mode = {"trainer__v1__trainer_mode": ASYNC_MODE}
    with pytest.raises(InvalidValueError) as refused:
        check_config(config(**mode, actor__ppo_micro_batch_size_per_gpu=4))
    assert "rollout_correction.bypass_mode: must be True with maxatk_sep" in str(refused.value)
    assert "per_gpu: must be a multiple of rollout.n with maxatk_sep" in str(refused.value)
    check_config(config(**mode, algorithm__rollout_correction={"bypass_mode": True}))
    plain = {"method": "bon_loo1", "k": 4}
    check_config(config(**mode, algorithm__maxatk=plain))
    # A pass is over what verl takes at once: half of the batch, 4 prompts x 8 on 2 ranks.
    wide = {"rollout__log_prob_micro_batch_size_per_gpu": 32, "algorithm__maxatk": plain}
    check_config(config(**wide))
    with pytest.raises(InvalidValueError, match="of 4 prompts x 8; got 32"):
        check_config(config(**wide, **mode))


def test_a_mapping_is_the_method_that_it_stands_for():
    parts = {"credit": {"cvar": 0.25, "of": 8}, "baseline": "replace_one"}
    objective = check_config(config(algorithm__maxatk={"method": parts, "k": 4}))
    rewards = np.array([[0.0, 1.0, 0.5, 0.25, 1.0, 0.75, 0.0, 0.5]])
    row_advantages = advantages_of_rows(objective, TrainedRows(["x"] * 8, 8), rewards[0], k=4)
    np.testing.assert_allclose(row_advantages, advantages(rewards, method_of(parts))[0])
    assert np.abs(row_advantages).max() > 0


@pytest.mark.parametrize(("correction", "whole"), [("exact", True), ("none", False)])
def test_a_mapping_with_a_correction_needs_the_trainer(correction, whole):
    parts = {"credit": "max_at_k", "baseline": "leave_one_out", "correction": correction}
    objective = read_objective({"maxatk": {"method": parts, "k": 4}})
    assert objective.needs_ratios is whole
    assert ("method" in needs_trainer(objective)) is whole


def test_a_configuration_of_omegaconf_is_read_as_plain_values():
    omegaconf = pytest.importorskip(
        "omegaconf", reason="verl's; in its environment: make test-verl"
    )
    parts = {"credit": {"weights": [0.0, 0.0, 1.0]}, "baseline": "replace_one"}
    algorithm = omegaconf.OmegaConf.create({"maxatk": {"method": parts, "k": 3}})
    assert read_objective(algorithm) == Objective(method=parts, k=3)


def test_a_selection_orders_the_samples_and_is_not_rewarded():
    rewards = np.array([0.0, 1.0, 0.5, 0.25, 1.0, np.nan])
    scores = np.array([3.0, 1.0, 2.0, 4.0, np.nan, 2.0])
    objective = read_objective({"maxatk": {"method": "bon_loo1", "k": 2, "selection": "judge"}})
    rows = TrainedRows(list("xyxxyy"), 3)
    selected = advantages_of_rows(objective, rows, rewards, k=2, selection=scores)
    expected = advantages(
        [[0.0, 0.5, 0.25], [1.0, np.nan, np.nan]],
        "bon_loo1",
        2,
        selection=[[3.0, 2.0, 4.0], [1.0, np.nan, 2.0]],
    )
    np.testing.assert_allclose(selected, expected[[0, 1, 0, 0, 1, 1], [0, 0, 1, 2, 1, 2]])
    by_reward = Objective(method="bon_loo1", k=2)
    unselected = advantages_of_rows(by_reward, rows, rewards, k=2)
    assert np.abs(selected - unselected).max() > 0


def test_scores_that_select_are_read_from_what_the_reward_function_returned():
    rows = [{"judge": 0.5, "score": 1.0}, {"judge": None}, {"score": 0.0}, {"judge": True}]
    extra = [*({"reward_extra_info": row} for row in rows), {}, None]
    np.testing.assert_array_equal(
        selection_scores(extra, "judge"), [0.5, np.nan, np.nan, 1, np.nan, np.nan]
    )
    with pytest.raises(InvalidValueError, match="returns no 'jugde'; it returned: judge, score"):
        selection_scores(extra, "jugde")


@pytest.mark.parametrize("value", ["good", "0.5", float("inf"), [1.0], 1j])
def test_what_is_no_number_does_not_select(value):
    extra = [{"reward_extra_info": {"judge": score}} for score in (0.5, value)]
    with pytest.raises(
        InvalidValueError, match=r"a finite number or None as 'judge', got"
    ) as error:
        selection_scores(extra, "judge")
    assert str(error.value).endswith(f"got {value!r}")


def test_a_valid_configuration_is_taken():
    assert check_config(config()) == Objective(method=CORRECTED[0], k=4)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"algorithm__maxatk": {}}, "algorithm.maxatk.k=4"),
        ({"algorithm__maxatk": "bon_loo1"}, "algorithm.maxatk: must be keys .* got 'bon_loo1'"),
        ({"algorithm__maxatk": {"k": 4}}, "'method' is required"),
        ({"algorithm__maxatk": {"method": "bon_loo1", "k": 4, "kk": 1}}, "'kk'.*did you mean 'k'"),
        ({"algorithm__maxatk": {"method": "bon_lo1", "k": 4}}, "did you mean 'bon_loo1'"),
        (
            {"algorithm__maxatk": {"method": {"credit": "max_at_k"}, "k": 4}},
            "algorithm.maxatk.method: .*'baseline' is required",
        ),
        (
            {
                "algorithm__maxatk": {
                    "method": {"credit": {"cvar": 0.2}, "baseline": "mean"},
                    "k": 4,
                }
            },
            "needs the key 'of'",
        ),
        (
            {"algorithm__maxatk": {"method": "bon_loo1", "k": 4, "selection": "score"}},
            "selection: 'score' is the reward itself",
        ),
        ({"algorithm__maxatk__k": 9}, r"algorithm.maxatk.k: .*rollout.n \(8\), got 9"),
        ({"algorithm__maxatk__form": "ppo"}, "algorithm.maxatk.form: is no setting under verl"),
        ({"algorithm__maxatk__log_groups": -1}, "algorithm.maxatk.log_groups: must be an integer"),
        ({"algorithm__adv_estimator": "grpo"}, "adv_estimator: must be maxatk.*got grpo"),
        ({"algorithm__use_kl_in_reward": True}, "use_kl_loss=True"),
        ({"rollout__n": 1}, "rollout.n: must be at least 2"),
        (
            {"actor__ppo_mini_batch_size": 3},
            "ppo_mini_batch_size: must be a divisor of data.train_batch_size=8; got 3",
        ),
        ({"actor__shuffle": True}, "actor.shuffle: must be False"),
        ({"actor__policy_loss": {"loss_mode": "gspo"}}, "loss_mode: must be vanilla.*gspo"),
        ({"actor__ppo_micro_batch_size_per_gpu": 3}, "must be a divisor of the 16 samples.*got 3"),
        ({"actor__ppo_micro_batch_size_per_gpu": None}, "a divisor of the 16 samples.*got None"),
        ({"actor__ppo_micro_batch_size_per_gpu": 0}, "a divisor of the 16 samples.*got 0"),
        (
            {
                "actor__ppo_micro_batch_size_per_gpu": None,
                "trainer__v1__trainer_mode": ASYNC_MODE,
            },
            "ppo_micro_batch_size_per_gpu: must be a multiple of rollout.n .*got None",
        ),
        (
            {"actor__ulysses_sequence_parallel_size": 4},
            "trainer.n_gpus_per_node: must be at least, on all nodes, .*; got 2 in all",
        ),
        ({"trainer__nnodes": 5}, "samples each divide into 10 ranks; got 4"),
        (
            {"rollout__log_prob_micro_batch_size_per_gpu": 64},
            r"rollout.log_prob_micro_batch_size_per_gpu: .*2 ranks has of 8 prompts x 8.*got 64",
        ),
        (
            {"actor__use_kl_loss": True, "ref__log_prob_micro_batch_size_per_gpu": 3},
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu: must be a divisor.*got 3",
        ),
        ({"algorithm__rollout_correction": {"rollout_is": "token"}}, "rollout_is: must be null"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_remedy(changes, names):
    with pytest.raises(InvalidValueError, match=names):
        check_config(config(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {
            "rollout__log_prob_micro_batch_size_per_gpu": 3,
            "rollout__log_prob_use_dynamic_bsz": True,
        },
        {
            "rollout__log_prob_micro_batch_size_per_gpu": 3,
            "algorithm__rollout_correction": {"bypass_mode": True},
        },
        {"ref__log_prob_micro_batch_size_per_gpu": 3},
    ],
)
def test_the_size_of_a_pass_that_is_not_taken_is_free(changes):
    assert check_config(config(**changes)).k == 4


def test_everything_that_is_wrong_is_in_one_message():
    with pytest.raises(InvalidValueError) as refused:
        check_config(
            config(
                algorithm__use_kl_in_reward=True,
                actor__shuffle=True,
                actor__ppo_micro_batch_size_per_gpu=2,
                rollout__n=2,
            )
        )
    message = str(refused.value)
    assert all(part in message for part in ("use_kl_in_reward", "shuffle", "algorithm.maxatk.k"))
    assert message.count("\n- ") == 3


@pytest.mark.parametrize(
    ("changes", "whole"),
    [
        ({}, True),
        ({"actor__ppo_micro_batch_size_per_gpu": 16}, True),
        ({"actor__ppo_micro_batch_size_per_gpu": 4}, False),
        ({"actor__use_dynamic_bsz": True}, True),
        ({"actor__use_dynamic_bsz": True, "actor__ppo_max_token_len_per_gpu": 1023}, False),
        ({"trainer__n_gpus_per_node": 4}, True),
        ({"trainer__n_gpus_per_node": 8}, False),  # 4 groups a mini-batch, 8 ranks
    ],
)
def test_groups_are_whole_where_a_micro_batch_holds_them(changes, whole):
    assert holds_whole_groups(config(**changes)) is whole


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        ({}, 2),
        ({"trainer__nnodes": 4}, 8),
        ({"trainer__nnodes": 4, "actor__ulysses_sequence_parallel_size": 2}, 4),
        ({"actor__fsdp_config": {"ulysses_sequence_parallel_size": 2}}, 1),
        (
            {
                "trainer__nnodes": 4,
                "actor__strategy": "megatron",
                "actor__megatron": {
                    "tensor_model_parallel_size": 2,
                    "pipeline_model_parallel_size": 2,
                },
            },
            2,
        ),
    ],
)
def test_ranks_that_share_a_sequence_or_a_layer_do_not_share_a_mini_batch(changes, ranks):
    assert data_parallel(config(**changes)) == ranks


def test_advantages_are_those_of_the_package():
    rewards = np.array([0.0, 1.0, 0.5, 0.25, 1.0, np.nan])
    ids = ["x", "y", "x", "x", "y", "y"]
    objective = read_objective({"maxatk": {"method": "bon_loo1", "k": 2}})
    row_advantages = advantages_of_rows(objective, TrainedRows(ids, 3), rewards, k=2)
    expected = advantages([[0.0, 0.5, 0.25], [1.0, 1.0, np.nan]], "bon_loo1", 2)
    np.testing.assert_allclose(row_advantages, expected[[0, 1, 0, 0, 1, 1], [0, 0, 1, 2, 1, 2]])
    assert np.abs(row_advantages).max() > 0


@pytest.mark.parametrize(("scale", "factor"), [("mean", 3.0), ("sum", 1.0)])
def test_the_scale_is_a_factor(scale, factor):
    objective = read_objective({"maxatk": {"method": "bon_loo1", "k": 2, "advantage_scale": scale}})
    assert objective.scale().factor(3) == factor


def test_a_group_that_lost_samples_below_k_has_no_signal():
    objective = read_objective({"maxatk": {"method": "bon_loo1", "k": 3}})
    row_advantages = advantages_of_rows(objective, TrainedRows(["x"] * 2, 4), [0.0, 1.0], k=3)
    np.testing.assert_array_equal(row_advantages, [0, 0])


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact"])
def test_rows_without_a_trained_token_are_no_part_of_their_samples(method):
    objective = read_objective({"maxatk": {"method": method, "k": 2, "selection": "judge"}})
    ids = list("xxyxxy")
    sessions = [0, 0, 0, 1, 2, 1]
    tokens = np.array([2, 0, 3, 1, 0, 2])
    rewards = np.array([0.5, 0.0, 1.0, 1.0, 0.75, 0.25])  # of an empty row the reward is lost
    log_ratios = np.array([0.1, 0.0, -0.2, 0.3, 0.0, 0.1])
    scores = np.array([1.0, 0.0, 2.0, 3.0, 0.0, 1.0])
    ratios = {"log_ratios": log_ratios} if objective.needs_ratios else {}
    rows = TrainedRows(ids, 3, sessions, tokens)
    values = advantages_of_rows(objective, rows, rewards, k=2, selection=scores, **ratios)
    tables = {
        name: [[column[0], column[3], np.nan], [column[2], column[5], np.nan]]
        for name, column in {**ratios, "selection": scores}.items()
    }
    expected = advantages([[0.5, 1.0, np.nan], [1.0, 0.25, np.nan]], method, 2, **tables)
    np.testing.assert_allclose(values[[0, 3, 2, 5]], expected[:, :2].ravel())
    assert np.abs(values).max() > 0
    assert (values[tokens == 0] == 0).all()
    assert rows.members == [[[0], [3]], [[2], [5]]]


def test_a_batch_without_a_trained_token_has_no_advantages():
    objective = read_objective({"maxatk": {"method": "bon_loo1", "k": 2}})
    rows = TrainedRows(["x"] * 3, 3, [0, 1, 2], np.zeros(3))
    assert advantages_of_rows(objective, rows, [0.0, 1.0, 0.5], k=2).tolist() == [0, 0, 0]
