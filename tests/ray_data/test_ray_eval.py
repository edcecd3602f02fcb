"""`examples/ray_eval.py` on a cluster of two local nodes, of which one is lost."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="runs in its own environment: make test-ray")
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("pandas") is None:
    pytest.skip("runs in its own environment: make test-ray", allow_module_level=True)

import ray
from ray.cluster_utils import Cluster

from maxatk.evaluation import EvalRecipe, SamplingSettings, evaluate
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.verifier import VerifierSettings
from processes import family, patience, still_alive
from tiny import save_tiny_model

SCRIPT = Path(__file__).parents[2] / "examples" / "ray_eval.py"
SAMPLES = 24
TOKENS = 4
PROBLEMS = [
    Problem(
        f"p{i}",
        "print(1)\n" * (1 + i % 4),
        (TestCase(input="", output=f"{1 + i % 2}\n"),),
        visible_tests=(TestCase(input="", output="1\n"),),
    )
    for i in range(10)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, problems, and their evaluation on one machine."""
    path = tmp_path_factory.mktemp("ray")
    save_tiny_model(path / "model")
    write_jsonl(path / "p.jsonl", (problem.to_json() for problem in PROBLEMS))
    recipe = EvalRecipe(
        model=str(path / "model"),
        problems=path / "p.jsonl",
        out=path / "one",
        backend="hf",
        batch_size=16,
        sampling=SamplingSettings(samples=SAMPLES, max_new_tokens=TOKENS),
        verifier=VerifierSettings(workers=1),
    )
    evaluate(recipe)
    return path


@pytest.fixture
def cluster():
    """A cluster of two nodes on this machine."""
    node = {"num_cpus": 2, "object_store_memory": 120 << 20}
    started = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    started.second = started.add_node(**node)
    started.node = node
    try:
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


def start(folder, cluster, out):
    sampling = ["--samples", str(SAMPLES), "--max-new-tokens", str(TOKENS)]
    arguments = [str(folder / "model"), str(folder / "p.jsonl"), str(out), *sampling]
    environment = {"RAY_ADDRESS": cluster.address, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with (folder / "driver.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_scores(out, number, driver):
    deadline = time.monotonic() + patience(200)
    while True:
        scores = out / "scores.jsonl"
        if scores.is_file() and scores.read_bytes().count(b"\n") >= number:
            return
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_same(folder, out):
    """The rows are those of one machine, each once, in whatever order; the metrics are equal."""
    for name in ("samples.jsonl", "scores.jsonl"):
        rows = [
            sorted(
                json.dumps({**json.loads(line), "seconds": 0}, sort_keys=True)
                for line in (run / name).read_text().splitlines()
            )
            for run in (folder / "one", out)
        ]
        assert rows[0] == rows[1]
    results = [json.loads((run / "results.json").read_text()) for run in (folder / "one", out)]
    assert results[0]["metrics"] == results[1]["metrics"]


def test_a_lost_node_and_a_dead_driver_cost_no_row(folder, cluster, tmp_path):
    out = tmp_path / "run"
    driver = start(folder, cluster, out)
    wait_for_scores(out, 20, driver)
    cluster.remove_node(cluster.second, allow_graceful=False)
    wait_for_scores(out, 60, driver)
    members = family(driver.pid)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not still_alive(members)
    cluster.add_node(**cluster.node)
    again = start(folder, cluster, out)
    assert again.wait(patience(250)) == 0, (folder / "driver.log").read_text()[-3000:]
    assert_same(folder, out)
