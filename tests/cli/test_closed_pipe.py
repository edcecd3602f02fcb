"""Commands whose output is read no further, as in `maxatk train --help | head -1`."""

import json
import os
import subprocess
import sys

import pytest

from processes import patience


@pytest.fixture
def closed_pipe():
    """Return the writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def run(arguments, **streams):
    command = [sys.executable, "-m", "maxatk", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=patience(60), **streams)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["train", "--help"], ["problems", "list"]]
)
def test_a_closed_pipe_ends_a_command_silently(arguments, closed_pipe):
    done = run(arguments, stdout=closed_pipe, stderr=subprocess.PIPE)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("arguments", ["--version", "problems list", "problems --help"])
def test_closed_outputs_are_no_error(arguments, closed):
    command = f"{sys.executable} -m maxatk {arguments} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=patience(60))
    assert b"Traceback" not in done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["train", "--help"], ["problems", "list"]]
)
def test_a_full_disk_is_an_error_in_one_sentence(arguments):
    with open("/dev/full", "w") as full:
        done = run(arguments, stdout=full, stderr=subprocess.PIPE)
    assert b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8:strict"])
@pytest.mark.parametrize("output_format", ["text", "md"])
def test_what_an_output_cannot_encode_is_shown_as_an_escape(tmp_path, encoding, output_format):
    problem = {"id": "\u2211", "prompt": "\u2211 of two", "answer": "1"}
    (tmp_path / "p.jsonl").write_text(json.dumps(problem))
    arguments = ["problems", "show", tmp_path / "p.jsonl", "\u2211", "--format", output_format]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = run(arguments, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    shown = "\u2211 of two" if encoding.startswith("utf-8") else r"\u2211 of two"
    assert shown in done.stdout.decode()


def test_a_closed_pipe_ends_progress_as_json_lines_silently(scoring, closed_pipe):
    arguments = scoring("print(4)", "print(6)")
    done = run([*arguments, "--progress", "json"], stdout=closed_pipe, stderr=subprocess.PIPE)
    assert done.stderr == b""
    assert done.returncode == 141


def test_errors_that_nobody_reads_end_a_command_too(closed_pipe):
    done = run(["train", "nowhere.yaml"], stdout=subprocess.PIPE, stderr=closed_pipe)
    assert done.stdout == b""
    assert done.returncode == 141


def test_output_that_was_closed_from_the_start_is_no_error():
    command = f"{sys.executable} -m maxatk --version >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, timeout=patience(60))
    assert done.stderr == b""
    assert done.returncode == 0
