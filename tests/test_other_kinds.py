"""What packages export refuses arguments of another kind by field, value and what is allowed."""

import dataclasses
import re

import pandas as pd
import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation import (
    EvalRecipe,
    ModelSettings,
    ScoreRecipe,
    evaluate,
    frame,
    merge,
    plan,
    read_submissions,
    results_of_folder,
    score,
    solve,
)
from maxatk.exchange import parse_mapping, read_log
from maxatk.problems import (
    PrepareSettings,
    load_benchmark,
    prepare,
    problems_by_id,
    refuse_foreign_outputs,
    solutions_file,
)
from maxatk.records import Problem
from maxatk.report import (
    CompareOptions,
    Reading,
    Table,
    compare,
    figure1,
    format_table,
    load_comparison,
    outcomes_table,
    overview_table,
    plot,
    write_report,
)
from maxatk.sampling import load_backend

PROBLEM = Problem("p", "Say 1.", answer="1")
DATA = pd.DataFrame({"problem_id": ["a", "a"], "reward": [0.0, 1.0]})
RUNS = {"base": frame(DATA), "other": frame(DATA)}
EVAL = EvalRecipe(model="m", problems=[PROBLEM], out="run")
SCORE = ScoreRecipe(samples="samples.jsonl", problems=[PROBLEM], out="run")

OTHERS = (5, None, [1])
A_PATH = "a path"
A_MAPPING_OF_RUNS = "a mapping of names to runs"
KS = "a list of integers"

# Field, what is allowed, and the call, which takes none of `OTHERS` for its argument.
CALLS = (
    ("model", "a folder or a name", lambda value: solve(value, "x")),
    ("problem", "a Problem or a text", lambda value: solve("m", value)),
    ("run", A_PATH, merge),
    ("data", "a data frame of pandas", frame),
    ("recipe", "an EvalRecipe", evaluate),
    ("recipe", "a ScoreRecipe", score),
    ("recipe", "an EvalRecipe or a ScoreRecipe", plan),
    ("model", "a folder or a name", lambda value: plan(dataclasses.replace(EVAL, model=value))),
    ("sampling", "SamplingSettings", lambda value: dataclasses.replace(EVAL, sampling=value)),
    ("out", A_PATH, lambda value: plan(dataclasses.replace(EVAL, out=value))),
    ("verifier", "VerifierSettings", lambda value: dataclasses.replace(EVAL, verifier=value)),
    ("samples", A_PATH, lambda value: dataclasses.replace(SCORE, samples=value)),
    ("path", A_PATH, lambda value: read_submissions(value, {"p": PROBLEM})),
    ("problems", "a mapping of ids to problems", lambda value: read_submissions("x", value)),
    ("folder", A_PATH, results_of_folder),
    ("path", A_PATH, read_log),
    ("problems", A_PATH, solutions_file),
    ("settings", "PrepareSettings", lambda value: prepare(value, "x.jsonl")),
    ("settings", "PrepareSettings", lambda value: refuse_foreign_outputs(value, "x.jsonl")),
    ("out", A_PATH, lambda value: prepare(PrepareSettings("mbpp"), value)),
    ("results", A_MAPPING_OF_RUNS, compare),
    ("results", A_MAPPING_OF_RUNS, load_comparison),
    ("results", A_MAPPING_OF_RUNS, overview_table),
    ("results", A_MAPPING_OF_RUNS, lambda value: figure1(value, "x.svg")),
    ("results", A_MAPPING_OF_RUNS, lambda value: write_report(value, "x.html")),
    ("options", "CompareOptions", lambda value: compare(RUNS, value)),
    ("reading", "a Reading", lambda value: load_comparison(RUNS, value)),
    ("results", "Results", outcomes_table),
    ("table", "a Table", lambda value: format_table(value, "md")),
    ("caption", "text", lambda value: format_table(Table(("a",), ()), "md", caption=value)),
    ("path", A_PATH, lambda value: figure1(RUNS, value)),
    ("out", A_PATH, lambda value: write_report(RUNS, value)),
    ("settings", "ModelSettings", lambda value: load_backend("m", value)),
    ("server", "ServerSettings", lambda value: ModelSettings(server=value)),
    ("prompt", "PromptSettings", lambda value: ModelSettings(prompt=value)),
)


@pytest.mark.parametrize("value", OTHERS, ids=repr)
@pytest.mark.parametrize(("field", "allowed", "call"), CALLS)
def test_an_argument_of_another_kind_is_refused_by_name(field, allowed, call, value):
    message = re.escape(f"{field}: must be {allowed}, got {value!r}")
    with pytest.raises(InvalidValueError, match=f"^{message}$"):
        call(value)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("run: must be a path, got ''", lambda: merge("")),  # not the current folder
        (
            "model: must be a folder or a name, got ''",
            lambda: plan(dataclasses.replace(EVAL, model="")),
        ),
        ("out: must be a path, got ''", lambda: plan(dataclasses.replace(EVAL, out=""))),
        ("settings: must be SamplingSettings, got 5", lambda: solve("m", "x", settings=5)),
        ("settings: must be ModelSettings, got 5", lambda: solve("m", "x", model_settings=5)),
        ("verifier: must be a Verifier that is open", lambda: solve("m", "x", verifier=5)),
        ("progress: must be a function, or None, got 5", lambda: solve("m", "x", progress=5)),
        ("backend: must be a Backend that is open, got 5", lambda: evaluate(EVAL, backend=5)),
        ("verifier: must be a Verifier that is open", lambda: evaluate(EVAL, verifier=5)),
        ("progress: must be a function, or None, got 5", lambda: score(SCORE, progress=5)),
        ("progress: must be a function, or None, got 5", lambda: merge("x", progress=5)),
        ("k: must be a list of integers, got 5", lambda: frame(DATA, more_ks=5)),
        ("k: must be a list of integers, got 5", lambda: dataclasses.replace(EVAL, k=5)),
        ("k: must be a list of integers, got 5", lambda: Reading(k=5)),
        ("k: must be a list of integers, got '12'", lambda: overview_table(RUNS, ks="12")),
        ("metric: must be a list of metrics, got 'max@k'", lambda: CompareOptions(metric="max@k")),
        ("metrics: unknown value 1", lambda: overview_table(RUNS, metrics=[1])),
        (r"reward: unknown value \[1\]", lambda: frame(DATA, reward=[1])),
        ("column: must be the name of a column, got 5", lambda: CompareOptions(column=5)),
        (r"format: unknown value \[1\]", lambda: read_log("x.jsonl", log_format=[1])),
        ("map: must be a mapping of fields to paths", lambda: read_log("x.jsonl", mapping=[1])),
        (
            "map.reward: must be text, got 5",
            lambda: read_log("x.csv", log_format="table", mapping={"reward": 5}),
        ),
        ("map: must be a list of texts such as", lambda: parse_mapping("reward=x")),
        ("map: must be texts such as .*, got 1", lambda: parse_mapping([1])),
        (r"benchmark: unknown value \[1\]", lambda: load_benchmark([1])),
        (r"split: unknown value \[1\]", lambda: PrepareSettings("mbpp", split=[1])),
        ("x: must be a list of problems, got 5", lambda: problems_by_id(5, source="x")),
        ("x: must be a list of Problem, got 1", lambda: problems_by_id([1], source="x")),
        (r"format: unknown value \[1\]", lambda: format_table(Table(("a",), ()), [1])),
        ("results: must be a mapping of names to runs, got 5", lambda: plot(5)),
        (
            "curves: must be mappings with name and log_history, got 1",
            lambda: write_report(RUNS, "x.html", curves=[1]),
        ),
        ("remarks: must be a list of texts", lambda: write_report(RUNS, "x.html", remarks="no")),
    ],
)
def test_other_arguments_are_refused_too(message, call):
    with pytest.raises(InvalidValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("backend", [5, None, "x", "", ["hf"]])
def test_an_unknown_backend_is_refused_when_the_settings_are_made(backend):
    with pytest.raises(InvalidValueError, match=r"^backend: unknown value .*; allowed: auto, hf"):
        ModelSettings(backend=backend)
