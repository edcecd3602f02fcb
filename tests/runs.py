"""Runs of toys: evaluations and scorings by keyword, and folders as they leave them."""

import dataclasses
import json

from maxatk.evaluation import EvalRecipe, ScoreRecipe, evaluate, score
from maxatk.evaluation.build_results import build_results
from maxatk.jsonl import write_jsonl
from maxatk.records import Sample
from maxatk.sampling import ModelSettings, SamplingSettings


def evaluated(
    *run, settings=None, model_settings=None, verifier=None, backend=None, progress=None, **keys
):
    """Evaluate a model on problems in a folder; further keys are those of the recipe."""
    running = model_settings or ModelSettings()
    fields = {field.name: getattr(running, field.name) for field in dataclasses.fields(running)}
    places = dict(zip(("model", "problems", "out"), run, strict=True))
    sampling = settings or SamplingSettings()
    recipe = {**fields, **places, "model": str(run[0]), "sampling": sampling, **keys}
    return evaluate(EvalRecipe(**recipe), backend=backend, verifier=verifier, progress=progress)


def scored(samples, problems, out, *, verifier=None, verifier_settings=None, progress=None, **keys):
    """Score a file of samples in a folder; further keys are those of the recipe."""
    if verifier_settings is not None:
        keys["verifier"] = verifier_settings
    recipe = ScoreRecipe(samples=samples, problems=problems, out=out, **keys)
    return score(recipe, verifier=verifier, progress=progress)


def write_records(path, records):
    """Write problems, samples or scores, a line each, and return the path."""
    write_jsonl(path, (record.to_json() for record in records))
    return path


def write_samples(path, texts):
    """Write the completions of every problem, as samples, and return the path."""
    return write_records(
        path,
        (
            Sample(p, i, text)
            for p, completions in texts.items()
            for i, text in enumerate(completions)
        ),
    )


def rows_of(path):
    """Return the JSON objects of a file's lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_run(folder, scores, samples=None, **manifest):
    """Write the folder of a run with these scores and samples, and return its results."""
    ids = list(dict.fromkeys(score.problem_id for score in scores))
    results = build_results(ids, samples, scores, manifest=manifest)
    write_records(folder / "scores.jsonl", scores)
    if samples is not None:
        write_records(folder / "samples.jsonl", samples)
    (folder / "results.json").write_text(json.dumps(results.to_json()))
    return results
