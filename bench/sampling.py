"""Tokens a second of the hf backend, of transformers' `generate`, and of vLLM and its server.

Usage: python bench/sampling.py [MODEL [PROBLEMS.jsonl]] [key=value ...]. Without a model the
built-in one is made. Keys: rows (batch sizes, 16,64,256), tokens (new ones, 64), dtype (auto),
temperature (1), samples (64, of each of `problems`, 2), singles (64: problems of one sample each),
turns (2: the fastest counts), engines (those of maxatk,generate,vllm,server that are measured; the
last two where vLLM is installed).

Seconds are those of the processor, or of the wall clock where there is a GPU.

Every engine draws `samples` completions of `problems` problems, then one completion of each of
`singles` problems, at every batch size, on one thread. `generate` gets batches of equal prompts in
the first case and of prompts padded to the longest in the second. The server is vLLM's own; the
backend `openai` has as many requests under way as the batch has rows, and both processes count.
"""

import contextlib
import dataclasses
import importlib.util
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
os.environ.setdefault("VLLM_CPU_CI_ENV", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import torch
from transformers import AutoTokenizer

from cpu import cpu_seconds
from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.problems import load_problems
from maxatk.sampling import ModelSettings, SamplingSettings, ServerSettings, load_backend
from maxatk.sampling.settings import Request

SETTINGS = {
    "rows": "16,64,256",
    "tokens": "64",
    "dtype": "auto",
    "temperature": "1",
    "samples": "64",
    "problems": "2",
    "singles": "64",
    "turns": "2",
    "engines": "maxatk,generate,vllm,server",
}


def of_backend(backend, requests, settings):
    return sum(
        sample.tokens for samples in backend.sample(requests, settings) for sample in samples
    )


def of_generate(backend, requests, settings):
    """`generate` with what a report needs but for log-probabilities: texts."""
    prompts = [backend._prompt_ids(request.prompt) for request in requests for _ in request.indices]
    drawn = 0
    rows = backend.batch_size
    for start in range(0, len(prompts), rows):
        batch = prompts[start : start + rows]
        longest = max(map(len, batch))
        padding = [[0] * (longest - len(prompt)) for prompt in batch]
        ids = [before + prompt for before, prompt in zip(padding, batch, strict=True)]
        mask = [before + [1] * len(prompt) for before, prompt in zip(padding, batch, strict=True)]
        with torch.inference_mode():
            tokens = backend.model.generate(
                torch.tensor(ids, device=backend.model.device),
                attention_mask=torch.tensor(mask, device=backend.model.device),
                do_sample=True,
                temperature=settings.temperature,
                top_k=0,
                top_p=1.0,
                pad_token_id=backend.tokenizer.eos_token_id,
                max_new_tokens=settings.max_new_tokens,
            )[:, longest:]
        backend.tokenizer.batch_decode(tokens, skip_special_tokens=True)
        ends = torch.isin(tokens.cpu(), torch.tensor(backend._end_tokens)).int()
        drawn += int((ends.cumsum(1) - ends == 0).sum())  # up to the end token, and that
    return drawn


def seconds():
    return time.perf_counter() if torch.cuda.is_available() else cpu_seconds()


def rate(draw, backend, requests, settings, turns):
    best = 0.0
    for turn in range(turns):
        # Other prompts in every turn: vLLM would know those of the turn before.
        chosen = [dataclasses.replace(r, prompt=f"{turn}. {r.prompt}") for r in requests]
        started = seconds()
        drawn = draw(backend, chosen, settings)
        best = max(best, drawn / (seconds() - started))
    return best


def cases(problems, chosen, settings):
    many = dataclasses.replace(settings, samples=int(chosen["samples"]))
    first_problems = problems[: int(chosen["problems"])]
    yield (
        f"{len(first_problems)} problems x {many.samples}",
        [Request(p.id, p.prompt, range(many.samples)) for p in first_problems],
        many,
    )
    count = int(chosen["singles"])
    repeated = list(itertools.islice(itertools.cycle(problems), count))
    yield (
        f"{count} problems x 1",
        [Request(f"{i} {p.id}", p.prompt, [0]) for i, p in enumerate(repeated)],
        dataclasses.replace(settings, samples=1),
    )


@contextlib.contextmanager
def served(model, dtype, rows):
    """Run vLLM's server with the model under its own name; give the base of its API."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            model,
            "--port",
            str(port),
            "--host",
            "127.0.0.1",
            "--dtype",
            dtype,
            "--enforce-eager",
            "--max-num-seqs",
            str(rows),
            "--disable-uvicorn-access-log",
            # On a CPU, seeds and prompts in chunks end the engine.
            "--no-enable-chunked-prefill",
            "--max-num-batched-tokens",
            "8192",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not is_up(address):
            if process.poll() is not None:
                raise SystemExit(f"vLLM's server ended with {process.returncode}")
            time.sleep(0.5)
        yield f"{address}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_up(address):
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{address}/health", timeout=5).is_success
    return False


@contextlib.contextmanager
def opened(kind, model, dtype, rows):
    """Give the backend of this kind with batches of so many rows."""
    if kind == "openai":
        chat = AutoTokenizer.from_pretrained(model).chat_template is not None
        with served(model, dtype, rows) as url:
            server = ServerSettings(url, chat=chat, concurrency=rows)
            yield load_backend(model, ModelSettings(kind, server=server))
        return
    eager = kind == "vllm" and not torch.cuda.is_available()
    engine = {"enforce_eager": True} if eager else {}
    yield load_backend(model, ModelSettings(kind, dtype=dtype, batch_size=rows, engine=engine))


def engines_of(chosen):
    engines = [("maxatk", "hf", of_backend), ("generate", "hf", of_generate)]
    if importlib.util.find_spec("vllm") is not None:
        engines += [("vllm", "vllm", of_backend), ("server", "openai", of_backend)]
    return [engine for engine in engines if engine[0] in chosen["engines"].split(",")]


def measure(model, problems, chosen):
    settings = SamplingSettings(
        max_new_tokens=int(chosen["tokens"]), temperature=float(chosen["temperature"])
    )
    rows = [int(part) for part in chosen["rows"].split(",")]
    best = {}
    dtype = chosen["dtype"]
    for (name, kind, draw), batch in itertools.product(engines_of(chosen), rows):
        with opened(kind, model, dtype, batch) as backend:
            if kind == "hf":
                dtype = str(backend.model.dtype).removeprefix("torch.")  # of the engines after it
            torch.set_num_threads(1)
            for case, requests, sampling in cases(problems, chosen, settings):
                backend.prepare({r.problem_id: r.prompt for r in requests}, sampling)
                first = dataclasses.replace(requests[0], indices=[0])
                draw(backend, [first], sampling)  # what is made at the first use does not count
                speed = rate(draw, backend, requests, sampling, int(chosen["turns"]))
                print(f"{case}, {batch} rows: {name} {speed:,.0f} tokens a second", flush=True)
                best[case, name] = max(speed, best.get((case, name), 0))
    print(f"{dtype}, each at its best batch size:")
    for (case, name), speed in best.items():
        print(f"{case}: {name} {speed:,.0f}, maxatk / {name} {best[case, 'maxatk'] / speed:.2f}")


def main(arguments):
    chosen = dict(SETTINGS)
    places = [argument for argument in arguments if "=" not in argument]
    chosen |= dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if len(places) < 2:
            mini = MiniSettings(
                train_problems=1, test_problems=96, warm_start=WarmStart(problems=3200)
            )
            build_mini(Path(folder) / "mini", mini)
        model = places[0] if places else str(Path(folder) / "mini" / "base")
        path = places[1] if len(places) > 1 else Path(folder) / "mini" / "test.jsonl"
        measure(model, load_problems(str(path)), chosen)


if __name__ == "__main__":
    main(sys.argv[1:])
