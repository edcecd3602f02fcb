"""verl's own client of SandboxFusion, unchanged, against `maxatk serve`."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

from verl.utils.reward_score import sandbox_fusion

from serving import served

CASES = {"inputs": [f"{i} 2\n" for i in range(6)], "outputs": [f"{i + 2}" for i in range(6)]}
SUM = "a, b = map(int, input().split())\nprint(a + b)"
FUNCTION = {"inputs": ["[1, 2]\n3", "[]\n1"], "outputs": ["[1, 2, 3]", "[1]"], "fn_name": "f"}


@pytest.fixture(scope="module")
def server():
    with served(workers=2) as running:
        yield running


def score(server, program, cases=CASES, **settings):
    """Return verl's score of a program, and what its client saw of every test."""
    url = f"{server.url}/run_code"
    completion = f"```python\n{program}\n```"
    limits = {"concurrent_semaphore": None, "memory_limit_mb": 512}
    value, rows = sandbox_fusion.compute_score(
        url, completion=completion, test_cases=cases, continuous=True, **limits, **settings
    )
    return value, [row["status"] for row in rows]


@pytest.mark.parametrize(
    ("program", "value", "statuses"),
    [
        (SUM, 1.0, {"success"}),
        ("a, b = map(int, input().split())\nprint(a + b if a < 3 else 0)", 0.5, None),
        ("print((", 0.0, {"runtime_error"}),
        ("1 / 0", 0.0, {"runtime_error"}),
        ("import os; os.fork()", 0.0, {"runtime_error"}),
        ("print(open('/etc/passwd').read())", 0.0, {"runtime_error"}),
        ("import sys; sys.exit(0)", 0.0, {"wrong_answer"}),
    ],
)
def test_it_scores_what_a_program_prints(server, program, value, statuses):
    scored, client_statuses = score(server, program)
    assert scored == value
    assert set(client_statuses) == (statuses or {"success", "wrong_answer"})


def test_a_program_that_loops_or_sleeps_times_out(server):
    few = {name: texts[:2] for name, texts in CASES.items()}
    for program in ("while True: pass", "import time; time.sleep(100)"):
        assert score(server, program, few, timeout=1) == (0.0, ["timeout", "timeout"])


def test_functions_are_called_by_the_wrapper_of_verl(server):
    program = "def f(values, x):\n    return values + [x]"
    assert score(server, program, FUNCTION) == (1.0, ["success", "success"])


def test_asserts_behind_the_program_are_run(server):
    cases = {"assert_case": ["assert f(2) == 4", "assert f(2) == 5"]}
    assert score(server, "def f(x): return x * x", cases)[0] == 0.5


def test_under_load_every_score_is_right(server):
    programs = [f"{SUM if i % 3 else 'print(0)'}\n# {i}" for i in range(36)]
    with ThreadPoolExecutor(12) as threads:
        scores = list(threads.map(lambda program: score(server, program)[0], programs))
    assert scores == [float(i % 3 > 0) for i in range(36)]


def test_a_full_queue_is_tried_again_by_the_client():
    slow = f"import time\nwhile time.process_time() < 0.2: pass\n{SUM}"
    with served("--queue", "4", workers=2) as server:
        value, client_statuses = score(server, slow)
        # Six tests at once, of which two are told to come again one and two seconds later. On a
        # crowded machine the queue may still be full then, and the client gives up.
        assert set(client_statuses) <= {"success", "api_error"}
        assert value >= 4 / 6


def test_a_front_hides_nodes_that_die():
    with served(workers=1) as first, served(workers=1) as second:
        nodes = ("--verifier.sandbox", first.url, second.url)
        with served(*nodes, workers=4) as front:
            killing = threading.Timer(0.8, first.kill)
            killing.start()
            slow = f"import time\nwhile time.process_time() < 0.1: pass\n{SUM}"
            programs = [f"{slow} # {i}" for i in range(6)]
            with ThreadPoolExecutor(3) as threads:
                scores = list(threads.map(lambda program: score(front, program)[0], programs))
            killing.join()
    assert scores == [1.0] * 6


def test_a_token_goes_into_the_address():
    with served(workers=1, token="a-token-of-the-test") as server:
        assert score(server, SUM) == (0.0, ["api_error"] * 6)
        server.url = server.url.replace("//", "//me:a-token-of-the-test@")
        assert score(server, SUM)[0] == 1.0
