"""Run an evaluation in forked children and SIGKILL each at a random moment, then finish it.

Usage: kill_me.py MODEL PROBLEMS OUT KILLS SEED. Prints how many samples each kill left behind.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from transformers.utils import logging

from maxatk.evaluate import SamplingSettings, evaluate, load_backend
from maxatk.verifier import Verifier


def run(model, problems, out):
    settings = SamplingSettings(max_new_tokens=4, samples=24)
    with Verifier(workers=1) as verifier:
        evaluate(model, problems, out, settings=settings, batch_size=3, verifier=verifier)


def child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def main(model, problems, out, kills, seed):
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    load_backend("hf", model, batch_size=1)  # imports the model's code before the forks
    draw = random.Random(int(seed))
    samples = Path(out) / "samples.jsonl"
    started = time.monotonic()
    pid = child(lambda: run(model, problems, out + "-whole"))
    assert os.waitpid(pid, 0)[1] == 0
    took = time.monotonic() - started
    for _ in range(int(kills)):
        pid = child(lambda: run(model, problems, out))
        time.sleep(draw.uniform(0.1, 0.9) * took)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print(samples.read_bytes().count(b"\n") if samples.exists() else 0)
    pid = child(lambda: run(model, problems, out))
    assert os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
