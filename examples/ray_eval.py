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
from maxatk.evaluation.store import Store
from maxatk.evaluation.submissions import program_key
from maxatk.folders import write_json
from maxatk.records import Sample, Score
from maxatk.sampling import ModelSettings, Request, load_backend
from maxatk.verifier import problem_job


class Sampler:
    """An actor that holds the model. A sample depends on seed, problem and index alone."""

    def __init__(self, model, file, settings):
        self.problems = {problem.id: problem for problem in load_problems(file)}
        self.backend = load_backend(model, ModelSettings(batch_size=16))
        self.settings = settings

    def __call__(self, batch):
        indices = defaultdict(list)
        for problem_id, sample in zip(batch["problem_id"], batch["sample"], strict=True):
            indices[problem_id].append(int(sample))
        requests = [Request(id, self.problems[id].prompt, indices[id]) for id in indices]
        drawn = self.backend.sample(requests, self.settings)
        return {"drawn": [json.dumps(sample.to_json()) for part in drawn for sample in part]}


class Scorer:
    """An actor that holds a verifier of one worker: as many actors as there are cores for it."""

    def __init__(self, file):
        self.problems = {problem.id: problem for problem in load_problems(file)}
        self.verifier = Verifier(workers=1)

    def __call__(self, batch):
        samples = [Sample.from_json(json.loads(line)) for line in batch["drawn"]]
        problems = [self.problems[sample.problem_id] for sample in samples]
        programs = [
            self.verifier.program_of(sample.completion, problem.entry_point)
            for sample, problem in zip(samples, problems, strict=True)
        ]
        jobs = [problem_job(*both) for both in zip(programs, problems, strict=True)]
        scores = []
        for sample, program, verdict in zip(
            samples, programs, self.verifier.verify_many(jobs), strict=True
        ):
            counts = (verdict.reward, verdict.passed, verdict.total, verdict.outcome)
            key = (sample.problem_id, sample.sample)
            score = Score(*key, *counts, round(verdict.seconds, 6), program_key(program))
            scores.append(json.dumps(score.to_json()))
        return {**batch, "score": scores}


def evaluate(model, file, out, *, samples, seed=0, samplers=1, scorers=2, max_new_tokens=256):
    """Draw and score what the folder lacks, and return the results."""
    settings = SamplingSettings(samples=samples, seed=seed, max_new_tokens=max_new_tokens)
    with Store(out / SAMPLES, Sample) as drawn, Store(out / SCORES, Score) as scored:
        lacking = [
            {"problem_id": problem.id, "sample": sample}
            for problem in load_problems(file)
            for sample in range(samples)
            if (problem.id, sample) not in scored.records
        ]
        if lacking:
            rows = ray.data.from_items(lacking, override_num_blocks=1 + len(lacking) // 64)
            model_of = {"fn_constructor_args": (model, file, settings)}
            rows = rows.map_batches(Sampler, batch_size=32, concurrency=samplers, **model_of)
            problems_of = {"fn_constructor_args": (file,)}
            rows = rows.map_batches(Scorer, batch_size=32, concurrency=scorers, **problems_of)
            for row in rows.iter_rows():
                sample = Sample.from_json(json.loads(row["drawn"]))
                if (sample.problem_id, sample.sample) not in drawn.records:
                    drawn.append([sample])  # a driver that died before the score has it already
                scored.append([Score.from_json(json.loads(row["score"]))])
    results = results_of_folder(out)
    write_json(out / RESULTS, results.to_json())
    return results


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
