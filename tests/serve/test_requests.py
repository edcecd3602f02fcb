"""Whatever a request holds, `maxatk serve` answers it, and its workers live afterwards."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.records import TestCase
from maxatk.verifier import Job
from serving import ask, served

WORKERS = 2
TESTS = [
    {"input": "1\n", "output": "1\n"},
    {"call": "f(1)", "output": "1"},
    {"check": "def check(f):\n    assert f(1) == 1\n"},
]
PROGRAM = "def f(x):\n    return x\nprint(1)\n"
LONG = 10**400  # an integer that no float holds
DEEP = "+".join(["1"] * 9000)  # a literal that Python does not parse
TEXTS = ["\ud800", "\0", "", "f", "python", "cpp", "tokens", "lcb", "checker", "print(1)", DEEP]
NUMBERS = [LONG, -LONG, 2**31, 2**63, 1e-300, 1e300, float("inf"), float("nan"), -1, 0, 1, 0.5]

plain = (
    st.none() | st.booleans() | st.sampled_from(TEXTS) | st.sampled_from(NUMBERS)
    | st.text(max_size=20) | st.integers() | st.floats()
)  # fmt: skip
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def with_fields(whole, *names):
    """Return objects like `whole`, of which up to three fields hold anything."""
    changes = st.dictionaries(st.sampled_from([*names, "other"]), anything, max_size=3)
    return st.tuples(whole, changes).map(lambda parts: {**parts[0], **parts[1]})


tests = st.lists(
    with_fields(st.sampled_from(TESTS), "input", "output", "call", "check"), min_size=1, max_size=3
)
programs = with_fields(
    st.fixed_dictionaries({"program": st.just(PROGRAM), "tests": tests}),
    *("program", "tests", "compare", "time_limit", "memory_limit", "entry_point", "checker"),
    *("tolerance", "language", "checker_language", "most_characters", "refused"),
)
limits = with_fields(
    st.just({}),
    *("time_limit", "memory_limit", "output_limit", "stop_after_timeouts", "wall_limit"),
    *("idle_limit", "repair_truncated", "unfinished_thought", "flags"),
)
verify_bodies = with_fields(
    st.fixed_dictionaries({"programs": st.lists(programs, max_size=2), "limits": limits}),
    *("programs", "limits"),
)
run_code_bodies = with_fields(
    st.just({"code": PROGRAM}),
    *("code", "stdin", "run_timeout", "compile_timeout", "memory_limit_MB", "language"),
    *("files", "fetch_files"),
)
checked = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def server():
    with served("--verifier.time-limit", "2", workers=WORKERS) as running:
        yield running
        assert running.ended() == 0


def check_workers(server):
    """Verify as many programs at once as there are workers, each of which takes a while."""
    slow = "import time\nwhile time.process_time() < 0.3: pass\nprint(1)"
    rows = [{"program": f"{slow}\n# {i}", "tests": [TESTS[0]]} for i in range(2 * WORKERS)]
    status, answer = server.verify(*rows)
    assert status == 200
    assert [verdict["reward"] for verdict in answer["verdicts"]] == [1.0] * len(rows)


def of_one(**fields):
    return {"programs": [{"program": PROGRAM, "tests": TESTS[:1], **fields}]}


@example(of_one(checker=True))
@example(of_one(compare=True))
@example(of_one(entry_point=True))
@example(of_one(tests=[{"call": "f(1)", "output": DEEP}]))
@example(of_one(tests=[{"call": "f(1)", "output": "1"}], tolerance=LONG))
@given(body=verify_bodies)
@checked
def test_every_request_for_verdicts_is_answered(server, body):
    status, answer = ask(server.url + "/verify", body)
    assert status in (200, 422), answer
    if status == 422:
        assert answer["error"]
        return
    for row, verdict in zip(body["programs"], answer["verdicts"], strict=True):
        # A checker that does not compile is the problem's fault; all else has to give a verdict.
        assert verdict["outcome"] != "infra_error" or row.get("checker") is not None, verdict


@example({"code": PROGRAM, "language": []})
@given(body=run_code_bodies)
@checked
def test_every_request_to_run_code_is_answered(server, body):
    status, answer = ask(server.url + "/run_code", body)
    assert status in (200, 422), answer


@given(body=anything, path=st.sampled_from(["/verify", "/run_code"]))
@settings(checked, max_examples=30)
def test_every_body_is_answered(server, body, path):
    status, answer = ask(server.url + path, data=json.dumps(body).encode())
    assert status in (400, 422), answer


def test_the_workers_live_after_all_of_that(server):
    check_workers(server)
    assert server.health()[1]["workers"] == WORKERS


@pytest.mark.parametrize(
    ("field", "value"),
    [("limits", []), ("limits", 0), ("limits", False), ("limits", {"repair_truncated": True})],
)
def test_a_field_of_another_type_is_named(server, field, value):
    status, answer = ask(server.url + "/verify", {**of_one(), field: value})
    assert status == 422
    assert answer["error"].startswith(f"{field}: must be")


@pytest.mark.parametrize(
    "field", ["compare", "entry_point", "checker", "language", "checker_language"]
)
@pytest.mark.parametrize("value", [True, 5, b"x", ["f"], {}])
def test_a_job_takes_text_alone_for_its_texts(field, value):
    with pytest.raises(InvalidValueError, match=f"^{field}: must be a string"):
        Job("print(1)", (TestCase(input="", output="1"),), **{field: value})
