import subprocess
import sys
import time

import psutil
import pytest

from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase

ENDLESS = "while True: pass"


@pytest.fixture
def maxatk(tmp_path):
    """Return a function that runs the command line to its end, as a process in an empty folder."""

    def run(*arguments, timeout=60):
        return subprocess.run(
            [sys.executable, "-m", "maxatk", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def scoring(tmp_path):
    """Return a function that writes samples for one problem and gives the arguments of `score`."""

    def arguments(*programs, name="score", time_limit=1):
        tests = (TestCase(input="2\n", output="4\n"), TestCase(input="3\n", output="6\n"))
        write_jsonl(tmp_path / f"{name}-problems.jsonl", [Problem("p", "", tests).to_json()])
        samples = (Sample("p", i, program).to_json() for i, program in enumerate(programs))
        write_jsonl(tmp_path / f"{name}-samples.jsonl", samples)
        flags = {
            "--samples": tmp_path / f"{name}-samples.jsonl",
            "--problems": tmp_path / f"{name}-problems.jsonl",
            "--out": tmp_path / name,
            "--judge.workers": 1,
            "--judge.time-limit": time_limit,
        }
        return ("score", *(str(part) for pair in flags.items() for part in pair))

    return arguments


@pytest.fixture
def started():
    """Return a function that starts a process; what is left of it at the end is killed."""
    processes = []

    def start(*command, **options):
        process = subprocess.Popen(list(command), text=True, **options)
        processes.append(process)
        return process

    yield start
    for process in processes:
        for left in family(process.pid):
            left.kill()
        process.wait()


def family(pid):
    """Return a process and all its descendants, or nothing if it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_for_busy_family(pid, *, seconds=40):
    """Return a process with its descendants as soon as a judged program of it uses a core."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        members = family(pid)
        for member in members[1:]:
            try:
                if "boot.py" in " ".join(member.cmdline()) and member.cpu_times().user > 0.5:
                    return members
            except psutil.NoSuchProcess:
                pass
        time.sleep(0.1)
    raise AssertionError(f"no program of process {pid} became busy")


def still_alive(members, *, seconds=15):
    """Return those members that are alive after at most so many seconds."""
    alive = psutil.wait_procs(members, timeout=seconds)[1]
    return [member for member in alive if member.status() != psutil.STATUS_ZOMBIE]
