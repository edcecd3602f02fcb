"""The record of a training by any trainer: what is written, and over what it is not written."""

import pytest

from maxatk import best_of
from maxatk.errors import InvalidValueError
from maxatk.training import Groups, Objective, TrainingRecord
from maxatk.view.watched_training import WatchedTraining

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
