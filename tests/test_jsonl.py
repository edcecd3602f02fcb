import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.jsonl import read_jsonl, read_typed, visit_typed, write_jsonl
from maxatk.records import Sample

values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20))
objects = st.dictionaries(st.text(max_size=5), values, max_size=4)


@given(st.lists(objects, max_size=4))
def test_every_file_reads_back_as_written(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("rows") / "deep" / "rows.jsonl"
    write_jsonl(path, written)
    assert list(read_jsonl(path, dict)) == written
    assert [p.name for p in path.parent.iterdir()] == [path.name]


GOOD = json.dumps({"number": 1})
BAD_LINES = {
    "{": "Expecting property name",
    "[1]": "must be a JSON object, got list",
    "null": "must be a JSON object, got NoneType",
    f"{GOOD}, {GOOD}": "Extra data",
    "{} {}": "Extra data",
    " {": "Expecting property name",
    '{"number": "x"}': "invalid literal for int",
    '{"number": null}': "must be a string",
    '{"number": -1}': "must not be negative, got -1",
}


def count(row):
    number = int(row["number"])
    if number < 0:
        raise InvalidValueError(f"must not be negative, got {number}")
    return number


@pytest.mark.parametrize(("line", "message"), BAD_LINES.items())
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n")
    with pytest.raises(DataError, match=message) as caught:
        list(read_jsonl(path, count))
    assert str(caught.value).startswith(f"{path}:3: ")


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a": 1}, {"b": 2', '"c": 3}'],
        ['{"a": 1}, {"b": [{}', "{}]}"],
        ['{"a": [1', '2]}, {"b": 3}'],
        ['{"a": "1', '2"}, {"b": 3}'],
    ],
)
def test_two_broken_lines_do_not_make_a_whole_one(tmp_path, lines):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(["{}", *lines, "{}"]) + "\n")
    with pytest.raises(DataError, match=r"rows\.jsonl:2: "):
        list(read_jsonl(path, dict))


def test_a_byte_order_mark_and_deep_nesting(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 1}\n')
    assert list(read_jsonl(path, dict)) == [{"a": 1}]
    path.write_text('{"a": 1}\n{"a": ' + "[" * 100_000 + "\n")
    with pytest.raises(DataError, match=r"rows\.jsonl:2: broken JSON: nested too deeply"):
        list(read_jsonl(path, dict))


def test_a_bad_line_is_named_in_a_file_of_many_blocks(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"number": i, "text": "x" * 1000} for i in range(1500)]
    write_jsonl(path, rows)
    lines = path.read_text().splitlines()
    lines[1200] = lines[1200][:-1]
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"rows\.jsonl:1201: "):
        list(read_jsonl(path, dict))
    lines[1200] += "}"
    path.write_text("\n".join(lines))
    assert list(read_jsonl(path, dict)) == rows


def test_a_missing_file_and_a_binary_file(tmp_path):
    with pytest.raises(MissingFileError, match=r"nowhere\.jsonl: no such file"):
        list(read_jsonl(tmp_path / "nowhere.jsonl", dict))
    with pytest.raises(MissingFileError, match=r"a folder, not a file"):
        list(read_jsonl(tmp_path, dict))
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(MissingFileError, match=r"pipe\.jsonl: a pipe or a device, not a file"):
        list(read_jsonl(tmp_path / "pipe.jsonl", dict))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\x00")
    with pytest.raises(DataError, match=r"binary\.jsonl:1: not UTF-8: invalid start byte"):
        list(read_jsonl(tmp_path / "binary.jsonl", dict))


def test_a_failed_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"old": 1}])

    def rows():
        yield {"new": 1}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_jsonl(path, rows())
    assert path.read_text() == '{"old": 1}\n'


SAMPLE = {"problem_id": "p", "sample": 0, "completion": "x"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem_id": 3}, "sample.problem_id: must be str, got 3"),
        ({"sample": "0"}, "sample.sample: must be int, got '0'"),
        ({"sample": True}, "sample.sample: must be int, got True"),
        ({"sample": -1}, "'sample' must be an integer from 0, got -1"),
        ({"sample": 1.5}, "sample.sample: must be int, got 1.5"),
        ({"completion": None}, "sample.completion: must be str, got nothing"),
        ({"tokens": -2}, "'tokens' must be an integer from 0, got -2"),
        (
            {"entropy": float("inf")},
            "sample: .entropy. must be a finite number of at most .*, got inf",
        ),
        ({"logprob": [1]}, r"sample.logprob: must be float, got \[1\]"),
        ({"finish_reason": 1}, "sample.finish_reason: must be str, got 1"),
        ({"completion": ...}, "missing field 'completion'"),
    ],
)
def test_a_typed_line_is_refused_with_field_and_value(tmp_path, change, message):
    bad = {name: value for name, value in {**SAMPLE, **change}.items() if value is not ...}
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [SAMPLE, bad])
    with pytest.raises(DataError, match=rf"rows\.jsonl:2: .*{message}"):
        list(read_typed(path, Sample))


def test_half_of_a_surrogate_pair_and_a_byte_order_mark_are_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = json.dumps({**SAMPLE, "completion": "\ud800", "of another tool": [1]})
    path.write_text("\ufeff" + row + "\n\n" + row + "\n")
    assert [sample.completion for sample in read_typed(path, Sample)] == ["\ud800"] * 2


def test_a_record_may_be_refused_where_it_is_used(tmp_path):
    def refuse(sample):
        raise DataError(f"not {sample.completion}")

    write_jsonl(tmp_path / "rows.jsonl", [SAMPLE])
    with pytest.raises(DataError, match=r"rows\.jsonl:1: not x"):
        visit_typed(tmp_path / "rows.jsonl", Sample, refuse)


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("maxatk.bounded.LONGEST", 1 << 20)
    (tmp_path / "rows.jsonl").write_bytes(b"{}\n" + b"x" * (1 << 22))
    with pytest.raises(DataError, match=r"rows\.jsonl:2: the line is longer than 1 MiB"):
        list(read_jsonl(tmp_path / "rows.jsonl", dict))
