"""The record of a training by any trainer: what is written, and over what it is not written."""

import datetime
import decimal
import json
import types

import numpy as np
import pytest
import torch

from maxatk import best_of
from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.training import Groups, Objective, TrainingRecord
from maxatk.view.watched_training import WatchedTraining

NAN = float("nan")
OBJECTIVE = Objective(method="bon_loo1", k=2)


def opened(folder, step=0):
    return TrainingRecord(folder, OBJECTIVE, group_size=4, steps=3, step=step)


@pytest.mark.parametrize(
    "content",
    [
        '{"group": "mine", "members": [1, 2]}\n' * 3,
        '{"group": "mine"}',  # without an end of the line
        '{"step": 1, "group": "mine"}\n',
        "\n",
        "step,group\n",
    ],
)
def test_a_file_that_no_training_has_written_is_refused_and_stays(tmp_path, content):
    file = tmp_path / "groups.jsonl"
    file.write_text(content)
    for use in (
        lambda: opened(tmp_path),
        lambda: best_of(lambda **_: [], k=2, folder=tmp_path),
    ):
        with pytest.raises(InvalidValueError, match=r"groups\.jsonl: is no record of a training"):
            use()
    assert file.read_text() == content


@pytest.mark.parametrize("content", ["", '{"ste', '{"step":0,"training":{"met'])
def test_a_record_that_was_killed_in_its_first_line_begins_anew(tmp_path, content):
    (tmp_path / "groups.jsonl").write_text(content)
    record = opened(tmp_path)
    groups = Groups([[0, 1, 1, 0]], 2)
    record.add(1, groups, groups.rewards, prompts=["p"], texts=[list("abcd")])
    watched = WatchedTraining(tmp_path)
    assert (watched.left_out, len(watched.groups[1])) == (0, 1)
    opened(tmp_path, step=1)  # goes on behind it
    assert len(WatchedTraining(tmp_path).groups[1]) == 1


def lines_of(folder, kind):
    lines = (folder / "groups.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if kind in row]


LOGGED = {
    "a float of NumPy": (np.float32(0.5), 0.5),
    "NaN of NumPy": (np.float32(NAN), None),
    "a long double": (np.longdouble(0.5), 0.5),
    "an integer of NumPy": (np.int64(3), 3),
    "a truth value of NumPy": (np.bool_(True), True),
    "a tensor": (torch.tensor(0.5, requires_grad=True), 0.5),
    "a tensor that is infinite": (torch.tensor(float("inf")), None),
    "an array": (np.array([0.5, NAN]), [0.5, None]),
    "a mapping": ({"a": (NAN, np.int32(1)), np.int64(2): [0.5]}, {"a": [None, 1], "2": [0.5]}),
    "a date": (datetime.date(2026, 1, 2), "2026-01-02"),
    "a decimal": (decimal.Decimal("0.5"), "0.5"),
}


@pytest.mark.parametrize(("value", "expected"), LOGGED.values(), ids=LOGGED)
def test_a_log_takes_values_of_every_kind(tmp_path, value, expected):
    opened(tmp_path).log(1, {"loss": 0.25, "value": value})
    (line,) = lines_of(tmp_path, "log")
    assert line["log"] == {"loss": 0.25, "value": expected}
    assert WatchedTraining(tmp_path).log == [{"loss": 0.25, "value": expected, "step": 1}]


IDS = {
    "an array": (np.array([7, 8]), [7, 8]),
    "a tensor": (torch.tensor([7, 8]), [7, 8]),
    "dates": ([datetime.date(2026, 1, 2), None], ["2026-01-02", None]),
    "NaN": ([NAN, "a"], [None, "a"]),
}


@pytest.mark.parametrize(("ids", "expected"), IDS.values(), ids=IDS)
def test_groups_take_ids_and_numbers_of_every_kind(tmp_path, ids, expected):
    rewards = [[0, 1], [1, 0]]
    opened(tmp_path).add(
        1,
        Groups(rewards, 1),
        rewards,
        prompts=["p", "q"],
        texts=[["a", "b"], ["c", "d"]],
        ids=ids,
        tokens=np.array([[1, 2], [3, 4]]),
        rewards={"judge": [[0.5, NAN], [0, 1]]},
        tests=[[{"passed": np.int64(1), "tests": 2}, None], [None, None]],
    )
    groups = lines_of(tmp_path, "group")
    assert [group["id"] for group in groups] == expected
    first = groups[0]["samples"][0]
    assert (first["passed"], first["tokens"], first["advantage"]) == (1, 1, 0)
    assert [sample["rewards"] for sample in groups[0]["samples"]] == [
        {"judge": 0.5},
        {"judge": None},
    ]


def full(**others):
    """What a record is told of two groups of four, with some of it in another way."""
    groups = Groups([[0, 1, 1, 0], [1, 0, 0, 0]], 2)
    columns = {"prompts": ["p", "q"], "texts": [list("abcd"), list("efg")], **others}
    return {"step": 1, "groups": groups, "advantages": groups.rewards, **columns}


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"prompts": ["p"] * 4 + ["q"] * 4}, "prompts: must be one for each of 2 groups, got 8"),
        ({"prompts": "pq"}, "prompts: must be a list of texts, got 'pq'"),
        ({"prompts": [[{"role": "user", "content": "p"}]] * 2}, "prompts: must be a list of texts"),
        ({"texts": list("abcdefgh")}, "texts: must be one for each of 2 prompts, got 8"),
        ({"texts": ["abcd", "efgh"]}, "texts: must be a list of texts for each prompt, got 'abcd'"),
        ({"texts": [list("abcde"), []]}, "texts: must be 1 to 4 for each prompt, got 5"),
        ({"ids": ["x"]}, "ids: must be one for each of 2 prompts, got 1"),
        ({"tokens": [1] * 7}, "tokens: must be one for each of 2 prompts, got 7"),
        ({"tokens": [[1] * 4] * 2}, "tokens: must be 3 for each prompt, one a completion"),
        ({"tokens": np.zeros(2)}, "tokens: must be 4 for each prompt, one a completion"),
        ({"tokens": [[1, 2, 3, None], [1] * 3]}, "tokens: must be a number for each completion"),
        ({"tokens": [["1"] * 4, [1] * 3]}, "tokens: must be a number for each completion, got '1'"),
        ({"tests": [None] * 2}, "tests: must be 4 for each prompt, one a completion, got None"),
        (
            {"tests": [[3] * 4, [None] * 3]},
            "tests: must be None or a mapping for each completion, got 3",
        ),
        ({"advantages": np.zeros(8)}, r"advantages: must be of the shape of the rewards \(2, 4\)"),
        ({"rewards": {"a": np.zeros(8)}}, r"rewards\['a'\]: must be of the shape of the rewards"),
        ({"step": 0}, "step: must be an integer of 1 or more, got 0"),
        ({"step": 1.0}, "step: must be an integer of 1 or more, got 1.0"),
        ({"step": True}, "step: must be an integer of 1 or more, got True"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_before_any_of_it_is_written(
    tmp_path, others, message
):
    record = opened(tmp_path)
    before = (tmp_path / "groups.jsonl").read_text()
    with pytest.raises(InvalidValueError, match=message):
        record.add(**full(**others))
    assert (tmp_path / "groups.jsonl").read_text() == before
    record.add(**full())
    assert [len(group["samples"]) for group in lines_of(tmp_path, "group")] == [4, 3]


@pytest.mark.parametrize("step", [-1, 1.5, None])
def test_a_row_of_the_log_of_no_step_is_refused(tmp_path, step):
    record = opened(tmp_path)
    with pytest.raises(InvalidValueError, match="step: must be an integer of 0 or more"):
        record.log(step, {"loss": 0.25})
    record.log(np.int64(2), {"loss": 0.25})
    assert WatchedTraining(tmp_path).log == [{"loss": 0.25, "step": 2}]


@pytest.mark.parametrize(
    "settings",
    [
        {"most": -1},
        {"most": "8"},
        {"batches": 0},
        {"step": -1},
        {"folder": 3},
        {"group_size": 0},
        {"group_size": 4.5},
        {"steps": -1},
        {"steps": "3"},
    ],
)
def test_settings_of_a_record_that_are_not_allowed_are_refused(tmp_path, settings):
    (name,) = settings
    with pytest.raises(InvalidValueError, match=name):
        TrainingRecord(
            **{"folder": tmp_path, "objective": OBJECTIVE, "group_size": 4, "steps": 3, **settings}
        )
    assert not (tmp_path / "groups.jsonl").exists()


def test_settings_of_a_record_may_be_numbers_of_numpy(tmp_path):
    TrainingRecord(tmp_path, OBJECTIVE, group_size=np.int64(4), steps=np.int64(3))
    watched = WatchedTraining(tmp_path)
    assert (watched.about["num_generations"], watched.last_step) == (4, 3)


@pytest.mark.parametrize("ids", [np.repeat([7, 8], 4), [datetime.date(2026, 1, 2)] * 8])
@pytest.mark.parametrize("column", ["problem_id", "id"])
def test_a_record_of_best_of_takes_ids_of_every_kind(tmp_path, ids, column):
    def reward(completions, **columns):
        return [float(len(text)) for text in completions]

    recorded = best_of(reward, k=2, folder=tmp_path)
    columns = {column: ids, "completion_ids": np.zeros((8, 3))}
    recorded(prompts=["p"] * 4 + ["q"] * 4, completions=list("abcd") * 2, **columns)
    groups = lines_of(tmp_path, "group")
    assert [group["id"] for group in groups] == (
        [7, 8] if isinstance(ids, np.ndarray) else ["2026-01-02"] * 2
    )
    assert groups[0]["samples"][0]["tokens"] == 3


def test_held_out_rewards_of_best_of_are_no_advantages(tmp_path):
    state = types.SimpleNamespace(global_step=0, max_steps=3, log_history=[])
    reward = best_of(lambda **_: [0.0, 0.5, 1.0, 0.0], k=2, folder=tmp_path)
    reward(prompts=["p"] * 4, completions=list("abcd"), trainer_state=state)
    of_advantages = {
        "eval_reward": 0.0,
        "eval_reward_std": 0.1,
        "eval_rewards/best_of_2_mine/mean": 0.0,
        "eval_frac_reward_zero_std": 0.0,
        "eval_hard_reward": 0.0,
    }
    of_rewards = {"eval_best_of/reward": 0.4, "eval_best_of/max@2": 0.7, "eval_loss": 0.1}
    row = {"step": 1, **of_advantages, **of_rewards, "eval_hard_best_of/max@1": 0.3}
    state.log_history.append(row)
    state.global_step = 1
    reward(prompts=["p"] * 4, completions=list("abcd"), trainer_state=state)
    held_out = [line["log"] for line in lines_of(tmp_path, "log") if "eval_loss" in line["log"]]
    expected = {"eval_reward": 0.4, "eval_max@2": 0.7, "eval_loss": 0.1, "eval_hard_max@1": 0.3}
    assert held_out == [expected]


def test_a_step_of_best_of_is_one_row_of_its_log(tmp_path, capsys):
    """Its file has a row of the function and one of the trainer, which say different things."""
    state = types.SimpleNamespace(global_step=0, max_steps=3, log_history=[])
    reward = best_of(lambda **_: [0.0, 0.5, 1.0, 0.0], k=2, folder=tmp_path)
    for step in range(3):
        state.global_step = step
        reward(prompts=["p"] * 4, completions=list("abcd"), trainer_state=state)
        state.log_history.append({"step": step + 1, "loss": 0.5, "epoch": 0.1})
        state.log_history.append({"step": step + 1, "eval_reward": 0.25, "epoch": 0.1})
    assert main(["diagnose", str(tmp_path)]) == 0
    assert "rules fire on 3 rows of the log" in capsys.readouterr().out
