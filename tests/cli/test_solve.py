import json

import pytest

from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from sampling.servers import serving

TESTS = (TestCase(input="", output="1\n"), TestCase(input="", output="1\n"))


@pytest.fixture
def files(tmp_path):
    problems = [Problem(name, "Print one.", TESTS).to_json() for name in ("one", "two")]
    write_jsonl(tmp_path / "p.jsonl", problems)
    write_jsonl(tmp_path / "t.jsonl", [test.to_json() for test in TESTS])
    (tmp_path / "prompt.txt").write_text("Print one.")
    (tmp_path / "latin.txt").write_bytes("Größe".encode("latin-1"))


def solving(maxatk, *arguments, faults=()):
    with serving(faults) as server:
        address = ("--backend", "openai", "--server.url", server.url, "--verifier.workers", "1")
        return maxatk("solve", "--model", "m", *arguments, *address)


def test_the_best_program_of_a_problem(maxatk, files):
    done = solving(maxatk, "--problems", "p.jsonl", "--id", "two", "-n", "24")
    assert done.returncode == 0, done.stderr
    head, _, program, _, heading, *rows = done.stdout.splitlines()
    assert head.startswith("two: reward 1.000, 2 of 2 tests, sample ")
    assert program == "print(1)"
    assert heading.split() == ["reward", "programs"]
    drawn = int(head.rpartition(" of ")[2])
    assert sum(int(row.split()[1]) for row in rows) == drawn <= 24


def test_a_prompt_of_ones_own_as_json(maxatk, files):
    files = ("--prompt", "prompt.txt", "--tests", "t.jsonl")
    done = solving(maxatk, *files, "-n", "64", "--batch-size", "2", "--format", "json")
    choice = json.loads(done.stdout)
    assert (choice["problem_id"], choice["program"], choice["solved"]) == (
        "prompt",
        "print(1)",
        True,
    )
    assert choice["samples"] == len(choice["rewards"]) < 64
    assert choice["rewards"][choice["sample"]] == 1.0


OWN = """
def short(completions, **_):
    return [1 / len(text) for text in completions]

def many(completions, **_):
    return [2.0] * len(completions)
"""


def test_a_reward_of_ones_own_needs_no_tests(maxatk, files, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    flags = ("--prompt", "prompt.txt", "--reward", "own.py:short", "-n", "12")
    done = solving(maxatk, *flags, "--format", "json")
    assert done.returncode == 0, done.stderr
    choice = json.loads(done.stdout)
    assert choice["samples"] == 12
    assert choice["reward"] == max(choice["rewards"]) == 1 / len(choice["completion"])
    assert (choice["solved"], choice["total"], choice["outcomes"]) == (False, 0, {"scored": 12})
    shown = solving(maxatk, *flags).stdout
    assert choice["completion"].strip() in shown
    assert " tests" not in shown
    easy = ("--prompt", "prompt.txt", "--reward", "own.py:many", "-n", "64", "--batch-size", "2")
    assert json.loads(solving(maxatk, *easy, "--format", "json").stdout)["samples"] < 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problems", "p.jsonl"], "--id: p.jsonl has 2 problems; name one of them"),
        (
            ["--problems", "p.jsonl", "--id", "tow"],
            "id: 'tow' is not in p.jsonl, which has 2 problems; did you mean 'two'?",
        ),
        ([], "give either --problems (and --id) or --prompt and --tests"),
        (["--prompt", "prompt.txt"], "give either --problems (and --id) or --prompt and --tests"),
        (["--prompt", "no.txt", "--tests", "t.jsonl"], "prompt: 'no.txt' does not exist"),
        (["--prompt", "prompt.txt", "--tests", "p.jsonl"], "p.jsonl:1: test: unknown key 'id'"),
        (
            ["--prompt", "latin.txt", "--tests", "t.jsonl"],
            "latin.txt: not UTF-8: invalid start byte (0xf6) at byte 3; save the file as UTF-8",
        ),
        (
            ["--problems", "p.jsonl", "--id", "one", "-n", "0"],
            "samples: must be an integer of 1 or more",
        ),
    ],
)
def test_wrong_input_is_refused(maxatk, files, arguments, message):
    done = maxatk("solve", "--model", "m", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_chat_of_a_problem_is_what_the_flags_say(maxatk, files):
    with serving() as server:
        flags = ("--backend", "openai", "--server.url", server.url, "--server.chat")
        chat = (
            "--prompt.system",
            "Be brief.",
            "--template-arguments",
            '{"enable_thinking": false}',
        )
        where = ("--prompt", "prompt.txt", "--tests", "t.jsonl", "--verifier.workers", "1")
        done = maxatk("solve", "--model", "m", *where, "-n", "1", *flags, *chat)
        bad = maxatk("solve", "--model", "m", *where, *flags, "--template-arguments", "[1]")
    assert done.returncode == 0, done.stderr
    body = server.requests[0][2]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "prompt.template_arguments: must be a mapping, got [1]" in bad.stderr
