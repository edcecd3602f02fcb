import json
import shutil
import signal
import subprocess
import sys

import pytest

from maxatk.cli.progress import progress_of
from maxatk.errors import InvalidValueError, StageError
from maxatk.studies import stages as running
from maxatk.studies.stages import Stage
from processes import ENDLESS, patience, still_alive, wait_for_busy_family

BUSY = (
    "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint(4)"
)


def run_stages(stages, folder, *, jobs):
    with progress_of("stages", parts={"": "finished"}) as board:
        board(0, len(stages))
        return running.run_stages(stages, folder, board, jobs=jobs)


def test_stages_run_after_what_they_need(scoring, tmp_path):
    stages = [
        Stage("slow", scoring(BUSY, BUSY + "\n", name="slow")),
        Stage("after-slow", scoring("print(4)", name="after-slow"), needs=("slow",)),
        Stage("free", scoring("print(4)", name="free")),
    ]
    seconds = run_stages(stages, tmp_path, jobs=2)
    assert list(seconds) == ["free", "slow", "after-slow"]  # in the order in which they finish
    assert all(value > 0 for value in seconds.values())
    for stage in stages:
        assert (tmp_path / stage.name / "results.json").is_file()
        assert (tmp_path / "logs" / f"{stage.name}.log").is_file()


def test_finished_stages_are_not_run_again(scoring, tmp_path, capfd):
    stages = [
        Stage("one", scoring("print(4)", name="one")),
        Stage("two", scoring("print(4)", name="two"), needs=("one",)),
    ]
    run_stages(stages[:1], tmp_path, jobs=1)
    (tmp_path / "one" / "results.json").unlink()  # a second run would write it again
    marker = json.loads((tmp_path / "stages" / "one.json").read_text())
    seconds = run_stages(stages, tmp_path, jobs=1)
    assert seconds["one"] == marker["seconds"]
    assert not (tmp_path / "one" / "results.json").exists()
    assert (tmp_path / "two" / "results.json").is_file()
    assert run_stages(stages, tmp_path, jobs=1).keys() == seconds.keys()
    shown = capfd.readouterr().err
    # A resumed study of hundreds of stages does not list what it has not done.
    assert (shown.count("one: finished"), shown.count("two: finished")) == (1, 1)


def test_a_finished_stage_whose_folder_is_gone_runs_again(scoring, tmp_path):
    stages = [Stage(name, scoring("print(4)", name=name)) for name in ("one", "two")]
    run_stages(stages, tmp_path, jobs=1)
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "two" / "results.json").unlink()  # a second run would write it again
    run_stages(stages, tmp_path, jobs=1)
    assert (tmp_path / "one" / "results.json").is_file()
    assert not (tmp_path / "two" / "results.json").exists()


def test_a_failing_stage_takes_those_that_need_it_and_no_others(scoring, tmp_path, capfd):
    samples = tmp_path / "bad-samples.jsonl"
    bad = scoring("print(4)", name="bad")
    samples.write_text("{}\n")
    stages = [
        Stage("bad", bad),
        Stage("needs-bad", scoring("print(4)", name="needs-bad"), needs=("bad",)),
        Stage("needs-that", scoring("print(4)", name="needs-that"), needs=("needs-bad",)),
        Stage("slow", scoring(BUSY, BUSY + "\n", name="slow")),
        Stage("after-slow", scoring("print(4)", name="after-slow"), needs=("slow",)),
    ]
    with pytest.raises(StageError, match=r"stage 'bad' failed \(exit 2\)") as caught:
        run_stages(stages, tmp_path, jobs=2)
    assert f"{samples}:1: " in str(caught.value)  # the end of the log
    finished = {path.stem for path in (tmp_path / "stages").iterdir()}
    assert finished == {"slow", "after-slow"}
    assert not (tmp_path / "needs-bad").exists()
    assert not (tmp_path / "needs-that").exists()
    # It is said as soon as it is known, before the others finish.
    shown = capfd.readouterr().err
    assert 0 <= shown.index("stage 'bad' failed") < shown.index("slow: finished")


def test_every_stage_that_failed_is_named(scoring, tmp_path):
    stages = []
    for name in ("one", "two"):
        arguments = scoring("print(4)", name=name)
        (tmp_path / f"{name}-samples.jsonl").write_text("{}\n")
        stages.append(Stage(name, arguments))
    with pytest.raises(StageError) as caught:
        run_stages(stages, tmp_path, jobs=1)
    assert "stage 'one' failed" in str(caught.value)
    assert "stage 'two' failed" in str(caught.value)


@pytest.mark.parametrize(
    ("stages", "jobs", "message"),
    [
        ([Stage("a", ())], 0, "jobs: must be at least 1, got 0"),
        ([Stage("a", (), needs=("b",))], 1, "'a' needs 'b', which is not listed before it"),
        ([Stage("a", (), needs=("b",)), Stage("b", ())], 1, "'a' needs 'b'"),
        ([Stage("a", ()), Stage("a", ())], 1, "'a' is listed twice"),
    ],
)
def test_stages_that_could_never_run_are_refused(stages, jobs, message, tmp_path):
    with pytest.raises(InvalidValueError, match=message):
        run_stages(stages, tmp_path, jobs=jobs)
    assert list(tmp_path.iterdir()) == []


RUNNER = """
import sys
from pathlib import Path
from maxatk.cli.progress import progress_of
from maxatk.studies.stages import Stage, run_stages
try:
    with progress_of("stages", parts={"": "finished"}) as board:
        board(0, 1)
        stages = [Stage("endless", tuple(sys.argv[2:]))]
        run_stages(stages, Path(sys.argv[1]), board, jobs=1)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_a_process_that_a_stage_leaves_is_not_waited_for(scoring, leaving, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_GRACE_S", 0.5)
    reward, goes_on = leaving
    run_stages([Stage("one", (*scoring("4", name="one"), "--reward", reward))], tmp_path, jobs=1)
    assert goes_on()


UNSHOWN = """
import errno
import sys
from pathlib import Path
from maxatk.cli.progress import Progress
from maxatk.studies.stages import Stage, run_stages
def show(part):
    if part:
        raise OSError(errno.ENOSPC, "No space left on device")
board = Progress({"": "finished"})
board.show = show
run_stages([Stage("one", tuple(sys.argv[2:]))], Path(sys.argv[1]), board, jobs=1)
"""


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_runs_the_stages(how, scoring, started, tmp_path):
    command = scoring(ENDLESS, time_limit=500)
    runner = started(sys.executable, "-c", RUNNER, str(tmp_path), *command)
    members = wait_for_busy_family(runner.pid)
    assert len(members) >= 3  # the runner, its stage, and what verifies programs
    runner.send_signal(how)
    status = runner.wait(timeout=patience(30))
    assert still_alive(members) == []
    assert status == (130 if how is signal.SIGINT else -how)
    assert not (tmp_path / "stages").exists()


def test_a_stage_whose_progress_cannot_be_shown_ends_the_run(scoring, started, tmp_path):
    command = (sys.executable, "-c", UNSHOWN, str(tmp_path), *scoring("print(4)"))
    runner = started(*command, stderr=subprocess.PIPE)
    _, errors = runner.communicate(timeout=patience(20))
    assert runner.returncode == 1
    assert "No space left on device" in errors


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_single_verb(how, scoring, started):
    command = (sys.executable, "-m", "maxatk", *scoring(ENDLESS, time_limit=500))
    command = started(*command, stderr=subprocess.PIPE)
    members = wait_for_busy_family(command.pid)
    command.send_signal(how)
    _, errors = command.communicate(timeout=patience(40))
    assert still_alive(members) == []
    if how is signal.SIGINT:
        assert command.returncode == 130
        assert errors.endswith("maxatk: interrupted; the same command resumes\n")


def test_a_child_in_json_mode_ends_when_its_parents_pipe_closes(scoring, started):
    command = (sys.executable, "-m", "maxatk", *scoring(ENDLESS, time_limit=500))
    child = started(*command, "--progress", "json", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    members = wait_for_busy_family(child.pid)
    child.stdin.close()
    assert child.wait(timeout=patience(20)) == 1
    assert still_alive(members) == []
