"""What CONTRIBUTING.md promises: a method is a row, a benchmark or a language a file; in a copy."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from maxatk.objectives import METHODS
from processes import patience

ROOT = Path(__file__).parents[1]
PARTS = ["src", "tests", "docs", "recipes", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PARTS += ["pyproject.toml", "mkdocs.yml"]

METHOD = """    "new_row": Method(
        credit="max_at_k", baseline="leave_one_out", scale="std", source="a test"
    ),
"""
FIRST_METHOD = next(iter(METHODS))
METHOD_DOCS = "| `new_row` | max_at_k | none | leave_one_out | std | a test |\n"

BENCHMARK = '''"""Sums: one line with two numbers."""

from maxatk.problems.benchmarks.base import (
    Benchmark,
    LeftOut,
    Row,
    RowOptions,
    SolvedProblem,
    stdin_tests,
)
from maxatk.problems.benchmarks.base import render
from maxatk.records import Problem


def convert(row: Row, options: RowOptions | None = None) -> SolvedProblem | LeftOut:
    """Return the problem of a row."""
    if not row["cases"]:
        return LeftOut(row["id"], "it has no tests")
    prompt = render("stdin", row["text"], style=(options or RowOptions()).prompt_style)
    tests = stdin_tests((given, expected) for given, expected in row["cases"])
    return SolvedProblem(Problem(row["id"], prompt, tests, source="sums"), row["solution"])


BENCHMARK = Benchmark(
    hub="nobody/sums",
    config=None,
    revision="0" * 40,
    splits=("test",),
    licence="MIT",
    size="1 row",
    convert=convert,
)
'''
BENCHMARK_ROW = {
    "id": "sums/0",
    "text": "Add two numbers.",
    "cases": [["1 2\\n", "3\\n"]],
    "solution": "print(sum(map(int, input().split())))",
}

LANGUAGE = '''"""C of 1999, by gcc or clang."""

from maxatk.verifier.languages.compiled import SHARED_OBJECT, compiled_language
from maxatk.verifier.languages.language import Compiler

C_OF_1999 = compiled_language(
    "c99",
    title="C99",
    marks="c99",
    seven='#include <stdio.h>\\nint main() { printf("7"); }\\n',
    compiler=Compiler(
        commands=("gcc", "clang"),
        source_name="program.c",
        flags=("-O2", "-std=c99"),
        fixed=SHARED_OBJECT,
        libraries=("-lm",),
    ),
)
'''
CONTEST_ROW = {
    "name": "twice",
    "description": "Double the number.",
    "public_tests": {"input": ["2\n"], "output": ["4\n"]},
    "private_tests": {"input": [], "output": []},
    "generated_tests": {"input": [], "output": []},
    "solutions": {"language": [], "solution": []},
    "time_limit": {"seconds": 1, "nanos": 0},
    "memory_limit_bytes": 1 << 28,
    "difficulty": 1,
    "cf_contest_id": 0,
    "cf_index": "",
    "source": 1,
    "input_file": "",
    "output_file": "",
}


@pytest.fixture
def copied(tmp_path):
    """Return the root of a copy of the project, with functions to change it and to run tests."""

    class Copy:
        root = tmp_path / "project"

        def edit(self, name, after, added):
            path = self.root / name
            text = path.read_text()
            assert text.count(after) == 1, (name, after)
            path.write_text(text.replace(after, after + added))

        def run(self, *arguments):
            environment = {
                name: value for name, value in os.environ.items() if name != "PYTHONPATH"
            }
            return subprocess.run(
                [sys.executable, "-m", *arguments],
                cwd=self.root,
                env={**environment, "PYTHONPATH": str(self.root / "src")},
                capture_output=True,
                text=True,
                timeout=patience(240),
            )

        def tests(self, *arguments):
            return self.run("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments)

    copy = Copy()
    copy.root.mkdir()
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, copy.root / part, ignore=ignored)
        else:
            shutil.copy(source, copy.root / part)
    return copy


@pytest.mark.long
def test_a_method_is_one_row_and_one_line_of_the_docs(copied):
    table = "src/maxatk/objectives/methods.py"
    lines = (copied.root / table).read_text().splitlines(keepends=True)
    copied.edit(table, next(line for line in lines if line.startswith("METHODS")), METHOD)
    rows = (copied.root / "docs/objectives.md").read_text().splitlines(keepends=True)
    place = next(i for i, row in enumerate(rows) if row.startswith(f"| `{FIRST_METHOD}` |"))
    copied.edit("docs/objectives.md", "".join(rows[place - 2 : place]), METHOD_DOCS)
    done = copied.tests("tests/objectives", "tests/test_docs.py", "-k", "new_row or its_row")
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_a_benchmark_is_a_module_a_row_and_a_section(copied):
    table = "src/maxatk/problems/benchmarks/__init__.py"
    (copied.root / "src/maxatk/problems/benchmarks/sums.py").write_text(BENCHMARK)
    copied.edit(table, "    mbpp,\n", "    sums,\n")
    copied.edit(table, '    "mbpp": mbpp.BENCHMARK,\n', '    "sums": sums.BENCHMARK,\n')
    copied.edit("docs/benchmarks.md", "### apps\n", "\nRows of lists.\n\n### sums\n")
    rows = copied.root / "rows.jsonl"
    rows.write_text(str(BENCHMARK_ROW).replace("'", '"').replace("\\\\n", "\\n") + "\n")
    done = copied.tests("tests/test_docs.py", "-k", "benchmark")
    assert done.returncode == 0, done.stdout
    out = copied.root / "sums.jsonl"
    made = copied.run("maxatk", "problems", "prepare", "sums", "--file", str(rows), "--out", out)
    assert made.returncode == 0, made.stderr
    checked = copied.run(
        "maxatk", "problems", "check", out, "--progress", "none", "--format", "json"
    )
    (counts,) = json.loads(checked.stdout)["checked"]
    assert (counts["passed"], counts["failed"]) == (1, 0), checked.stdout + checked.stderr


@pytest.mark.long
def test_a_language_is_a_file_and_its_place_among_the_languages(copied):
    languages = "src/maxatk/verifier/languages"
    (copied.root / languages / "c99.py").write_text(LANGUAGE)
    table = f"{languages}/__init__.py"
    copied.edit(
        table,
        "from maxatk.verifier.languages.c import C\n",
        "from maxatk.verifier.languages.c99 import C_OF_1999\n",
    )
    text = (copied.root / table).read_text()
    (copied.root / table).write_text(
        text.replace("(PYTHON_3, CPP, C)", "(PYTHON_3, CPP, C, C_OF_1999)")
    )
    tried = copied.run("maxatk", "doctor", "--format", "json")
    languages_here = {row["name"]: row for row in json.loads(tried.stdout)["languages"]}
    assert languages_here["c99"]["holds"], tried.stdout
    rows = copied.root / "rows.jsonl"
    rows.write_text(json.dumps(CONTEST_ROW) + "\n")
    out = copied.root / "twice.jsonl"
    made = copied.run(
        *("maxatk", "problems", "prepare", "code_contests", "--file", str(rows)),
        *("--out", out, "options.language=c99"),
    )
    assert made.returncode == 0, made.stderr
    problem = json.loads(out.read_text())
    assert problem["language"] == "c99"
    assert "C99" in problem["prompt"]
