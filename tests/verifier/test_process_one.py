"""Where the host is process 1 and takes no care of orphans, as in a container without an init."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from processes import patience

NEW_TREE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
NO_PRIVILEGE = ("setpriv", "--bounding-set=-sys_admin")  # as in a container's default

HOST = """
import json, os, sys, threading, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from maxatk.errors import SandboxError
from maxatk.records import TestCase
from maxatk.verifier import Verifier

def others():
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()
            and path.name != str(os.getpid())]

rounds, busy = int(sys.argv[2]), sys.argv[3] == "busy"
assert os.getpid() == 1
layers = {}
for _ in range(rounds):
    verifier = Verifier(workers=2)
    layers = verifier.isolation
    if busy:
        jobs = [(f"while True: pass #{i}", [TestCase(input="", output="")]) for i in range(2)]
        stream = verifier.verify_stream(jobs)
        time.sleep(0.3)
    else:
        verdict = verifier.verify("print(input())", [TestCase(input="a", output="a")])
        assert verdict.reward == 1.0
    verifier.close()
print(json.dumps({"left": others(), "pid_namespace": layers["pid_namespace"]}))
"""


def left_behind(prefix, *, rounds, state):
    """Return what a host that is process 1 says of the processes after its verifiers."""
    command = [*NEW_TREE, *prefix]
    for tool in (command[0], *prefix[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not there")
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"no process namespace can be made here with {command}")
    source = str(Path(__file__).parents[2] / "src")
    host = [sys.executable, "-W", "ignore", "-c", HOST, source, str(rounds), state]
    limit = patience(250)
    run = subprocess.run([*command, *host], capture_output=True, text=True, timeout=limit)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot make the namespace alone")
@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize(
    ("prefix", "has_namespace"),
    [((), True), (ORDINARY_USER, True), (NO_PRIVILEGE, False)],
    ids=["root", "ordinary user", "no privilege"],
)
def test_a_closed_verifier_leaves_no_zombie_to_process_one(prefix, has_namespace, state):
    report = left_behind(prefix, rounds=3, state=state)
    assert (report["pid_namespace"] is True) == has_namespace
    assert report["left"] == []


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot make the namespace alone")
def test_a_hundred_verifiers_leave_nothing_to_process_one():
    assert left_behind((), rounds=100, state="idle")["left"] == []
