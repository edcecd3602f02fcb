"""The recipes of job arrays, carried out by a stand-in for a scheduler: processes, some killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import maxatk
from evaluation.test_shards import assert_same_run
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from processes import family, patience, still_alive
from sampling.servers import serving

RECIPES = Path(maxatk.__file__).parent / "recipes" / "arrays"
SHARDS = 3
TESTS = tuple(TestCase(input=f"{i}\n", output="1\n") for i in range(3))
PROBLEMS = [Problem(f"p{i}", f"problem {i}", TESTS) for i in range(8)]


@pytest.fixture
def command(tmp_path):
    """Return a folder with `maxatk` on its path and the arguments of an evaluation there."""
    write_jsonl(tmp_path / "p.jsonl", (problem.to_json() for problem in PROBLEMS))
    script = tmp_path / "bin" / "maxatk"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m maxatk "$@"\n')
    script.chmod(0o755)
    sampling = ["--backend", "openai", "--model", "m", "--samples", "12", "--max-new-tokens", "7"]
    running = ["--verifier.workers", "1", "--server.concurrency", "2"]
    return [*sampling, *running, "--problems", "p.jsonl"]


def slurm_task(number):
    """Return command and environment of a task of `sbatch --array=1-3 slurm.sh`, from 1."""
    return [str(RECIPES / "slurm.sh")], {"SLURM_ARRAY_TASK_ID": str(number), "SHARDS": str(SHARDS)}


def kubernetes_task(number):
    """Return command and environment of a pod of the indexed Job, from 1."""
    job = yaml.safe_load((RECIPES / "kubernetes.yaml").read_text())
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert int(variable["value"]) == job["spec"]["completions"]
    environment = {variable["name"]: str(SHARDS), "JOB_COMPLETION_INDEX": str(number - 1)}
    return container["command"], environment


class Scheduler:
    """Runs tasks one beside the other; one that is lost is started again, as a scheduler does."""

    def __init__(self, task, arguments, folder):
        self.task = task
        self.arguments = arguments
        self.folder = folder
        self.lost = 0

    def start(self, number):
        command, variables = self.task(number)
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        return subprocess.Popen(
            [*command, *self.arguments],
            env={**os.environ, **variables, "PATH": path},
            cwd=self.folder,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *, lose):
        """Run all tasks to their end; `lose` decides when a running one loses its machine."""
        running = {number: self.start(number) for number in range(1, SHARDS + 1)}
        deadline = time.monotonic() + patience(200)
        while running:
            assert time.monotonic() < deadline
            for number, process in list(running.items()):
                if process.poll() is not None:
                    assert process.returncode == 0, process.stderr.read()
                    del running[number]
                elif lose(number):
                    members = family(process.pid)
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    assert not still_alive(members)
                    self.lost += 1
                    running[number] = self.start(number)
            time.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize("task", [slurm_task, kubernetes_task])
def test_an_array_whose_tasks_are_lost_gives_the_run_of_one_machine(task, command, tmp_path):
    draw = random.Random(5)
    moments = {1: draw.randint(1, 20), 2: draw.randint(1, 20)}  # samples of a shard that is lost

    def lose(number):
        samples = tmp_path / f"run/{number}-of-{SHARDS}/samples.jsonl"
        stored = samples.read_bytes().count(b"\n") if samples.is_file() else 0
        if stored < moments.get(number, 1000):
            return False
        del moments[number]
        return True

    with serving(delay=0.1) as server:
        address = ["--server.url", server.url]
        one = [str(tmp_path / "bin/maxatk"), "eval", *command, *address, "--out", "one"]
        subprocess.run(one, cwd=tmp_path, check=True, capture_output=True)
        scheduler = Scheduler(task, [*command, *address, "--out", "run"], tmp_path)
        scheduler.run(lose=lose)
        assert scheduler.lost  # on a busy machine one of the two may end before it is lost
        merging = [str(tmp_path / "bin/maxatk"), "merge", "run", "--format", "json"]
        merged = subprocess.run(merging, cwd=tmp_path, capture_output=True, text=True)
        assert merged.returncode == 0, merged.stderr
    assert_same_run(tmp_path / "run", tmp_path / "one")
