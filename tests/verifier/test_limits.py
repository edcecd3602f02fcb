"""One place of limits and defaults: every way to a reward gives the same one."""

import inspect
import os

import pytest

from maxatk.jsonl import read_jsonl, write_jsonl
from maxatk.records import Problem, Sample, Score, TestCase
from maxatk.verifier import (
    CodeReward,
    Limits,
    Verifier,
    VerifierSettings,
    code_reward,
    compute_score,
    compute_scores,
)
from runs import scored

CHECKS = tuple(
    TestCase(check=f"def check(candidate):\n    assert candidate({n}) == {n + 1}\n")
    for n in range(4)
)
PROBLEM = Problem("p", "Add one.", CHECKS, entry_point="add")
COMPLETIONS = {
    "```python\ndef add(n):\n    return n + 1\n```": 1.0,
    "So:\n```python\ndef add(n):\n    return n + 1\n\nprint(add(": 1.0,  # cut off: repaired
    "def add(n):\n    return 2 if n else 1": 0.5,
    "```python\ndef add(n):\n    return 1\n```\n```python\nprint(add(1))\n```": 0.25,
    "```python\ndef add(n):\n    return n +\n```": 0.0,
    "```python\nclass Odd:\n    def __eq__(self, _):\n        return True\n\n": 0.0,
    "```python\ndef add(n):\n    return bytes(900 << 20) and n + 1\n": 1.0,  # MiB, not bytes
    "no program": 0.0,
    "": 0.0,
}


def of_the_command_line(maxatk, folder):
    write_jsonl(folder / "problems.jsonl", [PROBLEM.to_json()])
    samples = (Sample("p", i, text).to_json() for i, text in enumerate(COMPLETIONS))
    write_jsonl(folder / "samples.jsonl", samples)
    files = {"--problems": "problems.jsonl", "--samples": "samples.jsonl", "--out": "run"}
    maxatk("score", *(str(word) for pair in files.items() for word in pair))
    return [score.reward for score in read_jsonl(folder / "run/scores.jsonl", Score.from_json)]


def of_an_evaluation(folder):
    scored(folder / "samples.jsonl", [PROBLEM], folder / "python")
    return [score.reward for score in read_jsonl(folder / "python/scores.jsonl", Score.from_json)]


def test_python_the_command_line_trl_and_verl_give_equal_rewards(maxatk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = list(COMPLETIONS.values())
    texts = list(COMPLETIONS)
    columns = {"tests": [CHECKS] * len(texts), "entry_point": ["add"] * len(texts)}
    truth = {"tests": [test.to_json() for test in CHECKS], "entry_point": "add"}
    many = [truth] * len(texts)
    with Verifier() as verifier:
        programs = [verifier.program_of(text, "add").program for text in texts]
        verdicts = [verifier.verify(p, CHECKS, entry_point="add") for p in programs]
        of_trl = CodeReward(verifier)(completions=texts, **columns)
    rewards = {
        "python": [verdict.reward for verdict in verdicts],
        "a trainer with a verifier of its own": of_trl,
        "TRL": code_reward(None, texts, **columns),
        "verl": [compute_score("a", text, truth)["score"] for text in texts],
        "verl, a batch": [row["score"] for row in compute_scores(texts, texts, many, many)],
        "command line": of_the_command_line(maxatk, tmp_path),
        "evaluation": of_an_evaluation(tmp_path),
    }
    assert rewards == dict.fromkeys(rewards, expected)


def test_recipes_and_python_have_the_defaults_of_limits():
    defaults = {name: p.default for name, p in inspect.signature(Verifier).parameters.items()}
    limits = Limits()
    assert VerifierSettings().limits() == limits
    assert Limits(**{name: defaults[name] for name in vars(limits)}) == limits
    assert defaults["workers"] is VerifierSettings().workers is None
    with Verifier() as one, VerifierSettings().open() as other:
        assert one.limits == other.limits == limits.described()
        assert len(one._workers) == len(other._workers) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("value", [0, -1.5, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["time_limit", "memory_limit", "output_limit"])
def test_a_limit_is_a_positive_number(field, value):
    with pytest.raises(ValueError, match=rf"{field}: must be .*, got {value}"):
        Limits(**{field: value})
