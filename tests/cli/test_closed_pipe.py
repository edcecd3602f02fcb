"""Commands whose output is read no further, as in `maxatk train --help | head -1`."""

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
