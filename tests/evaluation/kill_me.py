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

from maxatk.sampling import ModelSettings, SamplingSettings, load_backend
from maxatk.verifier import Verifier
from processes import patience
from runs import evaluated


def run(model, problems, out):
    settings = SamplingSettings(max_new_tokens=4, samples=60)
    batches = ModelSettings(batch_size=3)
    with Verifier(workers=1) as verifier:
        evaluated(
            model, problems, out, settings=settings, model_settings=batches, verifier=verifier
        )


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
    load_backend(model, ModelSettings())  # imports the model's code before the forks
    draw = random.Random(int(seed))
    pid = child(lambda: run(model, problems, out + "-whole"))
    assert os.waitpid(pid, 0)[1] == 0
    whole = (Path(out + "-whole") / "samples.jsonl").stat().st_size
    moments = sorted(draw.randrange(whole) for _ in range(int(kills)))
    for moment in moments:
        pid = child(lambda: run(model, problems, out))
        wait_for(Path(out) / "samples.jsonl", moment)
        time.sleep(draw.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print((Path(out) / "samples.jsonl").read_bytes().count(b"\n"))
    pid = child(lambda: run(model, problems, out))
    assert os.waitpid(pid, 0)[1] == 0


def wait_for(path, size):
    deadline = time.monotonic() + patience(60)
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < deadline, f"{path} never had {size} bytes"
        time.sleep(0.001)


if __name__ == "__main__":
    main(*sys.argv[1:])
