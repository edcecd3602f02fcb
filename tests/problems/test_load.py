import logging

import pytest

from maxatk import load_problems
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.problems import BENCHMARKS, load_benchmark
from maxatk.records import Problem, TestCase, write_jsonl
from problems.rows import contest_row, mbpp_row

ODD_ROW = mbpp_row(2, tests=["assert f(x) == 1"])


def write_problems(path, *names):
    case = TestCase(input="", output="")
    write_jsonl(path, (Problem(name, "do", (case,)).to_json() for name in names))
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_rows_come_from_a_local_file(rows_file, name):
    path = rows_file(mbpp_row(1), ODD_ROW, mbpp_row(3), name=name)
    loaded = load_benchmark("mbpp", file=path)
    assert [solved.problem.id for solved in loaded.solved] == ["mbpp/1", "mbpp/3"]
    assert [row.row_id for row in loaded.left_out] == ["mbpp/2"]


def test_rows_that_are_left_out_are_counted_in_the_log(rows_file, caplog):
    with caplog.at_level(logging.WARNING):
        assert len(load_problems("mbpp", file=rows_file(mbpp_row(1), ODD_ROW))) == 1
    assert "mbpp: 1 rows were left out" in caplog.text


def test_the_limit_counts_problems_not_rows(rows_file):
    path = rows_file(ODD_ROW, mbpp_row(3), mbpp_row(4), mbpp_row(5))
    problems = load_problems("mbpp", file=path, limit=2)
    assert [problem.id for problem in problems] == ["mbpp/3", "mbpp/4"]


def test_a_problems_file_reads_as_it_is(tmp_path):
    path = write_problems(tmp_path / "own.jsonl", "a", "b", "c")
    assert [problem.id for problem in load_problems(path)] == ["a", "b", "c"]
    assert [problem.id for problem in load_problems(str(path), limit=2)] == ["a", "b"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(tmp_path, limit):
    path = write_problems(tmp_path / "own.jsonl", "a")
    for name, options in ((path, {}), ("mbpp", {"file": path})):
        with pytest.raises(InvalidValueError, match=f"limit: must be at least 1, got {limit}"):
            load_problems(name, limit=limit, **options)


def test_unknown_names_are_refused_with_a_suggestion(rows_file):
    with pytest.raises(InvalidValueError, match=r"unknown value 'mbbp'.*did you mean 'mbpp'"):
        load_problems("mbbp")
    with pytest.raises(InvalidValueError, match="allowed: code_contests, mbpp"):
        load_benchmark("apps")
    with pytest.raises(
        InvalidValueError, match=r"split: unknown value 'tset'.*did you mean 'test'"
    ):
        load_problems("mbpp", split="tset", file=rows_file(mbpp_row()))


def test_a_problems_file_has_neither_split_nor_file(tmp_path):
    path = write_problems(tmp_path / "own.jsonl", "a")
    with pytest.raises(InvalidValueError, match="split, file: are for benchmarks"):
        load_problems(path, split="test")


def test_a_local_file_has_no_splits(rows_file):
    with pytest.raises(InvalidValueError, match="split: a local file is read whole, so 'train'"):
        load_problems("mbpp", split="train", file=rows_file(mbpp_row()))


def test_missing_files(tmp_path):
    with pytest.raises(MissingFileError, match=r"own\.jsonl: no such file"):
        load_problems(tmp_path / "own.jsonl")
    for name in ("rows.jsonl", "rows.json"):
        with pytest.raises(MissingFileError, match=name):
            load_problems("mbpp", file=tmp_path / name)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_missing_column_is_named_with_its_row(rows_file, name):
    rows = {"mbpp": mbpp_row(), "code_contests": contest_row()}
    column = {"mbpp": "test_list", "code_contests": "private_tests"}[name]
    bad = {key: value for key, value in rows[name].items() if key != column}
    with pytest.raises(DataError, match=f"rows.jsonl, row 1: missing column '{column}'"):
        load_problems(name, file=rows_file(rows[name], bad))


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("mbpp", mbpp_row(test_list=None)),
        ("mbpp", mbpp_row(code=None)),
        ("code_contests", contest_row(public_tests=None)),
        ("code_contests", contest_row(public_tests={"input": ["1"], "output": []})),
        ("code_contests", contest_row(public_tests={"input": [1], "output": ["1"]})),
    ],
)
def test_a_row_of_another_schema_is_named(rows_file, name, row):
    with pytest.raises(DataError, match=r"rows\.jsonl, row 0: does not have the schema"):
        load_problems(name, file=rows_file(row))


@pytest.mark.parametrize("text", ["{", "{}", "[1]", "\xff"])
def test_a_file_without_rows_is_refused(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"rows\.json"):
        load_problems("mbpp", file=path)


def test_an_empty_problems_file_and_a_repeated_id_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no problems"):
        load_problems(tmp_path / "empty.jsonl")
    with pytest.raises(DataError, match="the id 'a' occurs twice"):
        load_problems(write_problems(tmp_path / "own.jsonl", "a", "b", "a"))
