"""An evaluation on the nodes of a Ray cluster: sampling and verification as stages of Ray Data.

    ray start --head                                    # and: ray start --address=HEAD:6379
    python examples/ray_eval.py runs/mini/base runs/mini/test.jsonl runs/eval/ray --samples 64
    maxatk report ray=runs/eval/ray --out report.html

Every node needs this package and the files of the model. Rows are stored as they come; a node that
is lost costs what it worked on. If the driver itself dies, run the same command again: it asks for
what lacks. Here the sampler is the backend `hf`. On GPUs put `ray.data.llm` in its place, whose
processor takes `batch`es with a prompt and gives texts:

    config = vLLMEngineProcessorConfig(model_source=model, batch_size=64, concurrency=8)
    rows = build_processor(config, preprocess=..., postprocess=...)(rows)
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import ray

from maxatk import Verifier, load_problems
from maxatk.evaluation import SamplingSettings, results_of_folder
from maxatk.evaluation.folder import RESULTS, SAMPLES, SCORES
from maxatk.evaluation.scoring import BY_TESTS, Scorer
from maxatk.evaluation.store import Store
from maxatk.evaluation.submissions import submission
from maxatk.folders import write_json
from maxatk.records import Sample, Score
from maxatk.sampling import ModelSettings, Request, load_backend


class Sampling:
    """An actor that holds the model. A sample depends on seed, problem and index alone."""

    def __init__(self, model, file, settings):
        self.prompts = {problem.id: problem.prompt for problem in load_problems(file)}
        self.backend = load_backend(model, ModelSettings(batch_size=16))
        self.settings = settings

    def __call__(self, batch):
        indices = defaultdict(list)
        for problem_id, index in zip(batch["problem_id"], batch["index"], strict=True):
            indices[problem_id].append(int(index))
        requests = [Request(id, self.prompts[id], indices[id]) for id in indices]
        drawn = self.backend.sample(requests, self.settings)
        return {"sample": [json.dumps(sample.to_json()) for part in drawn for sample in part]}


class Verification:
    """An actor that holds a verifier of one worker: as many actors as there are cores for it."""

    def __init__(self, file):
        self.problems = {problem.id: problem for problem in load_problems(file)}
        self.verifier = Verifier(workers=1)
        self.scorer = Scorer(BY_TESTS, self.problems, self.verifier)

    def __call__(self, batch):
        samples = [Sample.from_json(json.loads(line)) for line in batch["sample"]]
        submissions = [
            submission(sample, self.problems[sample.problem_id], self.verifier.program_of)
            for sample in samples
        ]
        scores = [score for part in self.scorer.score(submissions) for score, _ in part]
        return {**batch, "score": [json.dumps(score.to_json()) for score in scores]}


def evaluate(model, file, out, *, samples, seed=0, samplers=1, scorers=2, max_new_tokens=256):
    """Draw and score what the folder lacks, and return the results."""
    settings = SamplingSettings(samples=samples, seed=seed, max_new_tokens=max_new_tokens)
    with Store(out / SAMPLES, Sample) as drawn, Store(out / SCORES, Score) as scored:
        lacking = [
            {"problem_id": problem.id, "index": index}
            for problem in load_problems(file)
            for index in range(samples)
            if (problem.id, index) not in scored.records
        ]
        for row in _rows(lacking, model, file, settings, samplers, scorers) if lacking else []:
            sample = Sample.from_json(json.loads(row["sample"]))
            if (sample.problem_id, sample.sample) not in drawn.records:
                drawn.append([sample])  # a driver that died before the score has it already
            scored.append([Score.from_json(json.loads(row["score"]))])
    results = results_of_folder(out)
    write_json(out / RESULTS, results.to_json())
    return results


def _rows(lacking, model, file, settings, samplers, scorers):
    """Return rows with a sample and its score, each as JSON, in the order in which they end."""
    rows = ray.data.from_items(lacking, override_num_blocks=1 + len(lacking) // 64)
    rows = rows.map_batches(
        Sampling,
        batch_size=32,
        concurrency=samplers,
        fn_constructor_args=(model, file, settings),
    )
    rows = rows.map_batches(
        Verification, batch_size=32, concurrency=scorers, fn_constructor_args=(file,)
    )
    return rows.iter_rows()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("problems")
    parser.add_argument("out", type=Path)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samplers", type=int, default=1, help="actors with a model")
    parser.add_argument("--scorers", type=int, default=2, help="actors with a verifier")
    parser.add_argument("--max-new-tokens", type=int, default=256)
    flags = vars(parser.parse_args())
    results = evaluate(flags.pop("model"), flags.pop("problems"), flags.pop("out"), **flags)
    for k, mean in results.metrics["max@k"].items():
        print(f"max@{k}  {mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]")
