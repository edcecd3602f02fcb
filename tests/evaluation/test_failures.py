"""Why samples failed, beside the scores: bounded, the same after any kill, shown by the page."""

import json

import pytest

from maxatk.errors import DataError
from maxatk.evaluation.failures import FailedTest, FailureStore, failure_of
from maxatk.jsonl import read_jsonl, write_jsonl
from maxatk.records import Outcome, Problem, TestCase, TestResult, Verdict
from maxatk.report import load_comparison
from maxatk.report.problem_details import problem_details
from maxatk.verifier import Verifier
from runs import evaluated, scored, write_samples

TESTS = (TestCase(input="2\n", output="4\n"), TestCase(input="3\n", output="6\n"))
PROGRAMS = [
    "print(2 * int(input()))",
    "print(4)",
    "1 / 0",
    "print(2 * int(input()))  # again",
    "def",
    "print(5)",
]
PROBLEMS = [Problem("p", "Double it.", TESTS), Problem("q", "And this.", TESTS)]


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1, time_limit=2.0) as opened:
        yield opened


@pytest.fixture
def run(tmp_path, verifier):
    """Return a function: score the programs of both problems into a folder, and return it."""
    samples = write_samples(tmp_path / "s.jsonl", {problem.id: PROGRAMS for problem in PROBLEMS})

    def score_into(name="out", **options):
        scored(samples, PROBLEMS, tmp_path / name, verifier=verifier, **options)
        return tmp_path / name

    return score_into


def with_one_failure(folder):
    """Keep only the first stored failure of every problem of a run."""
    failures = read_jsonl(folder / "failures.jsonl", FailedTest.from_json)
    of_sample_1 = [failure.to_json() for failure in failures if failure.sample == 1]
    write_jsonl(folder / "failures.jsonl", of_sample_1)
    return folder


def test_the_first_failed_test_of_the_first_failing_samples_is_stored(run):
    failures = list(read_jsonl(run() / "failures.jsonl", FailedTest.from_json))
    assert [(failure.problem_id, failure.sample) for failure in failures] == [
        (p, s) for p in "pq" for s in (1, 2, 4)
    ]
    wrong, error, syntax, *_ = failures
    assert (wrong.test, wrong.outcome) == (1, "wrong answer")
    assert (wrong.input, wrong.expected, wrong.got) == ("3\n", "6\n", "4\n")
    assert (error.test, error.outcome, error.got) == (0, "runtime error", "")
    assert error.error.endswith("ZeroDivisionError: division by zero")
    assert syntax.outcome == "compile error"
    assert "SyntaxError" in syntax.error


@pytest.mark.parametrize("kept", [0, 1, 2, 5, 7])
@pytest.mark.parametrize("ahead", [0, 1])
def test_a_killed_run_ends_with_the_file_of_an_uninterrupted_one(run, kept, ahead):
    whole = (run("whole") / "failures.jsonl").read_text()
    folder = run()
    (folder / "results.json").unlink()
    scores = (folder / "scores.jsonl").read_text().splitlines(keepends=True)
    (folder / "scores.jsonl").write_text("".join(scores[:kept]))
    known = [(row["problem_id"], row["sample"]) for row in map(json.loads, scores[: kept + ahead])]
    lines = [line for line in whole.splitlines(keepends=True)
             if (json.loads(line)["problem_id"], json.loads(line)["sample"]) in known]  # fmt: skip
    (folder / "failures.jsonl").write_text("".join(lines) + '{"problem_id": "q", "sam')
    assert (run() / "failures.jsonl").read_text() == whole


def test_samples_that_are_scored_again_lose_the_failures_of_the_first_time(tmp_path, verifier):
    samples = write_samples(tmp_path / "s.jsonl", {"p": PROGRAMS})
    wrong_test = Problem("p", "Double it.", (TestCase(input="2\n", output="5\n"),))
    scored(samples, [wrong_test], tmp_path / "run", verifier=verifier)
    (tmp_path / "run" / "scores.jsonl").unlink()
    for folder in ("run", "fresh"):
        scored(samples, PROBLEMS[:1], tmp_path / folder, verifier=verifier)
    failures = [(tmp_path / folder / "failures.jsonl").read_text() for folder in ("run", "fresh")]
    assert failures[0] == failures[1]


def test_every_text_of_a_failure_is_bounded():
    long = TestCase(input="a" * 10**6, output="b" * 10**6)
    result = TestResult(Outcome.WRONG_ANSWER, stderr="c" * 4000, got="d" * 200 + "…")
    problem = Problem("p", "", (long,))
    tests = problem.tests
    failure = failure_of(Verdict((result,)), tests.__getitem__, problem_id="p", sample=0)
    assert failure is not None
    assert len(json.dumps(failure.to_json())) < 1200


def test_a_sample_that_passed_or_could_not_be_verified_has_no_failure(tmp_path):
    for outcome in (Outcome.PASSED, Outcome.INFRA_ERROR):
        verdict = Verdict((TestResult(outcome),) * 2)
        tests = PROBLEMS[0].tests
        assert failure_of(verdict, tests.__getitem__, problem_id="p", sample=0) is None
    with FailureStore(tmp_path / "f.jsonl") as store:
        store.add([None])
    assert (tmp_path / "f.jsonl").read_text() == ""


def test_a_line_that_is_no_failure_is_an_error_with_its_place(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text('{"problem_id": "p", "sample": 1}\n')
    with pytest.raises(DataError, match=r"f\.jsonl:1: failure: .*'test'"):
        FailureStore(path)


def test_the_page_prefers_samples_whose_failure_is_stored_and_knows_the_prompts(run):
    first, second = problem_details(load_comparison({"run": with_one_failure(run())}), samples=3)
    assert (first.prompt, second.prompt) == ("Double it.", "And this.")
    shown = {sample.index: sample for sample in first.runs[0].samples}
    assert shown[1].failure.got == "4\n"
    assert shown[1].text == "print(4)"
    assert all(sample.failure is None for index, sample in shown.items() if index != 1)


def test_a_problem_with_stored_failures_shows_one_whatever_its_reward(run):
    folder = with_one_failure(run())
    lines = (folder / "scores.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:  # the sample with a stored failure is neither the best nor the worst
        row["reward"] = {0: 1.0, 1: 0.75}.get(row["sample"], 0.0)
    write_jsonl(folder / "scores.jsonl", rows)
    (first, _) = problem_details(load_comparison({"run": folder}), samples=2)
    shown = first.runs[0].samples
    assert [sample.index for sample in shown] == [0, 1]
    assert shown[1].failure is not None


def test_a_training_beside_the_model_is_in_the_manifest(tiny_model, tmp_path, verifier):
    import shutil

    from maxatk.sampling import SamplingSettings

    model = shutil.copytree(tiny_model, tmp_path / "model")
    recipe = {"trainer": {"method": "grpo", "k": 8}, "prompt": {}}
    (model / "train.json").write_text(json.dumps({"recipe": recipe}))
    settings = SamplingSettings(samples=2, max_new_tokens=2)
    results = evaluated(model, PROBLEMS, tmp_path / "run", settings=settings, verifier=verifier)
    assert results.manifest["training"] == recipe
    assert (tmp_path / "run" / "prompts.jsonl").read_text().count("\n") == 2
