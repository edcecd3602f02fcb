"""Records in folders: written whole or not at all, and read whatever became of them."""

import json

import pytest

from maxatk.errors import DataError
from maxatk.folders import TRAIN_RECORD, known, read_training, write_json


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}


def test_only_finite_numbers_of_a_logged_row_are_known():
    row = {"a": 0.5, "b": None, "c": float("nan"), "d": float("-inf"), "e": "1", "f": 10**400}
    assert known(row, "a") == 0.5
    assert [known(row, name) for name in "bcdefg"] == [None] * 6


@pytest.mark.parametrize(
    "record", ["{", "[]", '{"log_history": 3}', '{"log_history": [null]}', '{"recipe": "a"}']
)
def test_a_damaged_record_of_a_training_is_named(tmp_path, record):
    (tmp_path / TRAIN_RECORD).write_text(record)
    with pytest.raises(DataError, match=r"train\.json: "):
        read_training(tmp_path)
