"""Every reader, any file: below 1 GB of memory, within seconds, a named error and no traceback."""

import base64
import gzip
import io
import json
import pickle
import re
import resource
import subprocess
import sys
import time
import zipfile
import zlib

import pyarrow
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from maxatk import bounded
from maxatk.errors import DataError
from maxatk.problems.benchmarks.livecodebench import decode_tests
from maxatk.recipe_yaml import load_yaml
from maxatk.settings import read_recipe
from maxatk.table_files import csv_rows, parquet_rows

GIBIBYTE = 1 << 30
SECONDS = 10
ROW = {"problem_id": "p", "sample": 0, "reward": 1.0}


def sparse(path, size, head=b""):
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def packed_line(path, size, head=b""):
    """Write a gzip file of one line of so many bytes."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head)
        for _ in range(size >> 24):
            file.write(b"1" * (1 << 24))


def long_values(path, rows, size):
    # A dictionary of one entry, which every row has: nothing is repeated here.
    ids = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows), ["x" * size])
    table = pyarrow.table({"problem_id": ids, "reward": [1.0] * rows})
    parquet.write_table(table, path)


def packed_torch(path, size):
    """Write a file of torch whose pickle is packed."""
    plain = io.BytesIO()
    torch.save({"samples": []}, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + b"." * (size * name.endswith("data.pkl")))


def short_lines(path, size):
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"problem_id,reward\n")
        for _ in range(size >> 20):
            file.write(b"a,1\n" * (1 << 18))


def merges(path, depth):
    lines = ["a0: &a0 {x0: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], x{n}: 1}}" for n in range(1, depth)]
    path.write_text("\n".join(lines))


FILES = {
    "r.jsonl": lambda path: sparse(path, 3 * GIBIBYTE, b"{"),
    "values.jsonl": lambda path: path.write_bytes(b"[" + b"[]," * (1 << 25) + b"[]]\n"),
    "dicts.jsonl": lambda path: path.write_bytes(b'{"a":[' + b'{"":0},' * (1 << 23) + b"0]}\n"),
    "wide.jsonl": lambda path: path.write_text('{"a": "' + "\U0001f600" + "x" * 90_000_000 + '"}'),
    "r.json": lambda path: sparse(path, 3 * GIBIBYTE, b"["),
    "deep.json": lambda path: path.write_bytes(b"[" * 10_000_000),
    "r.csv": lambda path: sparse(path, 3 * GIBIBYTE, b"problem_id,reward\n"),
    "quoted.csv": lambda path: path.write_bytes(b'problem_id,reward\n"' + b"x\n" * (1 << 24)),
    "line.csv.gz": lambda path: packed_line(path, GIBIBYTE // 2, b"problem_id,reward\n"),
    "lines.csv.gz": lambda path: short_lines(path, 64 << 20),
    "line.jsonl.gz": lambda path: packed_line(path, GIBIBYTE // 2, b"{"),
    "long.parquet": lambda path: long_values(path, 64, 150 << 20),
    "rows.parquet": lambda path: long_values(path, 1000, 8 << 20),
    "packed.pt": lambda path: packed_torch(path, 300 << 20),
}


MEASURED = """
import sys
from maxatk.cli.main import main
status = main(sys.argv[1:])
with open("/proc/self/status") as file:
    print([line.split()[1] for line in file if line.startswith("VmHWM")][0])
sys.exit(status)
"""


def measured(command, folder):
    """Run a command in a folder; return status, standard error, peak bytes and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command.split()],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, done.stderr, int(done.stdout.split()[-1]) << 10, seconds


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_no_file_fills_the_memory_or_takes_long(tmp_path, name):
    FILES[name](tmp_path / name)
    status, stderr, peak, seconds = measured(f"score --rewards {name} --out out", tmp_path)
    assert status == 2
    assert stderr.splitlines()[-1].startswith("maxatk: ")
    assert "Traceback" not in stderr
    assert name in stderr
    assert peak < GIBIBYTE
    assert seconds < SECONDS or "rows read so far" in stderr


def test_a_recipe_of_merge_keys_is_refused_at_once(tmp_path):
    for depth in (18, 25, 60):
        merges(tmp_path / "r.yaml", depth)
        began = time.process_time()
        with pytest.raises(DataError, match=r"r\.yaml, line \d+.*merge keys stand for too many"):
            read_recipe(tmp_path / "r.yaml")
        assert time.process_time() - began < 5
    many = "a: &a {x: 1}\n" + "\n".join(f"b{n}: {{<<: *a}}" for n in range(100))
    assert load_yaml(many)["b99"] == {"x": 1}


def test_a_key_that_stands_twice_is_refused_with_both_lines(tmp_path):
    (tmp_path / "r.yaml").write_text("trainer:\n  k: 4\n  b: 1\n  k: 8\n")
    with pytest.raises(DataError, match=r"line 4, column 3: .*'k' stands twice, first in line 2"):
        read_recipe(tmp_path / "r.yaml")
    assert load_yaml("a: {k: 1}\nb: {k: 2}\nc: &c {k: 1}\nd: {<<: *c, k: 2}")["d"] == {"k": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1:30", "1:30"), ("010", 10), ("0o10", 8), ("1_000", "1_000"), ("0b11", "0b11")),
        *(("0x1F", 31), ("-7", -7), ("+7", 7), ("1e-4", 1e-4), ("1.", 1.0), (".5", 0.5)),
        *(("no", "no"), ("on", "on"), ("true", True), ("~", None), ("2001-01-01", "2001-01-01")),
        *(("190:20:30", "190:20:30"), ("1_0.5", "1_0.5"), ("", None), ("'1'", "1"), ("08", 8)),
    ],
)
def test_numbers_are_those_of_yaml_1_2(text, value):
    loaded = load_yaml(f"a: {text}")["a"]
    assert (loaded, type(loaded)) == (value, type(value))


@pytest.mark.parametrize(("part", "count"), [(b"{},", 8 << 20), (b"x", 300 << 20)])
def test_packed_tests_are_unpacked_within_bounds(part, count):
    plain = part * count
    packed = base64.b64encode(
        zlib.compress(pickle.dumps("[" + plain.decode() + "{}]"), level=1)
    ).decode()
    began = time.process_time()
    with pytest.raises(ValueError, match=r"larger than|more than 4,194,304 values"):
        decode_tests(packed)
    assert time.process_time() - began < SECONDS


# Without the time of day, so that every worker of pytest collects the same tests.
PACKED = gzip.compress(b"problem_id,reward\na,1\n" * 99, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.xlsx", b"PK\x03\x04rest", "an Excel workbook is; save the table as CSV in UTF-8"),
        ("x.csv", b"PK\x03\x04rest", "an Excel workbook is; save the table as CSV in UTF-8"),
        ("x.xls", b"\xd0\xcf\x11\xe0rest", "an old Excel workbook; save the table as CSV"),
        (
            "x.csv",
            "problem_id,reward\né,1\n".encode("latin1"),
            r"x\.csv:2: not UTF-8: .*0xe9.*iconv",
        ),
        ("x.csv", "problem_id,reward\na,1\n".encode("utf-16"), "text in UTF-16; save it as UTF-8"),
        ("x.jsonl", '{"problem_id": "é"}\n'.encode("latin1"), r"x\.jsonl:1: not UTF-8: .*iconv"),
        ("x.csv.gz", PACKED[:-20], "damaged gzip data"),
        ("x.csv.gz", b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 9, "damaged gzip data"),
    ],
)
def test_what_is_no_table_is_refused_by_the_name_of_its_cure(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    status, stderr, _, _ = measured(f"score --rewards {name} --out out", tmp_path)
    assert status == 2
    assert re.search(message, stderr), stderr


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_table_is_read_whatever_separates_its_values(tmp_path, separator, end):
    text = end.join([separator.join(line) for line in ("id", "12", "34")]) + end
    (tmp_path / "t.csv").write_text("\ufeff" + text, newline="")
    rows = [dict(row) for _, row in csv_rows(tmp_path / "t.csv")]
    assert rows == [{"i": "1", "d": "2"}, {"i": "3", "d": "4"}]


def test_quotes_hold_quotes_and_ends_of_lines_and_empty_lines_are_no_rows(tmp_path):
    text = 'id,text\np,"say ""a"", b"\n\nq,"two\nlines"\nr,"""doc"""\ns,12" wide\n'
    (tmp_path / "t.csv").write_text(text)
    assert [row["text"] for _, row in csv_rows(tmp_path / "t.csv")] == [
        'say "a", b',
        "two\nlines",
        '"doc"',
        '12" wide',
    ]


def test_a_value_of_a_table_may_be_long_and_not_without_end(tmp_path):
    tests = "1 " * 1_000_000
    (tmp_path / "t.csv").write_text(f"id,tests\np,{tests}\n")
    assert [row["tests"] for _, row in csv_rows(tmp_path / "t.csv")] == [tests]
    (tmp_path / "t.csv").write_text(f"id,tests\np,{tests * 2}\n")
    with pytest.raises(DataError, match=r"t\.csv:2: .* more than 2,097,152 characters, or a quote"):
        list(csv_rows(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('id,text\n1,1\n"2,0\n3,1\n', 3),
        ('id,text\n1,"a\nb"\n\n2,"""doc string\n3,1\n4,1\n', 5),
        ('id,text\n1,1\n2,"0\n3,1\n4,"text"\n', 3),
        ('id,"text\n1,1\n2,0\n', 1),
    ],
)
def test_a_quote_that_nothing_closes_is_named_by_the_line_of_its_row(tmp_path, text, line):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=rf"t\.csv:{line}: not a CSV file"):
        list(csv_rows(tmp_path / "t.csv"))


def test_blanks_around_the_names_of_a_table_are_no_part_of_them(tmp_path):
    (tmp_path / "t.csv").write_text("id, text ,  reward\np, a b ,1\n")
    assert [dict(row) for _, row in csv_rows(tmp_path / "t.csv")] == [
        {"id": "p", "text": " a b ", "reward": "1"}
    ]
    (tmp_path / "t.csv").write_text("id,reward, reward\np,0,1\n")
    with pytest.raises(DataError, match="2 columns are named 'reward'"):
        list(csv_rows(tmp_path / "t.csv"))


def test_rows_of_a_parquet_file_are_those_that_were_written(tmp_path):
    rows = [{"a": "x" * n, "b": n, "c": [{"d": n}]} for n in range(100)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet", row_group_size=7)
    assert list(parquet_rows(tmp_path / "t.parquet")) == rows
    only = [{"b": row["b"]} for row in rows]
    assert list(parquet_rows(tmp_path / "t.parquet", only=["b", "z"])) == only
    assert list(parquet_rows(tmp_path / "t.parquet", unused=["a", "c"])) == only


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner, max_size=4))
)
def test_values_are_counted_as_they_are(value):
    text = json.dumps(value, ensure_ascii=False)

    def marks(inner):
        """Commas and opening brackets."""
        if not isinstance(inner, list):
            return 0
        return 1 + max(0, len(inner) - 1) + sum(map(marks, inner))

    for part in (1 << 20, 7, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bounded, "_PART", part)
            assert bounded._count_values(text) == marks(json.loads(text))


def test_a_text_with_many_commas_in_its_strings_is_read():
    assert bounded.json_value(json.dumps(["1," * (1 << 22)])) == ["1," * (1 << 22)]


def test_yaml_text_of_any_content_ends_by_name():
    for text in (
        "[" * 10_000,
        "a: " + "9" * 5000,
        "&a [*a]",
        "? [a]\n: 1",
        "!!python/name:os.system",
    ):
        with pytest.raises(yaml.YAMLError):
            load_yaml(text)
