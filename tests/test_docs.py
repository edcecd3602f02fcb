"""The documents say what is so: examples run, names exist, links lead somewhere."""

import ast
import dataclasses
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from maxatk import METHODS, advantages, max_at_k, pass_at_k
from maxatk.cli.commands import COMMANDS
from maxatk.problems import BENCHMARKS
from maxatk.problems.load import read_problems
from maxatk.records import Problem
from maxatk.verifier import Verifier
from maxatk.verifier.jobs import problem_job

ROOT = Path(__file__).parents[1]
FOLDERS = ("", "docs", "docs/tutorials", "docs/reference", "docs/reference/api", "recipes")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def name_of(page):
    return str(page.relative_to(ROOT))


def test_every_command_in_a_document_exists():
    command = re.compile(r"^maxatk ([a-z]+)", re.M)
    shown = {
        name for page in PAGES for block in blocks(page, "sh") for name in command.findall(block)
    }
    assert {"train", "eval", "compare"} <= shown <= set(COMMANDS)


def test_every_workflow_calls_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    called = {name for text in workflows for name in re.findall(r"make ([a-z-]+)$", text, re.M)}
    matrix = {name for text in workflows for name in re.findall(r"test-\w+", text)}
    assert {"check", "test"} <= called | matrix <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_of_the_package_exist(page):
    for dotted in set(re.findall(r"`(maxatk(?:\.\w+)+)", page.read_text())):
        assert resolves(dotted), dotted


def resolves(dotted):
    module, _, attribute = dotted.rpartition(".")
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(module), attribute)
    return True


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_method_has_its_row():
    text = (ROOT / "docs" / "objectives.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|", text, re.M)
    assert rows == [
        (name, method.credit, method.correction, method.baseline, method.scale)
        for name, method in METHODS.items()
    ]


def test_every_benchmark_has_its_section():
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    headings = re.findall(r"^### (.+)$", text, re.M)
    described = {name for heading in headings for name in heading.split(", ")}
    assert set(BENCHMARKS) <= described


def test_what_a_method_is_unbiased_for_is_what_its_row_says():
    text = (ROOT / "docs" / "objectives.md").read_text()
    table = text.partition("## What each method is for")[2].partition("##")[0]
    claims = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.M))
    assert len(claims) >= 21
    for name, claim in claims.items():
        assert claim.startswith(METHODS[name].unbiased_for or "nothing"), name


def test_the_paper_is_mapped_to_its_end():
    text = (ROOT / "docs" / "paper.md").read_text()
    assert all(f"({number})" in text for number in range(1, 12))
    assert all(f"\n| {number}, " in text for number in (1, 2, 3))
    assert "5 to 14" in text


def examples_of(page):
    """Return value, text and line of each line of a page's Python that says what it returns."""
    for block in blocks(page, "python"):
        scope = {}
        if "  # [" not in block:
            continue
        exec(block, scope)
        for line in block.splitlines():
            code, _, comment = line.partition("  # ")
            if comment.startswith(("[", "(")):
                yield eval(code, scope), ast.literal_eval(comment), line


def test_the_examples_of_the_manual_print_what_they_say():
    pages = [page for page in PAGES if page.parent == ROOT / "docs"]
    examples = [example for page in pages for example in examples_of(name_of(page))]
    assert len(examples) >= 6
    for value, documented, line in examples:
        np.testing.assert_allclose(value, documented, atol=1e-4, err_msg=line)


def test_the_comparison_has_the_numbers_of_every_method_that_it_names():
    rewards = [[0.0, 0.0, 0.5, 1.0]]
    text = (ROOT / "docs" / "comparison.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| [^|]+ \|((?: -?\d\.\d{3} \|){4})$", text, re.M)
    assert len(rows) == 11
    for name, numbers in rows:
        documented = [float(number) for number in numbers.split("|")[:4]]
        np.testing.assert_allclose(
            advantages(rewards, name, k=2)[0], documented, atol=5e-4, err_msg=name
        )
    assert f"| maxatk | `max_at_k(rewards, 2)` | {max_at_k(rewards, 2)[0]:.3f} |" in text
    assert f"| maxatk | `pass_at_k(4, 1, 2)` | {pass_at_k(4, 1, 2):.3f} |" in text


RIGHT_PROGRAMS = {
    "sum": "print(sum(map(int, input().split())))",
    "double": "def double(x):\n    return 2 * x\n",
    "order": "def order(a):\n    return sorted(a)\n",
}


def test_the_problem_file_of_the_manual_is_read_and_its_tests_pass(tmp_path):
    [lines] = blocks("docs/problems.md", "json")
    file = tmp_path / "problems.jsonl"
    file.write_text(lines)
    problems = read_problems(file)
    assert list(problems) == ["sum", "double", "order", "apples"]
    with Verifier(workers=1) as verifier:
        jobs = [problem_job(text, problems[name]) for name, text in RIGHT_PROGRAMS.items()]
        assert [verdict.reward for verdict in verifier.verify_many(jobs)] == [1.0, 1.0, 1.0]
    assert problems["apples"].answer == "3"


def test_the_manual_has_every_field_of_a_problem():
    text = (ROOT / "docs" / "problems.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \| [a-z ]+ \| ", text, re.M)
    assert sorted(documented) == sorted(field.name for field in dataclasses.fields(Problem))
