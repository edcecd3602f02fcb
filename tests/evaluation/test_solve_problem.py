"""The best of n samples: by the tests, by another score, and what choosing gains in a run."""

import dataclasses
import json
import threading
import time
from collections import Counter

import pytest

import maxatk
from maxatk.errors import (
    DataError,
    InvalidValueError,
    ServerError,
)
from maxatk.evaluation import solve
from maxatk.evaluation.submissions import program_key
from maxatk.records import Outcome, Problem, TestCase, TestResult, Verdict
from maxatk.sampling import ModelSettings, SamplingSettings, ServerSettings
from maxatk.verifier import Verifier, extract_code
from processes import patience
from runs import evaluated, rows_of
from sampling.servers import serving

SETTINGS = SamplingSettings(max_new_tokens=4)
OTHERS = SamplingSettings(max_new_tokens=4, seed=3)
SOLVABLE = Problem(
    "p0", "print(1)\n", (TestCase(input="", output="1\n"), TestCase(input="", output="1"))
)
HARD = Problem(
    "p0", "print(1)\n", (TestCase(input="", output="1\n"), TestCase(input="", output="no\n"))
)
VISIBLE = (TestCase(input="", output="1\n"), TestCase(input="x", output="2\n"))
PROBLEM = Problem(
    "p", "print(1)\n", (TestCase(input="", output="3\n"),), visible_tests=VISIBLE, answer="3"
)


def test_it_finds_what_an_evaluation_of_the_same_samples_finds(tiny_model, verifier, tmp_path):
    arguments = {
        "settings": SETTINGS,
        "model_settings": ModelSettings(batch_size=1),
        "verifier": verifier,
    }
    choice = maxatk.solve(tiny_model, SOLVABLE, n=64, **arguments)
    settings = dataclasses.replace(SETTINGS, samples=64)
    evaluated(tiny_model, [SOLVABLE], tmp_path, **{**arguments, "settings": settings})
    scores = rows_of(tmp_path / "scores.jsonl")
    drawn = len(choice.rewards)
    assert list(choice.rewards) == [score["reward"] for score in scores[:drawn]]
    assert choice.outcomes == Counter(score["outcome"] for score in scores[:drawn])
    first = [score["reward"] for score in scores].index(1.0)
    assert first < drawn < 64  # it stops after a program that passes
    assert (choice.sample, choice.reward, choice.passed, choice.total) == (first, 1.0, 2, 2)
    assert choice.solved
    assert choice.completion == rows_of(tmp_path / "samples.jsonl")[first]["completion"]
    assert verifier.verify(choice.program, SOLVABLE.tests).reward == 1.0


def test_an_unsolved_problem_gives_the_best_there_is(tiny_model, verifier):
    reports = []
    choice = solve(
        *(tiny_model, HARD),
        **{"n": 12, "settings": SETTINGS, "verifier": verifier},
        progress=lambda *report: reports.append(report),
    )
    assert (choice.reward, choice.passed, choice.solved) == (0.5, 1, False)
    assert choice.rewards.index(0.5) == choice.sample
    assert reports == sorted(reports)
    assert reports[-1] == (12, 12)


class Lost(Verifier):
    """A verifier that loses every second program to its own failure."""

    seen = 0

    def verify_stream(self, items, **settings):
        first = self.seen
        self.seen += len(items)  # the count goes on over batches of any length
        lost = Verdict((TestResult(Outcome.INFRA_ERROR),))
        for index, verdict in super().verify_stream(items, **settings):
            yield index, lost if (first + index) % 2 == 0 else verdict


def test_programs_that_could_not_be_verified_are_no_zeros(tiny_model):
    with Lost(workers=1) as lost:
        arguments = {"settings": SETTINGS, "verifier": lost}
        some = solve(tiny_model, HARD, n=24, **arguments)
        none = solve(tiny_model, SOLVABLE, n=1, **arguments)
    assert some.rewards[::2] == (None,) * 12
    assert some.sample % 2 == 1
    assert (none.program, none.reward, none.solved, none.rewards) == (None, None, False, (None,))
    assert none.outcomes == {"infra_error": 1}


def test_a_server_that_fails_ends_it_and_leaves_no_thread(verifier):
    before = threading.active_count()
    with serving([400]) as server:
        model_settings = ModelSettings(
            "openai", server=ServerSettings(url=server.url, concurrency=1)
        )
        with pytest.raises(ServerError):
            solve("m", SOLVABLE, n=8, model_settings=model_settings, verifier=verifier)
    until = time.monotonic() + patience(10)  # the server's thread of a connection ends by itself
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_wrong_number_is_refused(tiny_model, n):
    with pytest.raises(InvalidValueError, match="n: must be an integer of 1 or more"):
        solve(tiny_model, SOLVABLE, n=n)


@pytest.fixture(scope="module")
def drawn(tiny_model, verifier, tmp_path_factory):
    """The samples and scores of an evaluation with the same settings."""
    out = tmp_path_factory.mktemp("run")
    settings = dataclasses.replace(OTHERS, samples=8)
    evaluated(tiny_model, [PROBLEM], out, settings=settings, verifier=verifier)
    return rows_of(out / "samples.jsonl"), rows_of(out / "scores.jsonl")


def chosen(tiny_model, verifier, by, problem=PROBLEM):
    return solve(tiny_model, problem, by=by, n=8, settings=OTHERS, verifier=verifier)


def test_an_evaluation_stores_the_share_of_visible_tests(drawn):
    samples, scores = drawn
    for sample, row in zip(samples, scores, strict=True):
        printed = sample["completion"]
        if printed == "print(1)":
            assert row["columns"] == {"visible_tests": 0.5}
    assert all(row["columns"]["visible_tests"] in (0.0, 0.5) for row in scores)
    assert all(row["total"] == 1 for row in scores)


def test_the_likeliest_sample_and_that_of_most_visible_tests(tiny_model, verifier, drawn):
    samples, scores = drawn
    choice = chosen(tiny_model, verifier, "likelihood")
    assert choice.rewards == pytest.approx([sample["logprob"] for sample in samples])
    assert choice.reward == max(choice.rewards)
    assert choice.completion == samples[choice.sample]["completion"]
    visible = [row["columns"]["visible_tests"] for row in scores]
    choice = chosen(tiny_model, verifier, "visible-tests")
    assert list(choice.rewards) == visible
    assert choice.sample == visible.index(max(visible))


def test_the_program_that_most_samples_write(tiny_model, verifier, drawn):
    programs = [extract_code(sample["completion"]) for sample in drawn[0]]
    keys = [program_key(program) if program.strip() else None for program in programs]
    counts = Counter(key for key in keys if key is not None)
    choice = chosen(tiny_model, verifier, "majority")
    assert list(choice.rewards) == [counts.get(key) for key in keys]
    assert counts[keys[choice.sample]] == max(counts.values())


@pytest.mark.parametrize("by", ["oracle", "answer", "own.py:function"])
def test_the_oracle_does_not_choose(tiny_model, verifier, by):
    with pytest.raises(
        InvalidValueError, match=rf"select: unknown value '{by}'; allowed: likelihood"
    ):
        chosen(tiny_model, verifier, by)


def test_the_nearest_way_of_choosing_is_named(tiny_model, verifier):
    with pytest.raises(InvalidValueError, match="did you mean 'likelihood'"):
        chosen(tiny_model, verifier, "likelyhood")


def test_a_problem_without_visible_tests_is_refused(tiny_model, verifier):
    with pytest.raises(InvalidValueError, match="'p' has no visible_tests"):
        chosen(tiny_model, verifier, "visible-tests", Problem("p", "x"))


def test_the_command_solves_a_problem_without_tests(maxatk, tiny_model, tmp_path):
    (tmp_path / "prompt.txt").write_text("print(1)\n")
    done = maxatk(
        *("solve", "--model", tiny_model, "--prompt", "prompt.txt", "--select", "likelihood"),
        *("-n", 4, "--max-new-tokens", 4, "--verifier.workers", 1),
        *("--format", "json", "--progress", "none"),
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rewards"]) == 4


def test_a_text_is_a_problem_whose_majority_is_chosen(tiny_model):
    choice = solve(tiny_model, "print(1)", n=6, settings=SamplingSettings(max_new_tokens=4))
    assert (choice.problem_id, choice.by, len(choice.rewards)) == ("prompt", "majority", 6)
    assert choice.reward == max(votes for votes in choice.rewards if votes is not None)
    with pytest.raises(
        InvalidValueError, match="has no tests, which the reward of a program needs"
    ):
        solve(tiny_model, "print(1)", n=6, by="reward")


@pytest.mark.parametrize(
    ("problem", "answer"), [("What is 2 + 2?", "It is 4."), (PROBLEM, "```python\nprint(3)\n```")]
)
def test_completions_without_an_answer_have_no_vote(verifier, problem, answer):
    texts = ["<think>\nSo 5", "<think>\nThen 5", "<think>\nHence 5", "", "", "", answer]
    replies = [{"choices": [{"message": {"content": text}}]} for text in texts]
    with serving(replies) as server:
        address = ServerSettings(url=server.url, chat=True, concurrency=1)
        asked = ModelSettings("openai", server=address)
        n = len(texts)
        choice = solve("m", problem, n=n, by="majority", model_settings=asked, verifier=verifier)
    assert choice.rewards == (None,) * 6 + (1.0,)
    assert choice.completion == answer


def test_a_server_without_likelihoods_is_not_asked_for_all_samples(verifier):
    with serving() as server:
        asked = ModelSettings("openai", server=ServerSettings(url=server.url, concurrency=1))
        with pytest.raises(DataError, match="'prompt' has a score by 'likelihood'"):
            solve("m", "Hi.", n=99, by="likelihood", model_settings=asked, verifier=verifier)
    assert len(server.requests) < 99
