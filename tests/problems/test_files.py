import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.problems import PrepareSettings, load_problems
from maxatk.problems.files import data_files, read_rows
from problems.rows import contest_row, humaneval_row, mbpp_row


def write_parquet(path, rows):
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1"),
        ('[{"a": 1}', "column 10"),
        ('{"a": 1}', "got {'a': 1}"),
        ("[1]", "got 1"),
        ("null", "got None"),
        ("[null]", "got None"),
        ("[{}, [1]]", "got "),
    ],
)
def test_what_is_no_array_of_rows_is_named(tmp_path, text, message):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(DataError, match="must hold a JSON array of rows") as refused:
        list(read_rows(path))
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("name", ["rows.json", "ROWS.JSON", "ROWS.JSONL"])
def test_a_json_file_may_have_a_row_a_line_and_a_name_in_capitals(tmp_path, name):
    rows = [{"prompt": "1 + 1?", "answer": 2}, {"prompt": "2 + 2?", "answer": 4}]
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for file in (tmp_path / name, tmp_path):  # the folder of the file too
        problems = load_problems("table", file=file)
        assert [problem.answer for problem in problems] == ["2", "4"]
    (tmp_path / name).write_text('{"prompt": "1 + 1?", "answer": 2}\n{"prompt"\n')
    with pytest.raises(DataError, match=rf"{name}:2: broken JSON"):
        load_problems("table", file=tmp_path / name)


def test_a_table_and_a_parquet_file_may_have_a_name_in_capitals(tmp_path):
    (tmp_path / "ROWS.CSV").write_text("prompt,answer\n1 + 1?,2\n")
    write_parquet(tmp_path / "ROWS.PARQUET", [{"prompt": "1 + 1?", "answer": "2"}])
    of_table = load_problems("table", file=tmp_path / "ROWS.CSV")
    of_parquet = load_problems("table", file=tmp_path / "ROWS.PARQUET")
    assert [problem.answer for problem in of_table] == ["2"]
    assert of_parquet == of_table


@pytest.mark.parametrize("name", ["HumanEval.jsonl", "rows.csv", "rows.tsv"])
def test_rows_may_be_packed_by_gzip(tmp_path, name):
    # As the authors of HumanEval hand it out.
    if name.endswith(".jsonl"):
        text = json.dumps(humaneval_row()) + "\n"
        benchmark = "humaneval"
    else:
        mark = "\t" if name.endswith(".tsv") else ","
        text = f"prompt{mark}answer\n1 + 1?{mark}2\n"
        benchmark = "table"
    (tmp_path / name).write_text(text)
    packed = tmp_path / "packed" / f"{name}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(text.encode()))
    expected = load_problems(benchmark, file=tmp_path / name)
    assert len(expected) == 1
    assert load_problems(benchmark, file=packed) == expected
    assert load_problems(benchmark, file=packed.parent) == expected


def test_three_formats_give_the_same_problems(tmp_path, rows_file):
    rows = [contest_row(f"{n}_A. Sum") for n in range(1, 41)]
    paths = [
        rows_file(*rows, name="rows.jsonl"),
        rows_file(*rows, name="rows.json"),
        write_parquet(tmp_path / "rows.parquet", rows),
    ]
    first, *others = (load_problems("code_contests", file=path) for path in paths)
    assert len(first) == 40
    assert others == [first, first]


def test_columns_that_are_not_needed_are_not_read(tmp_path):
    path = write_parquet(tmp_path / "rows.parquet", [contest_row()])
    (row,) = read_rows(path, unused=("incorrect_solutions", "no such column"))
    assert set(row) == set(contest_row()) - {"incorrect_solutions"}
    (row,) = read_rows(path, only=("name", "cf_index", "no such column"))
    assert row == {"name": "1_A. Sum", "cf_index": "A"}


def test_a_file_is_known_by_its_content(rows_file):
    first = rows_file(mbpp_row(), name="a.jsonl")
    second = rows_file(mbpp_row(), name="b.jsonl")
    sources = [PrepareSettings("mbpp", file=str(path)).describe() for path in (first, second)]
    (one,), (other,) = (source["files"] for source in sources)
    assert (one["name"], other["name"]) == ("a.jsonl", "b.jsonl")
    assert one["sha256"] == other["sha256"]
    assert one["bytes"] == first.stat().st_size


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: folder / "none.jsonl", MissingFileError, "does not exist"),
        (
            lambda folder: folder,
            MissingFileError,
            "holds no .jsonl, .json, .parquet, .csv, .tsv, .jsonl.gz, .csv.gz, .tsv.gz file",
        ),
        (lambda folder: folder / "rows.xml", InvalidValueError, "must end in .jsonl, .json"),
    ],
)
def test_paths_without_rows_are_refused(tmp_path, make, error, message):
    path = make(tmp_path)
    if path.suffix == ".xml":
        path.write_text("<a/>")
    with pytest.raises(error) as refused:
        data_files(path, split=None, names=None)
    assert message in str(refused.value)


def test_a_broken_parquet_file_is_named(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"rows\.parquet: not a parquet file"):
        load_problems("mbpp", file=tmp_path / "rows.parquet")


def test_text_of_parquet_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"code": ["abcdef"]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"abcdef", b"abc\xffef"))
    with pytest.raises(DataError, match=r"rows\.parquet: not a parquet file .*0xff"):
        list(read_rows(path))
