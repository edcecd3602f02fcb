"""CPU time of an evaluation on a Ray cluster of one node, over that in one process.

40 problems x 64 samples of a built-in model of random weights; the files of both are compared.
Start-up is not counted, and neither are the sandboxes, which run the same programs in both. Needs
Ray: run it in the environment of `make test-verl`.
"""

import contextlib
import importlib.util
import tempfile
from pathlib import Path

from cpu import Counted, own_cpu_seconds
from maxatk.engines.cluster import ClusterSettings, sampling, verifying
from maxatk.engines.cluster.sampling import ClusterSampler, SamplingShard
from maxatk.engines.cluster.shards import connected
from maxatk.engines.cluster.verifying import ClusterVerifier, VerifyingShard
from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.jsonl import read_jsonl, write_jsonl
from maxatk.problems import load_problems
from maxatk.sampling import ModelSettings, SamplingSettings, load_backend
from maxatk.verifier import VerifierSettings

PROBLEMS, SAMPLES, TURNS = 40, 64, 3
MOST = 1.10
CLUSTER = ClusterSettings(address="local")
VERIFIER = VerifierSettings(workers=1)
MODEL = ModelSettings(batch_size=64)
SAMPLING = SamplingSettings(samples=SAMPLES, max_new_tokens=24, seed=1)


class MeasuredSampling(Counted, SamplingShard):
    """Counts from when its model is loaded."""


class MeasuredVerifying(Counted, VerifyingShard):
    """Counts from when its verifier is open."""


def mini(folder):
    """A model whose texts vary, and problems."""
    from maxatk.mini import Noise, generate_problems
    from maxatk.mini.model import new_model, train_tokenizer
    from maxatk.mini.warm_start import noisy_corpus

    found = list(generate_problems(PROBLEMS, seed=0, tests=3))
    corpus = noisy_corpus(found, noise=Noise(), seed=0)
    tokenizer = train_tokenizer([p + c for p, c in corpus], vocabulary=120)
    new_model(tokenizer, seed=0).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    write_jsonl(folder / "problems.jsonl", (one.problem.to_json() for one in found))
    return folder / "model", load_problems(folder / "problems.jsonl")


def run(model, problems, out, sampler, verifier):
    """CPU seconds of this process for an evaluation, from its first report of progress on."""
    ready = []

    def progress(*_):
        if not ready:
            ready.append(own_cpu_seconds())

    recipe = EvalRecipe(
        **vars(MODEL), model=str(model), problems=problems, out=out, sampling=SAMPLING
    )
    evaluate(recipe, backend=sampler, verifier=verifier, progress=progress)
    return own_cpu_seconds() - ready[0]


def in_one_process(model, problems, out):
    with VERIFIER.open() as verifier:
        return run(model, problems, out, load_backend(str(model), MODEL), verifier)


def on_a_cluster(ray, model, problems, out):
    sampling.SamplingShard, verifying.VerifyingShard = MeasuredSampling, MeasuredVerifying
    with (
        ClusterVerifier(ray, CLUSTER, VERIFIER) as verifier,
        contextlib.closing(ClusterSampler(ray, CLUSTER, str(model), MODEL)) as sampler,
    ):
        driver = run(model, problems, out, sampler, verifier)
        used = [ray.get(one._shards.actors[0].used.remote()) for one in (sampler, verifier)]
        return driver, *used


def rows(path):
    """The lines of a file in their order, without what a clock decides."""
    return [
        {name: value for name, value in row.items() if "seconds" not in name}
        for row in read_jsonl(path, dict)
    ]


def main():
    if importlib.util.find_spec("ray") is None:
        print("left out: the package 'ray' is not installed here; see make test-verl")
        return
    import torch

    torch.set_num_threads(1)  # as Ray has it in an actor of one CPU
    ratios = []
    with tempfile.TemporaryDirectory() as name, connected(CLUSTER) as ray:
        folder = Path(name)
        model, problems = mini(folder)
        for turn in range(1, TURNS + 1):
            here, there = folder / f"here {turn}", folder / f"there {turn}"
            alone = in_one_process(model, problems, here)
            driver, sampler, verifier = on_a_cluster(ray, model, problems, there)
            for file in ("samples.jsonl", "scores.jsonl"):
                assert rows(here / file) == rows(there / file), file
            ratios.append((driver + sampler + verifier) / alone)
            parts = f"driver {driver:.2f} s, sampler {sampler:.2f} s, verifier {verifier:.2f} s"
            print(f"one process {alone:.2f} s; {parts}; ratio {ratios[-1]:.2f}", flush=True)
    median = sorted(ratios)[TURNS // 2]
    print(f"CPU time on a cluster / in one process: {median:.2f} (aim: at most {MOST})")


if __name__ == "__main__":
    main()
