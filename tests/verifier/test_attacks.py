"""Every attack of `attacks.py`, as root, as an ordinary user and without privileges."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Verifier
from processes import patience
from verifier import attacks

HERE = Path(__file__).parent
ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
NO_PRIVILEGE = ("setpriv", "--bounding-set=-sys_admin")  # as in a container's default


@pytest.mark.parametrize("name", attacks.ALL)
def test_no_attack_succeeds(verifier, name):
    assert attacks.fails(verifier, {name: attacks.ALL[name]}) == {}


def test_the_suite_can_fail(verifier):
    soft = attacks.Attack("print('42-expected-output')")
    assert list(attacks.fails(verifier, {"right answer": soft})) == ["right answer"]


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="this is already an ordinary user")
@pytest.mark.parametrize(
    ("prefix", "present", "missing", "builds"),
    [
        (ORDINARY_USER, {"user_namespace", "scratch_folder", "pid_namespace"}, {"own_uid"}, True),
        (NO_PRIVILEGE, {"landlock"}, {"scratch_folder", "pid_namespace"}, False),
    ],
)
def test_no_attack_succeeds_with_fewer_privileges(prefix, present, missing, builds):
    if shutil.which(prefix[0]) is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip(f"{prefix[0]} cannot take privileges away here")
    command = [*prefix, sys.executable, "-W", "ignore", str(HERE / "attack_all.py")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=patience(280), check=True)
    report = json.loads(run.stdout)
    assert report["fails"] == {}
    assert report["attacks"] > 190
    if not builds:
        assert "a compiler cannot be isolated on this machine: private_root" in report["in_cpp"]
    elif shutil.which("g++"):
        assert report["in_cpp"] > 100
    assert {name for name in present if report["layers"][name] is not True} == set()
    assert {name for name in missing if report["layers"][name] is True} == set()


def test_a_constant_that_the_compiler_would_fold_is_no_bomb(verifier):
    verdict = verifier.verify("x = 'a' * (1 << 30) * (1 << 10)", [attacks.QUESTION], time_limit=0.5)
    assert verdict.outcome in (Outcome.MEMORY_LIMIT, Outcome.COMPILE_ERROR)


def test_excerpts_of_stderr_are_bounded(verifier):
    program = "import sys\nsys.stderr.write('x' * 10**6)"
    (result,) = verifier.verify(program, [attacks.QUESTION]).tests
    assert len(result.stderr) == 2048


def test_memory_after_a_program_is_not_left_to_the_next(verifier):
    first = "secret = 'SECRET' + 'OF_THE_FIRST'\nprint(secret)\nimport sys\nsys.stdout.flush()"
    second = """
import gc
needle = 'TSRIF_EHT_FOTERCES'[::-1]
print(any(needle in str(o)[:100000] for o in gc.get_objects() if o is not globals()))
"""
    verifier.verify(first, [TestCase(input="", output="")])
    assert verifier.verify(second, [TestCase(input="", output="False")]).reward == 1.0


def test_nothing_of_an_input_is_left_to_the_next_program():
    look = "import os\nprint(os.stat(0).st_atime_ns, open('/dev/stdin').read())"
    read_and_write = "import os\nprint(os.read(0, 9).decode())\nos.write(0, b'mine' * 100)"
    with Verifier(workers=1) as one:
        if one.isolation["scratch_folder"] is not True:
            pytest.skip("programs share no file here")
        ((before,),) = one.run([look], [""])
        ((between,),) = one.run([read_and_write], ["42"])
        ((after,),) = one.run([look], [""])
    assert between.printed == "42\n"
    assert after.printed == before.printed != ""


def test_no_file_is_left_behind(verifier):
    before = set(Path("/tmp").iterdir())
    attacks.fails(verifier, {f"cross {n}": a for n, a in attacks.ALL.items() if "cross" in n})
    new_paths = {path for path in set(Path("/tmp").iterdir()) - before if "maxatk" in path.name}
    assert not new_paths
