import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.mini.problems import ANSWERS, OPERATIONS, READ, Pipeline

STAGES = [stage for group in OPERATIONS.values() for stage in group]
numbers = st.lists(st.integers(-20, 20), max_size=6)
pipelines = st.builds(
    lambda operations, answer: Pipeline((*operations, answer)),
    st.lists(st.sampled_from(STAGES), max_size=3),
    st.sampled_from(ANSWERS),
)

# Runs (source, input) pairs in an interpreter of their own; prints what each of them printed.
RUN_ALL = """
import contextlib, io, json, sys
printed = []
for source, given in json.load(sys.stdin):
    out = io.StringIO()
    program_input = io.StringIO(given)
    with contextlib.redirect_stdout(out):
        try:
            exec(source, {"input": lambda: program_input.readline().rstrip("\\n")})
        except Exception:
            out = None
    printed.append(out and out.getvalue())
json.dump(printed, sys.stdout)
"""


def test_there_are_four_categories_of_operations_and_ten_answers():
    assert list(OPERATIONS) == ["order", "cut", "change", "keep"]
    assert all(6 <= len(group) <= 10 for group in OPERATIONS.values())
    assert len(ANSWERS) == 10


def test_names_and_lines_are_unique_and_one_line_each():
    stages = [*STAGES, *ANSWERS]
    words = [stage.name for stage in stages] + [*OPERATIONS, "answer"]
    assert len(set(words)) == len(words)
    assert len({stage.line for stage in stages}) == len(stages)
    assert all(stage.line.count("\n") == 1 and stage.line.endswith("\n") for stage in stages)


def test_output_is_what_an_interpreter_of_its_own_prints():
    import json

    inputs = [[], [3], [-2, 5], [0, 4, 4, -1]]
    chosen = [
        Pipeline((*operations, answer))
        for operations in [(), *((s,) for s in STAGES), *itertools.pairwise(STAGES)]
        for answer in ANSWERS
    ]
    cases = [(pipeline, values) for pipeline in chosen for values in inputs]
    task = [(pipeline.source, " ".join(map(str, values)) + "\n") for pipeline, values in cases]
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input=json.dumps(task), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [pipeline.output(values) for pipeline, values in cases]


@pytest.mark.parametrize(
    ("operations", "answer", "values", "expected"),
    [
        (["sort"], "all", [3, -1, 2], "-1 2 3\n"),
        (["size", "two"], "all", [-3, 1, 2], "1 2\n"),
        (["pos", "square"], "sum", [-2, 3, 4], "25\n"),
        (["deal"], "all", [1, 2, 3, 4], "1 3 2 4\n"),
        (["tail"], "all", [1], "\n"),
        (["tail"], "max", [1], None),
        (["mid"], "first", [1, 2], None),
        (["half"], "spread", [-3, 3], "3\n"),
    ],
)
def test_examples_by_hand(operations, answer, values, expected):
    by_name = {stage.name: stage for stage in [*STAGES, *ANSWERS]}
    pipeline = Pipeline(tuple(by_name[name] for name in (*operations, answer)))
    assert pipeline.output(values) == expected


@given(pipelines, numbers)
def test_output_leaves_its_argument_alone_and_is_one_line(pipeline, values):
    before = list(values)
    output = pipeline.output(values)
    assert values == before
    assert output is None or (output.endswith("\n") and output.count("\n") == 1)
    assert pipeline.output(values) == output


@given(pipelines)
def test_the_source_is_one_line_a_stage(pipeline):
    assert pipeline.source.startswith(READ)
    assert pipeline.source.count("\n") == 1 + len(pipeline.stages)
    compile(pipeline.source, "<test>", "exec")
