"""Bad arguments of the verifier and of its rewards are refused by name; a fork has its own."""

import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from maxatk.errors import DataError, InvalidValueError, SandboxError
from maxatk.records import TestCase
from maxatk.rewards import load_reward
from maxatk.serve.settings import ServeSettings
from maxatk.verifier import (
    CodeReward,
    Job,
    Limits,
    Verifier,
    VerifierSettings,
    compute_score,
    compute_scores,
    extract_code,
)
from processes import family, patience, still_alive
from serving import HEALTH, answering

ONE = TestCase(input="1\n", output="1\n")
TRUTH = [ONE.to_json()]
ECHO = "print(input())"


def refused(message):
    return pytest.raises(InvalidValueError, match=f"^{re.escape(message)}")


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("workers", 1.5, "an integer of 1 or more"),
        ("workers", True, "an integer of 1 or more"),
        ("workers", "2", "an integer of 1 or more"),
        ("workers", 10**5, "above 0 and at most 4096"),
        ("stop_after_timeouts", 1.5, "an integer of 1 or more"),
        ("stop_after_timeouts", True, "an integer of 1 or more"),
        ("repair_truncated", "no", "True or False"),
        ("testlib", 5, "the path of a file"),
        ("sandbox", 5, "addresses such as http://host:8080"),
        ("sandbox", [5], "addresses such as http://host:8080"),
        ("sandbox", "node1:8080", "addresses such as http://host:8080"),
        ("sandbox", "http://[x", "addresses such as http://host:8080"),
        ("sandbox", ["http://x:y"], "addresses such as http://host:8080"),
        ("sandbox", "http://a..b:8080", "addresses such as http://host:8080"),
        ("sandbox", "http://node1:8080/a b", "addresses such as http://host:8080"),
        ("sandbox", "http://node1:8080/ü", "addresses such as http://host:8080"),
    ],
)
def test_a_setting_of_another_type_is_refused(field, value, allowed):
    with refused(f"{field}: must be {allowed}, got "):
        Verifier(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workers", 1.5),
        ("workers", 5000),
        ("memory_limit_mb", 1.5),
        ("stop_after_timeouts", 1.5),
        ("sandbox", 5),
    ],
)
def test_settings_of_recipes_are_refused_too(field, value):
    with refused(f"{field}: must be "):
        VerifierSettings(**{field: value})


def test_a_single_address_may_stand_by_itself():
    with pytest.raises(SandboxError, match=r"http://127.0.0.1:9: the server cannot be reached"):
        Verifier(sandbox="http://127.0.0.1:9")


@pytest.mark.parametrize("token", ["a secret token", "secret\ntoken", "secret-tökén"])
def test_a_token_that_no_header_takes_is_refused_and_not_shown(monkeypatch, token):
    monkeypatch.setenv("MAXATK_TOKEN", token)
    for setting_up in (lambda: Verifier(sandbox="http://127.0.0.1:9"), ServeSettings):
        with refused("MAXATK_TOKEN: must have letters") as caught:
            setting_up()
        assert "secret" not in str(caught.value)


WRONG_HEALTH = [
    [1],
    {},
    {**HEALTH, "workers": -3},
    {**HEALTH, "workers": "3"},
    {**HEALTH, "isolation": 5},
    {**HEALTH, "limits": {"time_limit": math.inf, "memory_limit": 1}},
    {**HEALTH, "limits": {"time_limit": 1.0}},
]


@pytest.mark.parametrize("health", WRONG_HEALTH)
def test_a_server_that_is_another_program_is_refused(health):
    with (
        answering(200, b"{}", health=health) as (url, _),
        pytest.raises(SandboxError, match="is no `maxatk serve`"),
    ):
        Verifier(sandbox=url)


def test_a_token_is_not_shown_in_a_refusal():
    with pytest.raises(InvalidValueError) as caught:
        Verifier(sandbox="http://me:secret-of-mine@[x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("tests", [ONE, None, [], 5, "tests", [5], [ONE, None], [TRUTH[0]]])
def test_tests_that_are_none_are_refused(verifier, tests):
    message = "tests: must be a list of one TestCase or more, got "
    with refused(message):
        verifier.verify(ECHO, tests)
    with refused(message):
        verifier.verify_many([(ECHO, tests)])
    with refused(message):
        Job(ECHO, tests)


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ((ECHO, [ONE]), "items[0]"),
        (None, "items"),
        (5, "items"),
        (ECHO, "items"),
        (Job(ECHO, (ONE,)), "items"),
        ({ECHO: [ONE]}, "items"),
        ([(ECHO, [ONE]), 5], "items[1]"),
        ([(ECHO,)], "items[0]"),
        ([(ECHO, [ONE], "tokens")], "items[0]"),
    ],
)
def test_what_is_no_list_of_jobs_is_refused(verifier, items, field):
    with refused(f"{field}: must be "):
        verifier.verify_many(items)
    with refused(f"{field}: must be "):
        verifier.verify_stream(items)


@pytest.mark.parametrize("texts", [None, 5, "print(1)", [5], [None], {"a": 1}])
def test_programs_and_inputs_of_a_run_are_lists(verifier, texts):
    with refused("programs: must be a list of strings, got "):
        verifier.run(texts, [""])
    with refused("inputs: must be a list of strings, got "):
        verifier.run(["print(1)"], texts)


def test_tests_may_come_from_any_iterable(verifier):
    assert verifier.verify(ECHO, iter([ONE])).reward == 1.0
    verdicts = verifier.verify_many(job for job in [[ECHO, iter([ONE])], (ECHO, [ONE])])
    assert [verdict.reward for verdict in verdicts] == [1.0, 1.0]


@pytest.mark.parametrize("completion", [None, 5, b"x", [5], {"a": 1}])
def test_a_completion_is_text_or_messages(verifier, completion):
    with refused("completion: must be text or a list of messages, got "):
        CodeReward(verifier)(completions=[completion], tests=[[ONE]])
    with refused("completion: must be a string, got "):
        extract_code(completion)
    with refused("completion: must be a string, got "):
        verifier.program_of(completion, None)
    with refused("solution_str: must be a string, got "):
        compute_score("d", completion, TRUTH)


@pytest.mark.parametrize("values", [5, "x", b"x", {"x": 1}, iter(["x"])])
def test_the_columns_of_a_reward_are_lists(verifier, values):
    rewards = (CodeReward(verifier), load_reward(["binary", "visible_tests"], verifier=verifier))
    for reward in rewards:
        for completions in (None, values):
            with refused("completions: must be a list with one value a completion, got "):
                reward(prompts=["p"], completions=completions, tests=[[ONE]])
        with refused("prompts: must be a list with one value a completion, got "):
            reward(prompts=values, completions=[ECHO], tests=[[ONE]])
        with refused("prompts: 2 rows for 1 completion"):
            reward(prompts=["a", "b"], completions=[ECHO], tests=[[ONE]])
    for name in ("tests", "compare", "time_limit_s", "checker", "environments"):
        with refused(f"{name}: must be a list with one value a completion, got "):
            rewards[0](completions=[ECHO], **{"tests": [[ONE]], name: values})
        with refused(f"{name}: 2 rows for 1 completion"):
            rewards[0](completions=[ECHO], **{"tests": [[ONE]], name: [None, None]})
    columns = {"data_sources": ["d"], "solution_strs": [ECHO], "ground_truths": [TRUTH]}
    for name in columns:
        for value in (None, values):
            with refused(f"{name}: must be a list with one value a completion, got "):
                compute_scores(**{**columns, name: value}, extra_infos=[None])


def test_columns_may_be_arrays(verifier):
    reward = CodeReward(verifier)
    tests = np.empty(1, dtype=object)
    tests[0] = [ONE]
    assert reward(np.array(["p"]), np.array([ECHO]), tests=tests) == [1.0]
    assert reward([], (ECHO,), tests=([ONE],)) == [1.0]  # without prompts


def test_a_reward_is_made_of_a_verifier(verifier):
    with refused("verifier: must be a Verifier, got None"):
        CodeReward(None)
    with refused("verifier: must be a Verifier, got None"):
        load_reward("binary", verifier=None)
    with refused("binary: must be True or False, got 'no'"):
        CodeReward(verifier, binary="no")
    with refused("workers: must be an integer of 1 or more, got [1]"):
        compute_score("d", ECHO, TRUTH, workers=[1])
    with refused("unfinished_thought: unknown value []"):
        compute_score("d", ECHO, TRUTH, unfinished_thought=[])


def test_the_content_of_a_message_is_text_or_parts(verifier):
    message = {"role": "assistant", "content": 5}
    with refused("content: must be text or a list of parts, got 5"):
        CodeReward(verifier)(completions=[[message]], tests=[[ONE]])


@pytest.mark.parametrize("tests", [5, None, "[]", [5], [[ONE]], {"input": "1"}])
def test_rows_without_tests_are_refused(verifier, tests):
    with refused("tests: must be a list of tests in each row, got "):
        CodeReward(verifier)(completions=[ECHO], tests=[tests])


@pytest.mark.parametrize("truth", [5, None, "5", "{", "[" * 100_000, [5], [], {"tests": 5}])
def test_a_ground_truth_without_tests_is_named(truth):
    with pytest.raises(DataError, match=r"^ground_truth of 'd': "):
        compute_score("d", ECHO, truth)


@pytest.mark.parametrize("name", [["python"], 5, "pascal"])
def test_a_language_is_one_of_the_names(name):
    with refused("language: unknown value"):
        extract_code(ECHO, language=name)


@pytest.mark.parametrize("call", ["", "add(", "x = add(1)", "add(1); add(2)", "add('\0')"])
def test_a_call_that_no_program_could_answer_is_refused(call):
    with refused(f"TestCase(call={call!r}): call must be an expression of Python: "):
        Job("", (TestCase(call=call, output="1"),))


@pytest.mark.parametrize(
    "check",
    [
        "",
        "x = 1",
        "def check(:",
        "def check(candidate):\n    candidate == 1",
        "async def check(candidate):\n    assert candidate(1) == 2",
        "def check(candidate):\n    assert candidate(1) == 2\n    yield",
        "assert '\ud800'",
    ],
)
def test_a_check_that_passes_every_program_or_none_is_refused(check):
    with refused(f"TestCase(check={check!r:.80}): check must be Python with an assert"):
        Job("", (TestCase(check=check),), entry_point="add")


@pytest.mark.parametrize(
    "check",
    [
        "assert add(1) == 2",
        "def check(f):\n    def cases():\n        yield 1\n    assert f(*cases()) == 2",
        "def check(f):\n    if f(1) != 2:\n        raise ValueError",
        "import functools\n@functools.cache\ndef check(f):\n    assert f(1) == 2",
        "check = lambda f: ok(f(1) == 2)\ndef ok(holds):\n    assert holds",
    ],
)
def test_checks_of_other_forms_decide(verifier, check):
    for program, reward in {"def add(x): return x + 1": 1.0, "def add(x): return x": 0.0}.items():
        verdict = verifier.verify(program, [TestCase(check=check)], entry_point="add")
        assert verdict.reward == reward


@pytest.mark.parametrize("name", ["add(", "\0", "add; add"])
def test_an_entry_point_that_no_program_has_is_refused(name):
    with refused("entry_point: must be an expression of Python, got "):
        Job("", (TestCase(check="assert add(1) == 2"),), entry_point=name)


def test_blanks_around_a_call_do_not_count(verifier):
    test = TestCase(call="  add(1) ", output="2")
    assert verifier.verify("def add(x): return x + 1", [test]).reward == 1.0


def test_limits_name_the_value():
    with refused("stop_after_timeouts: must be an integer of 1 or more, got 0"):
        Limits(stop_after_timeouts=0)


FORKED = """
import json, multiprocessing, os, sys
from maxatk.verifier import code_reward, compute_score
from maxatk.rewards.answers import compute_answer_score

test = {"input": "1\\n", "output": "1\\n"}

def scores(_):
    program = compute_score("d", "print(input())", [test])["score"]
    reward, = code_reward(None, ["print(input())"], tests=[[test]])
    return [program, reward, compute_answer_score("d", "\\\\boxed{42}", 42)["score"]]

before = scores(None)
with multiprocessing.get_context("fork").Pool(2) as pool:
    in_pool = pool.map(scores, range(4), chunksize=1)
pid = os.fork()
if pid == 0:
    print(json.dumps(scores(None)), flush=True)
    sys.exit(7)  # an orderly end, which closes what this process has
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps([before, in_pool, status, scores(None)]), flush=True)
sys.stdin.read()
"""


def test_rewards_work_after_a_fork_and_leave_nothing_behind():
    pytest.importorskip("math_verify")
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, env=os.environ, **pipes) as process:
        of_child = json.loads(process.stdout.readline())
        before, in_pool, status, after = json.loads(process.stdout.readline())
        members = family(process.pid)
        process.communicate(timeout=patience(60))
    right = [1.0, 1.0, 1.0]
    assert (of_child, before, after) == (right, right, right)
    assert in_pool == [right] * 4
    assert (status, process.returncode) == (7, 0)
    assert not still_alive(members)
