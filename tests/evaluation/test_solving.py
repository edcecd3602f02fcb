import threading

import pytest

import maxatk
from evaluation.servers import serving
from maxatk.errors import InvalidValueError, ServerError
from maxatk.evaluation import ModelSettings, SamplingSettings, ServerSettings, evaluate, solve
from maxatk.records import Outcome, Problem, TestCase, TestResult, Verdict
from maxatk.verifier import Verifier

SETTINGS = SamplingSettings(max_new_tokens=4)
PROBLEM = Problem(
    "p0", "print(1)\n", (TestCase(input="", output="1\n"), TestCase(input="", output="1"))
)


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as verifier:
        yield verifier


def test_it_finds_what_an_evaluation_of_the_same_samples_finds(tiny_model, verifier, tmp_path):
    given = {
        "settings": SETTINGS,
        "model_settings": ModelSettings(batch_size=4),
        "verifier": verifier,
    }
    found = maxatk.solve(tiny_model, PROBLEM, n=24, keep_going=True, **given)
    settings = SamplingSettings(max_new_tokens=4, samples=24)
    results = evaluate(tiny_model, [PROBLEM], tmp_path, **{**given, "settings": settings})
    assert len(found.rewards) == 24
    assert found.outcomes == results["counts"]["outcomes"]
    assert found.reward == results["per_problem"]["max@k"]["24"][0] == 1.0
    first = found.rewards.index(1.0)
    assert (found.sample, found.passed, found.total) == (first, 2, 2)
    assert found.solved
    assert verifier.verify(found.program, PROBLEM.tests).reward == 1.0


def test_it_stops_after_a_program_that_passes(tiny_model, verifier):
    given = {
        "settings": SETTINGS,
        "model_settings": ModelSettings(batch_size=1),
        "verifier": verifier,
    }
    whole = solve(tiny_model, PROBLEM, n=64, keep_going=True, **given)
    early = solve(tiny_model, PROBLEM, n=64, **given)
    assert (early.program, early.sample, early.reward) == (whole.program, whole.sample, 1.0)
    assert whole.sample < len(early.rewards) < 64
    assert early.rewards == whole.rewards[: len(early.rewards)]


def test_an_unsolved_problem_gives_the_best_there_is(tiny_model, verifier):
    tests = (TestCase(input="", output="1\n"), TestCase(input="", output="no\n"))
    hard = Problem("p0", "print(1)\n", tests)
    reports = []
    found = solve(
        *(tiny_model, hard),
        **{"n": 12, "settings": SETTINGS, "verifier": verifier},
        progress=lambda *report: reports.append(report),
    )
    assert (found.reward, found.passed, found.solved) == (0.5, 1, False)
    assert found.rewards.index(0.5) == found.sample
    assert reports == sorted(reports)
    assert reports[-1] == (12, 12)


class Lost(Verifier):
    """A verifier that loses every second program to its own failure."""

    seen = 0

    def verify_stream(self, items, **settings):
        first, self.seen = self.seen, self.seen + len(items)  # however long a batch is
        lost = Verdict((TestResult(Outcome.INFRA_ERROR),))
        for index, verdict in super().verify_stream(items, **settings):
            yield index, lost if (first + index) % 2 == 0 else verdict


def test_programs_that_could_not_be_verified_are_no_zeros(tiny_model):
    with Lost(workers=1) as lost:
        given = {"settings": SETTINGS, "verifier": lost}
        some = solve(tiny_model, PROBLEM, n=24, keep_going=True, **given)
        none = solve(tiny_model, PROBLEM, n=1, **given)
    assert some.rewards[::2] == (None,) * 12
    assert some.sample % 2 == 1
    assert (none.program, none.reward, none.solved, none.rewards) == (None, None, False, (None,))
    assert none.outcomes == {"infra_error": 1}


def test_a_server_that_fails_ends_it_and_leaves_no_thread(verifier):
    before = threading.active_count()
    with serving([400]) as server:
        asked = ModelSettings("openai", server=ServerSettings(url=server.url, concurrency=1))
        with pytest.raises(ServerError):
            solve("m", PROBLEM, n=8, model_settings=asked, verifier=verifier)
    assert threading.active_count() <= before


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_wrong_number_is_refused(tiny_model, n):
    with pytest.raises(InvalidValueError, match="n: must be an integer of 1 or more"):
        solve(tiny_model, PROBLEM, n=n)
