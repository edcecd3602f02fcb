"""Every command that prints a table also prints it as JSON, alone on standard output."""

import json
from typing import get_args

import pytest

from maxatk.cli.main import main
from maxatk.cli.output import OutputFormat
from maxatk.evaluation import results_of_folder
from maxatk.jsonl import write_jsonl
from maxatk.objectives import METHODS
from maxatk.problems import BENCHMARKS
from maxatk.records import Problem, Sample, TestCase
from maxatk.settings import packaged_recipes
from problems.rows import mbpp_row
from sampling.servers import serving

ONE = (TestCase(input="", output="1\n"),)


@pytest.fixture
def printed(capsys, tmp_path, monkeypatch):
    """Return a function that runs a command and gives its standard output, read as strict JSON."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, format="--format"):
        assert main([*map(str, arguments), format, "json"]) == 0
        text = capsys.readouterr().out
        assert text.isascii()
        return json.loads(text, parse_constant=pytest.fail)

    return run


@pytest.fixture
def problems(tmp_path):
    levels = ("easy", "hard")
    rows = [Problem(f"p{i}", "x", ONE, meta={"level": levels[i % 2]}) for i in range(4)]
    write_jsonl(tmp_path / "p.jsonl", [problem.to_json() for problem in rows])
    programs = ["print(1)", "print(2)"]
    samples = [Sample(row.id, s, text) for row in rows for s, text in enumerate(programs)]
    write_jsonl(tmp_path / "s.jsonl", [sample.to_json() for sample in samples])


def test_lists_have_a_row_for_everything_there_is(printed):
    methods = printed("methods")["methods"]
    assert [row["method"] for row in methods] == list(METHODS)
    assert methods[0].keys() == {"method", "unbiased_for", "advantage", "source"}
    assert [row["recipe"] for row in printed("recipes", "list")["recipes"]] == [*packaged_recipes()]
    benchmarks = printed("problems", "list")["benchmarks"]
    assert [row["benchmark"] for row in benchmarks] == list(BENCHMARKS)
    assert benchmarks[0]["default_split"] in benchmarks[0]["splits"]
    layers = {row["name"]: row for row in printed("doctor")["layers"]}
    assert layers["seccomp"]["holds"] is True
    assert layers["seccomp"]["required"] is True


def reported(printed):
    tables = printed("report", "a=run", "b=run", "--out", "page.html", "--by", "level")
    assert {row["model"] for row in tables["metrics"]} == {"a", "b"}
    strict = printed("report", "a=run", "--out", "page.html", "--threshold", 2)["metrics"]
    assert {row["mean"] for row in strict if row["metric"] == "pass@k"} == {0.0}
    return tables


def test_scores_are_rows_with_the_ends_of_their_intervals(printed, problems):
    files = ("--problems", "p.jsonl", "--samples", "s.jsonl", "--out", "run")
    flags = ("--verifier.workers", 1, "--by", "level", "--k", 2)
    planned = printed("score", *files, *flags, "--dry-run", format="--output-format")
    assert planned == {
        "plan": [{"problems": 4, "samples": 8, "found": 0, "distinct": 8, "tests": 8}]
    }
    tables = printed("score", *files, *flags, format="--output-format")
    rows = {(row["metric"], row["k"]): row for row in tables["metrics"]}
    assert rows.keys() == {("max@k", 2), ("pass@k", 2)}
    best = {"model": "run", "metric": "max@k", "k": 2, "mean": 1.0, "low": None, "high": None}
    assert rows["max@k", 2] == {**best, "problems": 4, "unscored": 0, "zeroed": 0}
    assert [(row["value"], row["k"], row["problems"]) for row in tables["by"]] == [
        *(("easy", 2, 2), ("easy", 2, 2), ("hard", 2, 2), ("hard", 2, 2))
    ]
    counts = {"model": "run", "problems": 4, "samples": 8, "cut_off": None, "reasons": ""}
    counts |= {"unscored": 0, "zeroed": 0}
    assert tables["samples"] == [counts]
    outcomes = {row["outcome"]: row["samples"] for row in tables["outcomes"]}
    assert outcomes == {"passed": 4, "wrong_answer": 4}
    selected = printed("select", "run", "--by", "majority", "--k", 1)["selection"]
    left_out = {"problems_left_out", "samples_left_out"}
    assert selected[0].keys() == {"by", "k", "mean", "low", "high", "problems", *left_out}
    compared = printed("compare", "a=run", "b=run", "--k", 1)
    assert compared.keys() == {"verdict", "scores", "leaders", "differences"}
    (by_level,) = {row["field"] for row in reported(printed)["by"]}
    assert by_level == "level"
    every_k = printed("score", *files, "--verifier.workers", 1, format="--output-format")
    assert sorted({row["k"] for row in every_k["metrics"]}) == [1, 2]


def test_stored_scores_that_choose_are_rows_too(printed, tmp_path):
    lines = ["problem_id,reward,judge", "p,1,0.9", "p,0,0.1", "q,0,0.5", "q,1,0.2"]
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n")
    scored = printed("score", "--rewards", "r.csv", "--out", "run", format="--output-format")
    reported = printed("report", "run", "--out", "page.html")
    for tables in (scored, reported):
        means = {(row["metric"], row["k"]): row["mean"] for row in tables["metrics"]}
        assert means["max@k by judge", 2] == 0.5
        assert means["max@k", 2] == 1.0
    frame = results_of_folder(tmp_path / "run").to_frame()
    chosen = frame[(frame.metric == "max@k by judge") & (frame.k == 2)]
    assert dict(zip(chosen.problem, chosen.value, strict=True)) == {"p": 1.0, "q": 0.0}


def test_an_evaluation_is_rows_and_its_progress_is_elsewhere(printed, problems):
    with serving() as server:
        address = ("--backend", "openai", "--server.url", server.url, "--verifier.workers", 1)
        files = ("--model", "m", "--problems", "p.jsonl", "--out", "run", "--samples", 2)
        planned = printed("eval", *files, *address, "--dry-run")["plan"]
        tables = printed("eval", *files, *address)
    assert [(row["problems"], row["samples"]) for row in planned] == [(4, 8)]
    assert {(row["model"], row["metric"], row["k"]) for row in tables["metrics"]} == {
        ("run", metric, k) for metric in ("max@k", "pass@k") for k in (1, 2)
    }
    assert tables["samples"][0]["cut_off"] == 0.0


def test_what_problems_does_is_rows(printed, tmp_path):
    wrong = mbpp_row(2, code="def add_all(xs, n):\n    raise ValueError('no')")
    odd = mbpp_row(3, tests=["assert f(x) == 1"])
    rows = "\n".join(json.dumps(row) for row in (mbpp_row(1), wrong, odd))
    (tmp_path / "rows.jsonl").write_text(rows)
    made = printed("problems", "prepare", "mbpp", "--file", "rows.jsonl", "--out", "made.jsonl")
    assert [(row["set"], row["rows"], row["kept"]) for row in made["sets"]] == [("mbpp", 3, 2)]
    assert [row["rows"] for row in made["left_out"]] == [1]
    assert {"made.jsonl", "made.solutions.jsonl"} <= {row["file"] for row in made["files"]}
    shown = printed("problems", "show", "made.jsonl", "mbpp/1")["problem"][0]
    assert shown["id"] == "mbpp/1"
    assert "def add_all" in shown["solution"]
    checked = printed("problems", "check", "made.jsonl")
    assert [(row["passed"], row["failed"]) for row in checked["checked"]] == [(1, 1)]
    assert [(r["problem_id"], r["outcome"]) for r in checked["failures"]] == [
        ("mbpp/2", "runtime_error")
    ]


@pytest.mark.parametrize("flag", ["--format", "--output-format"])
def test_two_kinds_of_json_on_one_output_are_refused(flag, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = {
        "--format": ["eval", "--model", "m", "--problems", "p"],
        "--output-format": ["score", "--samples", "s", "--problems", "p"],
    }[flag]
    assert main([*command, "--out", "o", "--progress", "json", flag, "json"]) == 2
    assert "--progress: json and the table as JSON" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", get_args(get_args(OutputFormat)[0]))
def test_the_format_of_a_file_is_not_the_form_of_the_tables(capsys, form):
    assert main(["score", "--samples", "s", "--out", "o", "--format", form]) == 2
    assert f"--output-format {form} prints the results so" in capsys.readouterr().err
