"""What `maxatk serve` answers: verdicts like those of a verifier here, and nothing of its host."""

import dataclasses
import json
import os
import random
import shutil
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from maxatk.errors import InvalidValueError, SandboxError
from maxatk.records import Outcome, Problem, Sample, TestCase
from maxatk.verifier import CodeReward, Job, Verifier, VerifierSettings, compute_score
from maxatk.verifier.server_address import TOKEN_VARIABLE
from processes import patience
from runs import rows_of, scored, write_records
from serving import HEALTH, answering, ask, served
from verifier import attacks

TESTS = tuple(TestCase(input=f"{i}\n", output=f"{i * i}\n") for i in range(4))
CHECK = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"
CHECKER = "import sys\nsys.exit(open(sys.argv[3]).read() != open(sys.argv[1]).read())\n"
JOBS = [
    Job("n = int(input())\nprint(n * n)\n", TESTS),
    Job("n = int(input())\nprint(n + n)\n", TESTS),
    Job("print(int(input()) ** 2 / 1)", TESTS, compare="deepmind"),
    Job("1 / 0", TESTS),
    Job("print((", TESTS),
    Job("while True: pass", TESTS[:2], time_limit=0.2),
    Job("x = bytearray(1 << 30)", TESTS[:1], memory_limit=1 << 28),
    Job("print('ü\\ud800'.encode('utf-8', 'surrogatepass'))", TESTS[:1]),
    Job("def f(x): return x * x", (TestCase(call="f(3)", output="9"),)),
    Job("def f(x): return x * 1.0001", (TestCase(call="f(3)", output="3.0"),), tolerance=0.1),
    Job("def f(x): return x * x", (TestCase(check=CHECK),), entry_point="f"),
    Job("print(input())", TESTS[:2], checker="import sys\nprint(1)"),
]


@pytest.fixture(scope="module")
def server():
    with served(workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def remote(server):
    with Verifier(sandbox=[server.url], time_limit=1.0, memory_limit=1 << 29) as verifier:
        yield verifier


def outcomes_of(verdicts):
    return [[(test.outcome, test.got) for test in verdict.tests] for verdict in verdicts]


def test_verdicts_are_those_of_a_verifier_here(remote):
    with Verifier(workers=2, time_limit=1.0, memory_limit=1 << 29) as local:
        assert outcomes_of(remote.verify_many(JOBS)) == outcomes_of(local.verify_many(JOBS))
        assert remote.limits == local.limits
        assert remote.isolation == {k: why is True for k, why in local.isolation.items()}
    assert remote.workers == 3


def test_a_completion_that_is_refused_is_so_with_a_server_too(remote):
    completions = ["<think>\nprint(1)\n", "```cpp\nint main() {}\n```\n", "print(input())"]
    reward = CodeReward(remote)
    echo = TestCase(input="1\n", output="1\n")
    assert reward(completions=completions, tests=[[echo]] * 3) == [0.0, 0.0, 1.0]
    outcomes = [verdict.outcome for verdict in reward.verdicts]
    assert outcomes == [Outcome.UNFINISHED_THOUGHT, Outcome.OTHER_LANGUAGE, Outcome.PASSED]


def test_all_settings_of_the_client_count(server):
    programs = [("while True: pass", TESTS), ("print('x' * 5000)", TESTS)]
    settings = VerifierSettings(
        sandbox=server.url, time_limit=0.2, stop_after_timeouts=1, memory_limit_mb=256
    )
    with settings.open() as verifier:
        looping, _ = verifier.verify_many(programs)
    assert [test.outcome for test in looping.tests] == [Outcome.TIME_LIMIT] + [Outcome.NOT_RUN] * 3
    with Verifier(sandbox=(server.url,), output_limit=1000, workers=1) as verifier:
        assert verifier.verify(*programs[1]).outcome is Outcome.OUTPUT_LIMIT


@pytest.mark.parametrize("part", range(4))
def test_no_attack_succeeds_through_the_server(remote, part):
    names = list(attacks.ALL)[part::4]
    assert attacks.fails(remote, {name: attacks.ALL[name] for name in names}) == {}


def test_a_server_can_stand_before_others(server):
    with served("--verifier.sandbox", server.url, workers=3) as front:
        with Verifier(sandbox=[front.url], workers=2) as verifier:
            verdicts = verifier.verify_many(JOBS[:4])
            assert [verdict.reward for verdict in verdicts] == [1.0, 0.5, 1.0, 0.0]
        status, answer = front.run_code("print(input() * 2)", "ab")
    assert (status, answer["run_result"]["stdout"]) == (200, "abab\n")


def test_scores_are_those_of_this_machine(server, tmp_path):
    draw = random.Random(0)
    problems = [Problem(f"p{i}", "", TESTS, time_limit_s=2.0) for i in range(4)]
    texts = ["print(int(input()) ** 2)", "print(1)", "1 / 0", "print(", "import sys; sys.exit(2)"]
    samples = [Sample(problem.id, i, draw.choice(texts)) for problem in problems for i in range(6)]
    file = write_records(tmp_path / "samples.jsonl", samples)
    for name, sandbox in {"here": (), "there": server.url}.items():
        settings = VerifierSettings(sandbox=sandbox, workers=2)
        scored(file, problems, tmp_path / name, verifier_settings=settings)
    here = tmp_path / "here"
    there = tmp_path / "there"
    scores = [rows_of(folder / "scores.jsonl") for folder in (here, there)]
    for row in (*scores[0], *scores[1]):
        del row["seconds"]
    assert scores[0] == scores[1]
    for name in ("failures.jsonl", "manifest.json"):
        assert (here / name).read_bytes() == (there / name).read_bytes()


def test_the_reward_of_verl_takes_a_sandbox(server):
    truth = json.dumps([test.to_json() for test in TESTS])
    score = compute_score("code", "print(int(input()) ** 2)", truth, sandbox=server.url)
    assert score == {"score": 1.0, "passed": 4.0, "total": 4.0, "unscored": 0.0}


@pytest.mark.parametrize(
    ("code", "status", "run_status", "return_code", "stdout", "stderr"),
    [
        ("print(input())", "Success", "Finished", 0, "hi\n", ""),
        ("import sys; print('a' * 10**6)", "Success", "Finished", 0, "a" * 10**6 + "\n", ""),
        ("1 / 0", "Failed", "Finished", 1, "", "ZeroDivisionError"),
        ("print((", "Failed", "Finished", 1, "", "SyntaxError"),
        ("while True: pass", "Failed", "TimeLimitExceeded", None, "", ""),
        ("import time; time.sleep(60)", "Failed", "TimeLimitExceeded", None, "", ""),
        ("x = bytearray(1 << 30)", "Failed", "Finished", 1, "", "MemoryError"),
        ("import os; os.fork()", "Failed", "Finished", 1, "", "Error: [Errno"),
    ],
)
def test_run_code_answers_as_sandbox_fusion(
    server, code, status, run_status, return_code, stdout, stderr
):
    fields = {"language": "python", "run_timeout": 1, "memory_limit_MB": 512, "files": {}}
    answered, answer = server.run_code(code, "hi", fetch_files=[], compile_timeout=1, **fields)
    assert answered == 200
    assert answer["status"] == status
    run = answer["run_result"]
    assert (run["status"], run["return_code"], run["stdout"]) == (run_status, return_code, stdout)
    assert stderr in run["stderr"]
    assert answer["compile_result"] is None


@pytest.mark.parametrize(
    "fields",
    [{"language": "rust"}, {"language": ["python"]}, {"files": {"a": "b"}}, {"fetch_files": ["a"]}],
)
def test_what_run_code_does_not_have_is_a_sandbox_error(server, fields):
    status, answer = server.run_code("print(1)", **fields)
    assert (status, answer["status"]) == (200, "SandboxError")
    (name,) = fields
    assert name in answer["message"]


CPP = "#include <bits/stdc++.h>\nint main() { int a; std::cin >> a; std::cout << 7 * a; }\n"


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_programs_in_cpp_are_compiled_first(server):
    _, answer = server.run_code(CPP, "6", language="cpp", run_timeout=5)
    assert (answer["status"], answer["run_result"]["stdout"]) == ("Success", "42")
    assert answer["compile_result"]["return_code"] == 0
    _, answer = server.run_code(CPP.replace("7 *", "x *"), "6", language="cpp", run_timeout=5)
    assert (answer["status"], answer["run_result"]) == ("Failed", None)
    assert answer["compile_result"]["return_code"] == 1
    assert "not declared" in answer["compile_result"]["stderr"]
    assert str(Path.home()) not in json.dumps(answer)
    tests = [TestCase(input="6", output="42")]
    with Verifier(sandbox=[server.url]) as verifier:
        assert verifier.verify(CPP, tests, language="cpp").reward == 1.0


PROGRAM = {"program": "print(1)", "tests": [{"input": "", "output": "1"}]}


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/verify", {}, 422, "programs: must be a list"),
        ("/verify", {"programs": []}, 422, "programs: must be a list"),
        ("/verify", {"programs": [5]}, 422, "programs: must be objects"),
        ("/verify", {"programs": [{}]}, 422, "tests: must be a list"),
        ("/verify", {"programs": [{**PROGRAM, "program": 5}]}, 422, "program: must be a string"),
        ("/verify", {"programs": [{**PROGRAM, "tests": [5]}]}, 422, "tests: must be a list"),
        ("/verify", {"programs": [{**PROGRAM, "tests": [{}]}]}, 422, "TestCase"),
        ("/verify", {"programs": [{**PROGRAM, "entry_point": [1]}]}, 422, "entry_point"),
        ("/verify", {"programs": [{"program": "", "tests": [{}] * 100_001}]}, 422, "100,000"),
        ("/verify", {"programs": [{**PROGRAM, "time_limit": -1}]}, 422, "time_limit"),
        ("/verify", {"programs": [{**PROGRAM, "memory_limit": 0.5}]}, 422, "memory_limit"),
        ("/verify", {"programs": [PROGRAM, {**PROGRAM, "compare": "x"}]}, 422, "[1]: compare"),
        ("/verify", {"programs": [PROGRAM, {"program": "", "tests": [{}]}]}, 422, "[1]: TestCase"),
        ("/verify", {"programs": [{**PROGRAM, "other": 1}]}, 422, "other"),
        ("/verify", {"programs": [PROGRAM], "limits": {"time_limit": "1"}}, 422, "time_limit"),
        ("/verify", {"programs": [PROGRAM], "wait_s": -1}, 422, "wait_s"),
        ("/verify", {"programs": [PROGRAM], "other": 1}, 422, "other"),
        ("/verify", [], 400, "must be a JSON object"),
        ("/run_code", {}, 422, "code: must be a string"),
        ("/run_code", {"code": 1}, 422, "code: must be a string"),
        ("/run_code", {"code": "", "stdin": 1}, 422, "stdin: must be a string"),
        ("/run_code", {"code": "", "run_timeout": 0}, 422, "run_timeout"),
        ("/run_code", {"code": "", "run_timeout": "1"}, 422, "run_timeout"),
        ("/other", {}, 404, "no such path"),
        ("/health", {}, 405, "method"),
    ],
)
def test_a_bad_request_is_told_what_is_allowed(server, path, body, status, named):
    answered, answer = ask(server.url + path, body)
    assert answered == status
    assert named in answer["error"]


def test_a_probe_may_ask_for_the_head_of_the_health_alone(server):
    request = urllib.request.Request(server.url + "/health", method="HEAD")
    with urllib.request.urlopen(request, timeout=patience(20)) as answer:
        assert answer.status == 200
        assert answer.read() == b""
    of_programs = urllib.request.Request(server.url + "/verify", method="HEAD")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(of_programs, timeout=patience(20))
    assert ask(server.url + "/health")[1]["status"] == "ok"


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[" * 100_000, b'{"programs": 1' + b"0" * 9999 + b"}"]
)
def test_a_body_that_is_no_json_is_refused(server, data):
    status, answer = ask(server.url + "/verify", data=data)
    assert status in (400, 422)
    assert answer["error"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
def test_a_client_does_not_repeat_what_a_server_refuses(status):
    with (
        answering(status, b'{"error": "the reason"}', health=HEALTH) as (url, bodies),
        Verifier(sandbox=[url], workers=1) as verifier,
    ):
        verdict = verifier.verify("print(1)", TESTS)
    assert verdict.reward is None
    assert f'refuses the program: status {status}: {{"error": "the reason"}}' in (
        verdict.tests[0].stderr
    )
    assert len(bodies) == 1


def test_what_is_too_long_for_a_server_is_not_sent_and_refused_by_name(remote):
    long = (TestCase(input="é" * 6_000_000, output="1"),)
    verdict = remote.verify("print(1)", long)
    assert verdict.reward is None
    message = "tests: a program and its tests must take 33,554,432 bytes as JSON at most"
    assert message in verdict.tests[0].stderr
    assert "got 36,000," in verdict.tests[0].stderr
    for problem in (Problem("long", "", long), Problem("long", "", TESTS, visible_tests=long)):
        with pytest.raises(InvalidValueError, match=f"^Problem 'long': {message}"):
            remote.refuse_problems([Problem("p", "", TESTS), problem])
    remote.refuse_problems([Problem("p", "", (TestCase(input="e" * 30_000_000, output="1"),))])
    assert remote.verify("print(1)", TESTS[:1], "tokens").outcome is Outcome.WRONG_ANSWER


def test_the_limits_of_the_server_win():
    flags = ("--verifier.time-limit", "0.5", "--verifier.memory-limit-mb", "256")
    with served(*flags, workers=1) as server:
        endless = {**PROGRAM, "program": "while True: pass", "time_limit": 50}
        _, answer = server.verify(endless, limits={"time_limit": 50, "memory_limit": 1 << 40})
        (test,) = answer["verdicts"][0]["tests"]
        assert test["outcome"] == "time_limit"
        assert test["cpu_seconds"] < 2
        assert answer["limits"]["time_limit"] == 0.5
        big = {**PROGRAM, "program": "x = bytearray(1 << 29); print(1)", "memory_limit": 1 << 40}
        _, answer = server.verify(big, limits={"memory_limit": 1 << 40})
        assert answer["verdicts"][0]["outcome"] == "memory_limit"
        _, answer = server.run_code("while True: pass", run_timeout=1000)
        assert answer["run_result"]["status"] == "TimeLimitExceeded"
        with pytest.raises(InvalidValueError, match=r"time_limit: must be 0.5 at most"):
            Verifier(sandbox=[server.url])
        with Verifier(sandbox=[server.url], time_limit=0.5, memory_limit=1 << 28) as verifier:
            verdict = verifier.verify("print(1)", TESTS[:1], time_limit=2.0)
            slow = Problem("slow", "", TESTS, time_limit_s=2.0)
            large = Problem("large", "", TESTS, memory_limit_mb=257)
            verifier.refuse_problems([dataclasses.replace(slow, time_limit_s=0.5)])
            for problem, message in ((slow, "time_limit: must be 0.5"), (large, "memory_limit: m")):
                with pytest.raises(InvalidValueError, match=f"Problem '{problem.id}': {message}"):
                    verifier.refuse_problems([problem])
        assert verdict.reward is None
        assert "allows a time_limit of 0.5" in verdict.tests[0].stderr


def test_no_answer_shows_the_host(server):
    bodies = [
        server.run_code("import json; json.loads('{')")[1],
        server.run_code("import csv; csv.reader(5)")[1],
        server.verify({**PROGRAM, "program": "import json; json.loads('{')"})[1],
        server.verify({"program": "print(1)", "tests": [{"call": "f(", "output": "("}]})[1],
        server.health()[1],
        ask(server.url + "/verify", data=b"{")[1],
        ask(server.url + "/../../etc/passwd")[1],
    ]
    text = json.dumps(bodies)
    folders = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), str(Path.home()) + "/"}
    for shown in (*folders, os.uname().nodename, "site-packages", "serve/", "uvicorn"):
        assert shown not in text
    assert text.count("Traceback") == text.count("<program>") == 3  # those of the programs


def test_a_server_of_other_machines_needs_a_token(monkeypatch):
    token = "a-token-of-the-test"
    with served("--host", "0.0.0.0", workers=1, token=token) as server:
        url = f"http://127.0.0.1:{server.port}"
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"}):
            assert ask(url + "/health", headers=headers)[0] == 401
            assert ask(url + "/verify", {"programs": [PROGRAM]}, headers=headers)[0] == 401
        right = {"Authorization": f"Bearer {token}"}
        assert ask(url + "/health", headers=right)[0] == 200
        with pytest.raises(InvalidValueError, match=TOKEN_VARIABLE):
            Verifier(sandbox=[url])
        with Verifier(sandbox=[f"http://me:{token}@127.0.0.1:{server.port}"]) as verifier:
            assert verifier.verify("print(int(input()) ** 2)", TESTS).reward == 1.0
        monkeypatch.setenv(TOKEN_VARIABLE, token)
        with Verifier(sandbox=[url]) as verifier:
            assert verifier.verify("print(int(input()) ** 2)", TESTS).reward == 1.0


def test_a_page_in_a_browser_may_not_ask(server):
    headers = {"Origin": "http://example.org"}
    assert ask(server.url + "/verify", {"programs": [PROGRAM]}, headers=headers)[0] == 403


TOKEN = {TOKEN_VARIABLE: "0123456789abcdef"}


@pytest.mark.parametrize(
    ("flags", "environment", "named"),
    [
        (["--host", "0.0.0.0"], {}, "host: must be 127.0.0.1 without a token"),
        (["--host", "example.org"], {}, "host: must be 127.0.0.1 without a token"),
        ([], {TOKEN_VARIABLE: "short"}, "MAXATK_TOKEN: must have 16 characters"),
        (["--queue", "0"], {}, "queue: must be an integer of 1"),
        (["--port", "70000"], {}, "port: must be 65535 at most"),
        (["--host", "nowhere.invalid"], TOKEN, "host, port: cannot listen on 'nowhere.invalid'"),
        (["--host", "a..b"], TOKEN, "host, port: cannot listen on 'a..b', port 8080"),
    ],
)
def test_a_server_that_would_be_open_is_refused(maxatk, monkeypatch, flags, environment, named):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = maxatk("serve", *flags)
    assert done.returncode == 2
    assert named in done.stderr


def test_a_port_that_is_taken_is_named(maxatk):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = maxatk("serve", "--port", str(port))
    assert done.returncode == 2
    assert f"host, port: cannot listen on '127.0.0.1', port {port}: Address already" in done.stderr


@pytest.mark.parametrize(
    ("sandbox", "error", "named"),
    [
        ("localhost:8080", InvalidValueError, "sandbox: must be addresses"),
        ("ftp://localhost", InvalidValueError, "sandbox: must be addresses"),
        ("http://localhost:99999", InvalidValueError, "sandbox: must be addresses"),
        ("http://127.0.0.1:9", SandboxError, "cannot be reached"),
    ],
)
def test_addresses_are_looked_at_first(sandbox, error, named):
    with pytest.raises(error, match=named):
        Verifier(sandbox=[sandbox])
