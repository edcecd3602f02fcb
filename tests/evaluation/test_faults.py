"""Full disks, folders that cannot be written, and files damaged at their end."""

import json
import os
import random
import subprocess
import sys

import pytest

from maxatk.errors import DataError
from maxatk.records import Problem, Sample, TestCase
from runs import rows_of, scored, write_records

SAMPLES = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    tests = (TestCase(input="", output="1\n"),)
    write_records(folder / "p.jsonl", [Problem(f"p{i}", "", tests) for i in range(2)])
    samples = (Sample(f"p{i % 2}", i // 2, f"print({i % 3})") for i in range(SAMPLES))
    write_records(folder / "s.jsonl", samples)
    return folder


@pytest.fixture(scope="module")
def whole(files, verifier):
    scored(files / "s.jsonl", files / "p.jsonl", files / "whole", verifier=verifier)
    return files / "whole"


def steady(folder):
    rows = rows_of(folder / "scores.jsonl")
    results = json.loads((folder / "results.json").read_text())
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows], {
        key: value for key, value in results.items() if key != "manifest"
    }


FULL_DISK = """
import resource, sys
from maxatk.evaluation import ScoreRecipe, score
from maxatk.verifier import Verifier
samples, problems, out, most = sys.argv[1:]
with Verifier(workers=1) as verifier:  # its own processes keep the whole disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    try:
        score(ScoreRecipe(samples=samples, problems=problems, out=out), verifier=verifier)
    except OSError as error:
        sys.exit(str(error))
"""


def on_a_full_disk(files, out, most_bytes):
    """Run `score` in a process whose files cannot grow above a size."""
    arguments = map(str, (files / "s.jsonl", files / "p.jsonl", out, most_bytes))
    command = [sys.executable, "-c", FULL_DISK, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def scoring(files, out):
    arguments = ("--problems", files / "p.jsonl", "--samples", files / "s.jsonl", "--out", out)
    command = [sys.executable, "-m", "maxatk", "score", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_full_disk_is_an_error_that_names_the_file_and_loses_nothing(
    files, whole, verifier, tmp_path
):
    out = tmp_path / "out"
    size = (whole / "scores.jsonl").stat().st_size
    counts = []
    for part in (0.5, 0.8):  # manifest and samples have room, the scores have not
        done = on_a_full_disk(files, out, int(size * part))
        assert done.returncode == 1
        assert done.stderr == f"[Errno 27] File too large: '{out}/scores.jsonl'\n"
        assert not (out / "results.json").exists()
        counts.append((out / "scores.jsonl").read_bytes().count(b"\n"))
    assert 0 < counts[0] < counts[1] < SAMPLES
    scored(files / "s.jsonl", files / "p.jsonl", out, verifier=verifier)
    assert steady(out) == steady(whole)


def test_a_folder_that_cannot_be_made_is_one_line(files, tmp_path):
    (tmp_path / "file").write_text("")
    done = scoring(files, tmp_path / "file" / "out")
    assert done.returncode == 2
    assert str(tmp_path / "file") in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_line(files, tmp_path):
    (tmp_path / "out").mkdir(mode=0o500)
    done = scoring(files, tmp_path / "out")
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


def damaged(whole, tmp_path, change):
    """A folder with the first ten scores and something after them."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_bytes((whole / "manifest.json").read_bytes())
    lines = (whole / "scores.jsonl").read_bytes().splitlines(keepends=True)
    (out / "scores.jsonl").write_bytes(b"".join(lines[:10]) + change(lines[10]))
    return out


TORN = {
    "half a line": lambda line: line[: len(line) // 2],
    "a line without its newline": lambda line: line[:-1],
    "zeros, as after a power failure": lambda _: bytes(100),
    "zeros with a newline": lambda _: bytes(20) + b"\n",
    "half a character": lambda _: '{"problem_id": "é'.encode()[:-1],
}


@pytest.mark.parametrize("change", TORN.values(), ids=TORN)
def test_a_torn_last_line_is_verified_again(files, whole, verifier, tmp_path, change):
    out = damaged(whole, tmp_path, change)
    scored(files / "s.jsonl", files / "p.jsonl", out, verifier=verifier)
    assert steady(out) == steady(whole)


CORRUPT = {
    "broken JSON": (lambda _: b"{broken\n", "Expecting property name"),
    "another line's record": (lambda _: b"{}\n", "missing field 'problem_id'"),
    "a repeated line": (lambda line: line + line, "occurs twice"),
}


@pytest.mark.parametrize(("change", "message"), CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_last_line_is_refused_with_its_place(
    files, whole, verifier, tmp_path, change, message
):
    out = damaged(whole, tmp_path, change)
    before = (out / "scores.jsonl").read_bytes()
    with pytest.raises(DataError, match=rf"scores\.jsonl:1[12]: .*{message}"):
        scored(files / "s.jsonl", files / "p.jsonl", out, verifier=verifier)
    assert (out / "scores.jsonl").read_bytes() == before


def test_resuming_from_any_cut_gives_the_same(files, whole, verifier, tmp_path):
    draw = random.Random(4)
    data = (whole / "scores.jsonl").read_bytes()
    for attempt in range(20):
        out = tmp_path / str(attempt)
        out.mkdir()
        (out / "manifest.json").write_bytes((whole / "manifest.json").read_bytes())
        (out / "scores.jsonl").write_bytes(data[: draw.randrange(len(data))])
        scored(files / "s.jsonl", files / "p.jsonl", out, verifier=verifier)
        assert steady(out) == steady(whole)
