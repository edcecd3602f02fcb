"""Programs verified on the nodes of a Ray cluster: the same files as one process writes."""

import dataclasses
import gc
import json
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

import ray
from ray.cluster_utils import Cluster

from maxatk import Problem, TestCase
from maxatk.engines.cluster import ClusterSettings, verifying
from maxatk.engines.cluster.sampling import open_sampler
from maxatk.engines.cluster.shards import connected
from maxatk.engines.cluster.verifying import ClusterVerifier, open_verifier
from maxatk.errors import InvalidValueError, SandboxError
from maxatk.jsonl import write_jsonl
from maxatk.problems import load_problems
from maxatk.records import Sample
from maxatk.sampling import ModelSettings, SamplingSettings
from maxatk.sampling.settings import Request
from maxatk.verifier import Job, VerifierSettings
from processes import patience
from runs import evaluated, scored

NODE = {"num_cpus": 2, "object_store_memory": 10**8}
ONE_WORKER = VerifierSettings(workers=1)
PROBLEMS = [
    Problem(f"add {n}", "", tuple(TestCase(input=f"{i}\n", output=f"{i + n}\n") for i in range(3)))
    for n in range(6)
]


@pytest.fixture(scope="module")
def cluster():
    """A head that runs nothing, and two nodes."""
    started = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": 10**8, "include_dashboard": False},
    )
    started.nodes_of_tests = [started.add_node(**NODE) for _ in range(2)]
    started.wait_for_nodes()
    yield started
    started.shutdown()


@pytest.fixture
def settings(cluster):
    return ClusterSettings(address=cluster.address, shards=2)


@pytest.fixture
def files(tmp_path):
    """Programs for each problem: right, wrong, broken, and two that are equal."""
    texts = [
        "print(int(input()) + {n})",
        "print(int(input()) - 1)",
        "print(",
        "print(int(input()))",
    ]
    samples = [
        Sample(problem.id, index, "```python\n" + texts[index % 4].format(n=n) + "\n```")
        for n, problem in enumerate(PROBLEMS)
        for index in range(8)
    ]
    write_jsonl(tmp_path / "samples.jsonl", (sample.to_json() for sample in samples))
    write_jsonl(tmp_path / "problems.jsonl", (problem.to_json() for problem in PROBLEMS))
    return tmp_path


def scores(folder):
    """The lines of scores.jsonl in their order, without what a clock decides."""
    rows = [json.loads(line) for line in (folder / "scores.jsonl").open()]
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def expected(files):
    with ONE_WORKER.open() as verifier:
        scored(files / "samples.jsonl", PROBLEMS, files / "here", verifier=verifier)
    return scores(files / "here")


def test_two_nodes_write_what_one_process_writes(files, settings):
    with open_verifier(ONE_WORKER, settings) as verifier:
        nodes = {shard["node_id"] for shard in verifier.shards}
        results = scored(files / "samples.jsonl", PROBLEMS, files / "there", verifier=verifier)
    assert scores(files / "there") == expected(files)
    assert len(nodes) == 2
    assert results.manifest["isolation"]["seccomp"] is True
    assert [set(shard) >= {"node", "cpu"} for shard in results.manifest["shards"]] == [True] * 2
    here = json.loads((files / "here" / "manifest.json").read_text())["settings"]
    assert json.loads((files / "there" / "manifest.json").read_text())["settings"] == here


def test_every_shard_has_some_of_a_few_programs(settings):
    jobs = [Job(f"print(int(input()) + {n})", problem.tests) for n, problem in enumerate(PROBLEMS)]
    with open_verifier(ONE_WORKER, settings) as verifier:
        assert all(verdict.passed == 3 for verdict in verifier.verify_many(jobs))
        assert [shard.done for shard in verifier.work()] == [3, 3]


def test_two_nodes_sample_what_one_process_samples(mini, files, settings):
    problems = load_problems(mini / "problems.jsonl")[:4]
    sampling = SamplingSettings(samples=12, max_new_tokens=8, seed=3)
    asked = ModelSettings(batch_size=2)  # chunks of 8 samples, across problems
    with (
        open_verifier(ONE_WORKER, settings) as verifier,
        open_sampler(mini / "model", asked, settings) as sampler,
    ):
        evaluated(
            mini / "model",
            problems,
            files / "there",
            settings=sampling,
            model_settings=asked,
            backend=sampler,
            verifier=verifier,
        )
        assert len({shard["node_id"] for shard in sampler._shards.said}) == 2
    evaluated(mini / "model", problems, files / "here", settings=sampling, model_settings=asked)
    there, here = ((files / name / "samples.jsonl").read_text() for name in ("there", "here"))
    assert there.count("\n") == 48
    texts = [
        [json.loads(line)["completion"] for line in text.splitlines()] for text in (there, here)
    ]
    assert texts[0] == texts[1]
    assert scores(files / "there") == scores(files / "here")


def test_a_node_that_dies_loses_no_verdict(cluster, settings, monkeypatch):
    monkeypatch.setattr(verifying, "CHUNK", 2)
    slow = "import time\ntime.sleep(0.5)\nprint(int(input()) + {n})"
    jobs = [
        Job(slow.format(n=n) + f"  # {i}", PROBLEMS[n].tests) for i in range(8) for n in range(6)
    ]
    found = {}
    with connected(settings) as ray, ClusterVerifier(ray, settings, ONE_WORKER) as verifier:
        for index, verdict in verifier.verify_stream(jobs):
            assert index not in found
            found[index] = verdict
            if len(found) == 8:
                cluster.remove_node(cluster.nodes_of_tests.pop(), allow_graceful=False)
                cluster.nodes_of_tests.append(cluster.add_node(**NODE))
    assert len(found) == len(jobs)
    assert {verdict.passed for verdict in found.values()} == {3}


def test_a_sampler_whose_process_dies_draws_its_samples_again(mini, settings):
    one = dataclasses.replace(settings, shards=1)
    sampling = SamplingSettings(samples=4, max_new_tokens=4, seed=3)
    requests = [Request("short", "Print 1.\n", range(4))]
    with open_sampler(mini / "model", ModelSettings(batch_size=2), one) as sampler:
        sampler.prepare({"short": "Print 1.\n"}, sampling)
        gc.collect()
        before = [sample for batch in sampler.sample(requests, sampling) for sample in batch]
        ray.kill(sampler._shards.actors[0], no_restart=False)
        again = [sample for batch in sampler.sample(requests, sampling) for sample in batch]
    assert again == before


def test_a_driver_that_is_killed_goes_on_where_it_was(files, settings):
    command = [sys.executable, "-m", "maxatk", "score", "--samples", str(files / "samples.jsonl")]
    command += ["--problems", str(files / "problems.jsonl"), "--out", str(files / "there")]
    command += ["--cluster.address", settings.address, "--cluster.shards", "2"]
    command += ["--verifier.workers", "1", "--progress", "json"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + patience(120)
    file = files / "there" / "scores.jsonl"
    while not (file.exists() and file.stat().st_size) and first.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.kill()
    first.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(120))
    assert done.returncode == 0, done.stderr
    assert scores(files / "there") == expected(files)


def test_a_node_that_cannot_isolate_is_refused_by_name(settings):
    class Without(VerifierSettings):  # here every node can
        def open(self):
            raise SandboxError("the layer seccomp is missing")

    with connected(settings) as ray:
        host = socket.gethostname()
        with pytest.raises(SandboxError, match=rf"the node {host} .*seccomp is missing"):
            ClusterVerifier(ray, settings, Without())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": 5}, r"5 CPU; the cluster has 4"),
        ({"shards": 1, "gpus_per_shard": 1.0}, r"1 GPU each need 1 GPU; the cluster has 0"),
    ],
)
def test_a_cluster_that_is_too_small_is_refused(settings, changes, message):
    chosen = ClusterSettings(**{"address": settings.address, **changes})
    with pytest.raises(InvalidValueError, match=message), connected(chosen):
        raise AssertionError("connected")


def test_an_address_nobody_listens_on_is_refused_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (
        pytest.raises(InvalidValueError, match=f"nobody listens on {address}"),
        connected(ClusterSettings(address=address)),
    ):
        raise AssertionError("connected")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"shards": 0}, "cluster.shards"),
        ({"gpus_per_shard": -1.0}, "cluster.gpus_per_shard"),
        ({"address": "somewhere"}, "cluster.address"),
    ],
)
def test_settings_that_are_not_allowed_name_their_field(changes, field):
    with pytest.raises(InvalidValueError, match=field):
        ClusterSettings(**changes)
