"""One damaged value anywhere in a folder of a run: a named error or the same results, no other."""

import json
import random
import shutil

import pytest

from maxatk.errors import MaxAtKError
from maxatk.evaluation import results_of_folder
from maxatk.evaluation.load import load_results
from maxatk.evaluation.problem_groups import results_by
from maxatk.evaluation.problem_selection import select_problems
from maxatk.evaluation.selection_gains import selection_gains
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from runs import scored, write_records

BAD = [
    None, True, -1, 0.5, 1e999, -1e999, float("nan"), 10**400, "", "text", "\ud800", [], {},
    [[]], {"x": None}, [1, "a"], "1", "9" * 5000,
]  # fmt: skip
FILES = ("results.json", "manifest.json", "scores.jsonl", "failures.jsonl", "samples.jsonl")
CASES = 60  # of each file
USES = (
    lambda folder: load_results(folder, ks=[3]),
    results_of_folder,
    lambda folder: results_by(load_results(folder), "level"),
    lambda folder: selection_gains(folder, ["likelihood", "majority"]),
    select_problems,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory, verifier):
    folder = tmp_path_factory.mktemp("damaged")
    tests = (TestCase(input="", output="1\n"),)
    problems = [Problem(p, "x", tests, meta={"level": p}).to_json() for p in "ab"]
    write_jsonl(folder / "p.jsonl", problems)
    texts = ("print(1)", "print(2)", "print(3)")
    samples = [Sample(p, i, text) for p in "ab" for i, text in enumerate(texts)]
    write_records(folder / "s.jsonl", samples)
    scored(folder / "s.jsonl", folder / "p.jsonl", folder / "run", verifier=verifier)
    extra = {"tokens": 3, "logprob": -1.0, "entropy": 0.5, "finish_reason": "stop"}
    write_jsonl(folder / "run/samples.jsonl", [{**s.to_json(), **extra} for s in samples])
    return folder


def places(value, path=()):
    """Every place in a JSON value, that of the value itself included."""
    yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from places(value[key], (*path, key))


def damaged(value, draw):
    """The JSON value with one of its values replaced or left out."""
    *path, last = draw.choice([path for path in places(value) if path])
    holder = value
    for key in path:
        holder = holder[key]
    if draw.random() < 0.2:
        del holder[last]
    else:
        holder[last] = draw.choice(BAD)
    return value


def damage(file, draw):
    lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    place = draw.randrange(len(lines))
    lines[place] = json.dumps(damaged(json.loads(lines[place]), draw))
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_value_is_a_named_error_or_does_no_harm(run, verifier, tmp_path, name):
    draw = random.Random(name)
    refused = 0
    for case in range(CASES):
        folder = tmp_path / str(case)
        shutil.copytree(run / "run", folder)
        damage(folder / name, draw)
        for use in USES:
            try:
                use(folder)
            except MaxAtKError:
                refused += 1
        try:
            scored(run / "s.jsonl", run / "p.jsonl", folder, verifier=verifier)
        except MaxAtKError:
            refused += 1
        shutil.rmtree(folder)
    assert refused or name == "failures.jsonl"
