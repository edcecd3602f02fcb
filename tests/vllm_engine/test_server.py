"""vLLM's own server behind the openai backend: seeds, death and restart."""

import os
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from maxatk.problems import load_problems
from maxatk.sampling import ModelSettings, SamplingSettings, ServerSettings, load_backend
from maxatk.sampling.settings import Request
from processes import family, kill, patience

SETTINGS = SamplingSettings(samples=16, max_new_tokens=24)


def start(model, port, log):
    with log.open("a") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model),
                *("--served-model-name", "mini", "--port", str(port), "--host", "127.0.0.1"),
                *("--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill"),
                *("--max-num-batched-tokens", "8192"),
            ],
            stdout=out,
            stderr=out,
            env={**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            start_new_session=True,
        )
    deadline = time.monotonic() + patience(180)
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).is_success:
                return process
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])


def end(process):
    kill(family(process.pid))
    process.wait()


def drawn(backend, requests):
    backend.prepare({request.problem_id: request.prompt for request in requests}, SETTINGS)
    return [sample for batch in backend.sample(requests, SETTINGS) for sample in batch]


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_seeds_repeat_through_the_death_and_restart_of_the_server(
    mini, tmp_path, port, monkeypatch
):
    monkeypatch.setattr("maxatk.sampling.openai._LONGEST_WAIT_S", 1.0)
    model = str(mini / "base")
    log = tmp_path / "log"
    server = ServerSettings(f"http://127.0.0.1:{port}/v1", retries=300)
    requests = [
        Request(problem.id, problem.prompt, range(16))
        for problem in load_problems(mini / "test.jsonl")[:6]
    ]
    process = start(model, port, log)
    try:
        backend = load_backend("mini", ModelSettings("openai", server=server))
        whole = drawn(backend, requests)
        assert all(sample.logprob < 0 for sample in whole)
        samples = []
        sampling = threading.Thread(target=lambda: samples.extend(drawn(backend, requests)))
        sampling.start()
        time.sleep(0.5)
        end(process)
        process = start(model, port, log)
        sampling.join(patience(120))
        assert [sample.completion for sample in samples] == [s.completion for s in whole]
    finally:
        end(process)
