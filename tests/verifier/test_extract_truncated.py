import ast
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import maxatk
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from maxatk.verifier import CodeReward, VerifierSettings, extract_code
from maxatk.verifier.python_source import longest_program
from processes import patience
from runs import scored

FILES = sorted((Path(maxatk.__file__).parent / "verifier").glob("*.py"))
SOURCES = [text for text in map(Path.read_text, FILES) if text.count("\n") > 100]
CUT = "```python\ndef add(a, b):\n    return a + b\n\nprint(add(1, "
WHOLE = "def add(a, b):\n    return a + b\n"


def parses(text):
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def brute_force(text):
    lines = text.split("\n")
    prefixes = ["\n".join(lines[:count]) for count in range(len(lines), 0, -1)]
    return next((p for p in prefixes if p.strip() and parses(p)), text).strip("\n ")


@settings(max_examples=60)
@given(st.sampled_from(SOURCES), st.data())
def test_it_is_the_longest_prefix_of_whole_lines_that_parses(source, data):
    start = data.draw(st.sampled_from([i for i, c in enumerate(source) if c == "\n"][:-30]))
    cut = source[start + 1 :][: data.draw(st.integers(1, 900))]
    assert longest_program(cut).strip("\n ") == brute_force(cut)


@settings(max_examples=200)
@given(st.lists(st.sampled_from("x=1 if:\n def\tf()[{'\"\\ #@try else\x00")).map("".join))
@example("try:\n    a = 1\n    b = 2\n")
@example("x = 1\n  y = 2\nz = 3")
@example("x = 1\ny = (\r\n1,")
@example("if x:\n  a\nelif y:\n")
@example("x = 1\ny = '''abc\nz")
@example("x = 1\n@deco\n")
def test_it_is_that_prefix_of_any_text(text):
    if "\x00" not in text and "\r" not in text.replace("\r\n", ""):
        assert longest_program(text).strip("\n ") == brute_force(text)


def test_a_program_that_was_cut_off_is_repaired_where_that_is_asked_for():
    assert extract_code(CUT, "add") == CUT.removeprefix("```python\n")
    assert extract_code(CUT, "add", repair_truncated=True) == WHOLE
    assert extract_code(CUT, repair_truncated=True) == WHOLE


def test_what_was_closed_or_has_no_fence_is_never_changed():
    for text in ("```python\nprint(1)\nprint(\n```", "print(1)\nprint(", "so:\n```\nx = (\n```\n"):
        assert extract_code(text, repair_truncated=True) == extract_code(text)


def test_a_repaired_block_counts_for_the_entry_point_alone():
    usage = "```python\nprint(1)\n```\nThe function:\n"
    assert extract_code(usage + CUT, "add", repair_truncated=True) == WHOLE
    assert extract_code(usage + CUT, "add") == "print(1)\n"
    assert extract_code(usage + CUT, "other", repair_truncated=True) == "print(1)\n"
    assert extract_code(usage + CUT, repair_truncated=True) == "print(1)\n"


def test_every_way_to_a_reward_takes_the_setting_from_the_verifier():
    tests = [TestCase(check="def check(candidate):\n    assert candidate(1, 2) == 3\n")]
    columns = {"tests": [tests], "entry_point": ["add"]}
    rewards = {}
    for repair in (True, False):
        with VerifierSettings(workers=1, repair_truncated=repair).open() as verifier:
            assert ("repair_truncated" in verifier.limits) == repair
            rewards[repair] = CodeReward(verifier)(completions=[CUT], **columns)
    assert rewards == {True: [1.0], False: [0.0]}


def test_a_run_records_the_setting_and_its_scores_follow_it(tmp_path):
    tests = (TestCase(check="def check(candidate):\n    assert candidate(1, 2) == 3\n"),)
    problem = Problem("p", "", tests, entry_point="add")
    write_jsonl(tmp_path / "samples.jsonl", [Sample("p", 0, CUT).to_json()])
    runs = {}
    for repair in (True, False):
        with VerifierSettings(workers=1, repair_truncated=repair).open() as verifier:
            out = tmp_path / str(repair)
            results = scored(tmp_path / "samples.jsonl", [problem], out, verifier=verifier)
            recorded = results.manifest["settings"]["verifier"].get("repair_truncated", False)
            runs[repair] = (recorded, results.per_problem.values["max@k"][1])
    assert runs == {True: (True, (1.0,)), False: (False, (0.0,))}


@pytest.mark.parametrize("text", ["try:\n" + " a=1\n" * 3000, "if x:\n" * 2500, "(" * 16_000])
def test_the_time_is_linear_in_hostile_texts(text):
    started = time.monotonic()
    longest_program(text)
    assert time.monotonic() - started < patience(10)
