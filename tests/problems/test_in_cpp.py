"""Benchmarks asked for in C++, from their rows to scores."""

import json

import pytest

from maxatk import load_problems
from maxatk.errors import InvalidValueError
from maxatk.jsonl import read_jsonl, write_jsonl
from maxatk.problems import PrepareSettings, prepare
from maxatk.problems.benchmarks import code_contests, code_contests_plus, livecodebench
from maxatk.problems.benchmarks.base import LeftOut
from maxatk.records import Problem, Sample, Score
from maxatk.settings import from_mapping
from maxatk.verifier import Verifier, problem_job
from problems.rows import ROWS, contest_row, contests_plus_row, lcb_call_row
from verifier.compilers import needs_compiler
from verifier.test_languages import TESTLIB

IN_CPP = ["apps", "code_contests", "code_contests_plus", "code_contests_o", "codeforces", "cure",
          "livecodebench"]  # fmt: skip
SUM = """\
#include <iostream>
int main() { long long s = 0, x; while (std::cin >> x) s += x; std::cout << s; }
"""


def prepared(rows_file, tmp_path, name, **options):
    path = rows_file(ROWS[name]())
    settings = {"benchmark": name, "file": str(path), "options": options}
    out = tmp_path / "out.jsonl"
    prepare(from_mapping(PrepareSettings, settings, where="settings"), out)
    return load_problems(out)


@pytest.mark.parametrize("name", IN_CPP)
def test_prompts_ask_for_the_language_and_problems_name_it(rows_file, tmp_path, name):
    options = {"foreign_checkers": "ignore"} if "_plus" in name or name.endswith("_o") else {}
    (problem,) = prepared(rows_file, tmp_path, name, language="cpp", **options)
    assert problem.language == "cpp"
    assert "writes correct and efficient C++." in problem.prompt
    assert "whole program in one ```cpp block" in problem.prompt
    assert "Python" not in problem.prompt.replace(problem.source, "")


def test_without_the_option_a_problem_names_no_language(rows_file, tmp_path):
    (problem,) = prepared(rows_file, tmp_path, "codeforces")
    assert problem.language is None
    assert "correct and efficient Python 3." in problem.prompt
    assert "language" not in problem.to_json()


def test_a_base_model_is_asked_by_a_comment_of_the_language(rows_file, tmp_path):
    (problem,) = prepared(
        rows_file, tmp_path, "code_contests", language="cpp", prompt_style="plain"
    )
    assert problem.prompt.endswith("\n\n// Solution in C++\n")


@pytest.mark.parametrize("name", sorted(set(ROWS) - set(IN_CPP)))
def test_benchmarks_of_calls_refuse_the_option(rows_file, tmp_path, name):
    with pytest.raises(InvalidValueError, match=f"options of {name}: language: its tests call"):
        prepared(rows_file, tmp_path, name, language="cpp")


def test_problems_of_calls_are_left_out_by_name():
    left_out = livecodebench.convert(lcb_call_row(), livecodebench.Options(language="cpp"))
    assert isinstance(left_out, LeftOut)
    assert left_out.reason == "its tests call a function of Python"


def test_reference_solutions_are_those_in_the_language():
    row = contest_row(solutions={"language": [2, 3], "solution": [SUM, "print(3)"]})
    assert code_contests.convert(row, code_contests.Options(language="cpp")).solution == SUM
    assert code_contests.convert(row).solution == "print(3)"
    options = code_contests_plus.Options(language="cpp")
    assert code_contests_plus.convert(contests_plus_row(), options).solution == "int main() {}"


CHECKER = """\
#include "testlib.h"
int main(int argc, char **argv) {
    registerTestlibCmd(argc, argv);
    long digit = ouf.readLong();
    quitf(0 <= digit && digit <= 9 ? _ok : _wa, "one digit");
}
"""


@needs_compiler
def test_code_contests_plus_is_verified_by_its_own_checker(tmp_path):
    options = code_contests_plus.Options(foreign_checkers="use")
    problem = code_contests_plus.convert(contests_plus_row(checker=CHECKER), options).problem
    assert (problem.checker, problem.checker_language) == (CHECKER, "cpp")
    header = tmp_path / "testlib.h"
    header.write_text(TESTLIB)
    programs = ["print(7)", "print(8)", "print(12)", "print()"]
    with Verifier(workers=1, testlib=header) as verifier:
        verdicts = verifier.verify_many([problem_job(text, problem) for text in programs])
    assert [verdict.reward for verdict in verdicts] == [1.0, 1.0, 0.0, 0.0]
    no_program = contests_plus_row(checker="no program")
    assert "not in Python or C++" in code_contests_plus.convert(no_program, options).reason


@needs_compiler
def test_scores_of_samples_in_cpp_say_why_they_failed(maxatk, tmp_path):
    tests = ({"input": "1 2\n", "output": "3"}, {"input": "4\n", "output": "4"})
    problem = Problem.from_json(
        {"id": "p", "prompt": "Add.", "tests": list(tests), "language": "cpp"}
    )
    completions = [
        f"```cpp\n{SUM}```",
        f"```cpp\n// again\n{SUM}```",
        "```cpp\nint main() { return x; }\n```",
        "```python\nprint(3)\n```",
    ]
    write_jsonl(tmp_path / "problems.jsonl", [problem.to_json()])
    samples = (Sample("p", i, text).to_json() for i, text in enumerate(completions))
    write_jsonl(tmp_path / "samples.jsonl", samples)
    run = maxatk("score", "--samples", "samples.jsonl", "--problems", "problems.jsonl",
                 "--out", "run", "--verifier.flags", "cpp", " -O1 -std=c++17")  # fmt: skip
    assert run.returncode == 0, run.stderr
    scores = list(read_jsonl(tmp_path / "run/scores.jsonl", Score.from_json))
    assert [score.reward for score in scores] == [1.0, 1.0, 0.0, 0.0]
    assert [str(score.outcome) for score in scores[2:]] == ["compile_error", "other_language"]
    assert scores[0].program == scores[1].program
    failures = [json.loads(line) for line in (tmp_path / "run/failures.jsonl").open()]
    assert "‘x’ was not declared" in json.dumps(failures, ensure_ascii=False)
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["settings"]["verifier"]["flags"] == {"cpp": "-O1 -std=c++17"}
