"""A table of one's own: where its fields are, and tests in every usual form."""

import json
import math

import pytest

from maxatk.errors import DataError
from maxatk.jsonl import read_jsonl
from maxatk.problems import PrepareSettings, load_problems, prepare
from maxatk.records import TestCase
from maxatk.settings import from_mapping
from maxatk.verifier import Verifier, problem_job
from tiny import one_thread, tiny_model  # noqa: F401

CASES = [{"stdin": "2", "stdout": "4"}, {"stdin": "3", "stdout": 9}]
PAIRS = (TestCase(input="2", output="4"), TestCase(input="3", output="9"))
ASSERTS = ["assert square(2) == 4", "assert square(max(1, 3)) == 9"]


def read(tmp_path, row, **options):
    (tmp_path / "mine.json").write_text(json.dumps([row]))
    return load_problems("table", file=tmp_path / "mine.json", options=options)


def test_paths_lead_to_fields_inside_others(tmp_path):
    row = {"task": {"statement": "Square it.", "uid": 7}, "cases": CASES, "level": 3}
    options = {"prompt": "task.statement", "id": "task.uid", "tests": "cases"}
    (problem,) = read(tmp_path, row, **options, input="stdin", output="stdout")
    assert (problem.id, problem.prompt, problem.meta) == ("7", "Square it.", {"level": 3})
    assert problem.tests == PAIRS
    assert problem.answer is None


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (["2"], "2"),
        ([2.5], "2.5"),
        (0, "0"),
        (True, "True"),
        ("[1, 2]", "[1, 2]"),
        ([], None),
        (math.nan, None),
    ],
)
def test_an_answer_is_a_text_a_number_or_a_list_of_one(tmp_path, value, answer):
    problems = read(tmp_path, {"prompt": "1 + 1 =", "answer": value})
    assert [problem.answer for problem in problems] == ([] if answer is None else [answer])


@pytest.mark.parametrize("value", [["2", "3"], {"value": "2"}, [["2"]]])
def test_an_answer_of_several_values_is_refused_and_one_of_them_can_be_named(tmp_path, value):
    row = {"prompt": "1 + 1 =", "gold": value}
    with pytest.raises(DataError, match=r"gold: must be a text or a number.*answer=gold.PLACE"):
        read(tmp_path, row, answer="gold")
    place = "value" if isinstance(value, dict) else "0"
    (problem,) = read(tmp_path, row, answer=f"gold.{place}")
    assert problem.answer == "2"


@pytest.mark.parametrize("name", [17, "seventeen"])
def test_a_column_id_names_the_rows_that_have_one(tmp_path, name):
    rows = [
        {"id": name, "prompt": "1 + 1 =", "answer": 2},
        {"id": "again", "prompt": "1 + 1 =", "answer": 2},
        {"id": None, "prompt": "2 + 2 =", "answer": 4},
        {"id": ["no", "name"], "prompt": "3 + 3 =", "answer": 6},
        {"prompt": "4 + 4 =", "answer": 8},
    ]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    problems = load_problems("table", file=tmp_path / "mine.json")
    assert [problem.id for problem in problems[:2]] == [str(name), "again"]
    digests = {problem.id for problem in problems[2:]}
    assert len(digests) == 3
    assert all(len(digest) == 12 for digest in digests)
    assert not any(problem.meta for problem in problems)
    options = {"id": "answer"}
    (first, *_) = load_problems("table", file=tmp_path / "mine.json", options=options, limit=1)
    assert (first.id, first.meta) == ("2", {"id": name})


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ({"tests": [{"input": "2", "output": "4"}, {"input": "3", "output": "9"}]}, {}),
        ({"tests": json.dumps(CASES)}, {"input": "stdin", "output": "stdout"}),
        ({"io": {"input": ["2", "3"], "output": ["4", "9"]}}, {"tests": "io"}),
        ({"in": ["2", "3"], "out": ["4", "9"]}, {"input": "in", "output": "out"}),
    ],
)
def test_tests_of_input_and_output_in_every_form(tmp_path, value, options):
    (problem,) = read(tmp_path, {"prompt": "Square it.", **value}, **options)
    assert problem.tests == PAIRS


@pytest.mark.parametrize("value", [ASSERTS, "\n".join(ASSERTS), json.dumps(ASSERTS)])
def test_asserts_are_tests_that_verify_programs(tmp_path, value):
    (problem,) = read(tmp_path, {"prompt": "Square it.", "checks": value}, tests="checks")
    assert problem.entry_point == "square"
    jobs = [
        problem_job(f"def square(n):\n    return {body}", problem) for body in ("n * n", "n + 2")
    ]
    with Verifier(workers=1) as verifier:
        assert [verdict.reward for verdict in verifier.verify_many(jobs)] == [1.0, 0.5]


LINES = "def lines(text):\n    return text.split('\\n')"
FIRST = 'assert lines("""ab\n  cd""") == ["ab", "  cd"]'
SEPARATED = "assert lines('a\x0cb\u2028c') == ['a\x0cb\u2028c']"
TWO = "class Solution:\n    def two(self, n):\n        return 2 * n"
STACK = """class Stack(list):
    def push(self, n):
        self.append(n)
"""


@pytest.mark.parametrize("checks", [[FIRST, SEPARATED], f"{FIRST}\n{SEPARATED}\n", [SEPARATED]])
def test_a_text_of_several_lines_in_an_assert_stays_as_it_is(tmp_path, checks):
    (problem,) = read(tmp_path, {"prompt": "Split.", "checks": checks}, tests="checks")
    assert len(problem.tests) == (1 if checks == [SEPARATED] else 2)
    jobs = [
        problem_job(program, problem) for program in (LINES, LINES.replace("text.split", "str"))
    ]
    with Verifier(workers=1) as verifier:
        assert [verdict.reward for verdict in verifier.verify_many(jobs)] == [1.0, 0.0]


@pytest.mark.parametrize("given_by_row", [{}, {"entry_point": "Solution"}, {"solution": TWO}])
def test_asserts_on_a_method_verify_it(tmp_path, given_by_row):
    checks = ["assert Solution().two(2) == 4", "assert max(Solution().two(3), 1) == 6"]
    (problem,) = read(tmp_path, {"prompt": "Twice.", "tests": checks, **given_by_row})
    assert problem.entry_point == "Solution().two"
    jobs = [problem_job(program, problem) for program in (TWO, TWO.replace("2 * n", "n + 2"))]
    with Verifier(workers=1) as verifier:
        assert [verdict.reward for verdict in verifier.verify_many(jobs)] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("check", "solution"),
    [
        ("s = Stack()\ns.push(1)\nassert s.pop() == 1", None),
        ("s = Stack()\ns.append(1)\nassert s.pop() == 1", None),
        ("assert Stack().size == 0", None),
        ("assert Stack([1]).top() == 1", None),
        ("assert len(Stack()) == 0", STACK),
        ("s = stack(3)\ns.push(1)\nassert s.pop() == 1", None),
        ("assert Stack().pop() == Stack().top()", None),
    ],
)
def test_asserts_on_an_object_of_the_program_leave_the_row_out(tmp_path, check, solution):
    rows = [
        {"prompt": "Stack.", "tests": [check], "solution": solution},
        {"prompt": "Square it.", "tests": ASSERTS, "solution": None},
    ]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    out = tmp_path / "problems.jsonl"
    recipe = {"benchmark": "table", "file": str(tmp_path / "mine.json")}
    prepare(from_mapping(PrepareSettings, recipe, where="settings"), out)
    (left_out,) = read_jsonl(tmp_path / "problems.left_out.jsonl", dict)
    assert left_out["reason"] == "an assert uses an object of the program's own class"


@pytest.mark.parametrize(
    "check",
    [
        "assert f(2).strip().upper() == 'A'",
        "value = f(2)\nassert value.count('a') == 1",
        "assert dict(f(3)).get('a') is None",
        "assert F(3) == [1]",
    ],
)
def test_a_method_of_a_plain_value_is_no_object_of_the_program(tmp_path, check):
    (problem,) = read(tmp_path, {"prompt": "Do it.", "tests": [check]})
    assert problem.entry_point in ("f", "F")


@pytest.mark.parametrize(
    "value",
    [
        {"fn_name": "f", "in": [[1, 2]], "out": [[3]]},
        [{"in": "[1]\n2", "out": "3", "testtype": "functional"}],
        [{"in": [1, 2], "out": 3, "type": "function_call", "fn_name": "f"}],
    ],
)
def test_the_arguments_of_a_function_are_no_standard_input(tmp_path, value):
    rows = [
        {"prompt": "Add.", "tests": json.dumps(value)},
        {"prompt": "Square it.", "tests": json.dumps([{"fn_name": None, "in": "2", "out": "4"}])},
    ]
    options = {"input": "in", "output": "out"}
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    (problem,) = load_problems("table", file=tmp_path / "mine.json", options=options)
    assert problem.tests == PAIRS[:1]


def test_a_test_function_that_nothing_calls_is_no_assert(tmp_path):
    row = {"prompt": "Square it.", "tests": ["def test_it():\n    assert square(2) == 4"]}
    with pytest.raises(DataError, match=r"row 0: .*nothing calls the functions in it"):
        read(tmp_path, row)


def test_lines_of_a_standard_input_are_texts(tmp_path):
    row = {"prompt": "Add.", "tests": [{"input": [[1, 2], 3], "output": "6"}]}
    with pytest.raises(
        DataError, match=r"must have texts for input and output, got \[\[1, 2\], 3\]"
    ):
        read(tmp_path, row)


@pytest.mark.parametrize(
    ("tests", "meta"), [(json.dumps(CASES), {"level": 3}), ("in two files", None)]
)
def test_a_text_of_tests_is_kept_once(tmp_path, tests, meta):
    row = {"prompt": "Square it.", "answer": "4", "tests": tests, "level": 3}
    options = {"input": "stdin", "output": "stdout"} if meta else {}
    (problem,) = read(tmp_path, row, **options)
    assert problem.meta == (meta or {"level": 3, "tests": tests})


@pytest.mark.parametrize("tests", [[], None, ""])
def test_a_row_of_a_table_of_both_kinds_may_have_an_answer_and_empty_tests(tmp_path, tests):
    row = {"prompt": "1 + 1 =", "answer": "2", "cases": tests, "level": 3}
    (problem,) = read(tmp_path, row, tests="cases", input="stdin", output="stdout")
    assert (problem.answer, problem.tests, problem.meta) == ("2", (), {"level": 3})
    (problem,) = read(tmp_path, {"prompt": "1 + 1 =", "answer": "2", "tests": tests})
    assert (problem.answer, problem.tests) == ("2", ())
    with pytest.raises(DataError, match="tests: must be a list of"):
        read(tmp_path, {**row, "answer": None}, tests="cases")


@pytest.mark.parametrize("answer", [None, "", [], math.nan])
def test_a_row_with_empty_tests_and_no_answer_is_refused(tmp_path, answer):
    with pytest.raises(DataError, match="tests: must be a list of"):
        read(tmp_path, {"prompt": "1 + 1 =", "tests": [], "answer": answer})


def test_a_number_that_is_missing_is_no_field(tmp_path):
    (problem,) = read(tmp_path, {"prompt": "x", "answer": "4", "level": math.nan, "year": 1999.0})
    assert problem.meta == {"year": 1999.0}


def test_input_and_output_of_another_meaning_are_no_tests(tmp_path):
    row = {"instruction": "Say it.", "input": "in French", "output": "Bonjour", "tests": 3}
    (problem,) = read(tmp_path, row, prompt="instruction", answer="output")
    assert (problem.answer, problem.tests) == ("Bonjour", ())
    assert problem.meta == {"input": "in French", "tests": 3}


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"q": "x"}, {}, r"missing column 'prompt'; got \['q'\]; --map FIELD=COLUMN or FIELD=path"),
        ({"prompt": "x"}, {"answer": "a.b"}, r"missing column 'a\.b'"),
        (
            {"prompt": "x", "t": 5},
            {"tests": "t"},
            "tests: must be a list of .*, or of texts such as",
        ),
        (
            {"prompt": "x", "t": [{"a": 1}]},
            {"tests": "t"},
            "tests: must be a list of .*got {'a': 1}",
        ),
        (
            {"prompt": "x", "t": {"inputs": ["1"], "outputs": ["2"]}},
            {"tests": "t"},
            "tests: must have 'input' and 'output', got inputs, outputs; --map input=NAME",
        ),
        ({"prompt": "x", "t": ["assert 1"]}, {"tests": "t"}, "must all call one function, got"),
        ({"prompt": "x", "t": ["assert f("]}, {"tests": "t"}, "an assert is no Python"),
        (
            {"prompt": "x", "i": ["1"], "o": []},
            {"input": "i", "output": "o"},
            "1 input and 0 outputs",
        ),
    ],
)
def test_what_is_missing_is_named_with_the_way_to_map_it(tmp_path, row, options, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, row, **options)


def test_an_evaluation_reads_a_table_by_the_same_map(tmp_path, maxatk, tiny_model):  # noqa: F811
    (tmp_path / "mine.csv").write_text('frage;faelle\nprint(1);"[{""i"": """", ""o"": ""1""}]"\n')
    done = maxatk(
        *("eval", "--model", tiny_model, "--problems", "mine.csv", "--out", "run"),
        *("--map", "prompt=frage", "tests=faelle", "--map", "input=i", "output=o"),
        *("--samples", "2", "--max-new-tokens", "2", "--progress", "none"),
    )
    assert done.returncode == 0, done.stderr
    done = maxatk("eval", "--model", tiny_model, "--problems", "mine.csv", "--out", "other")
    assert done.returncode == 2
    assert "any other table with --map prompt=COLUMN" in done.stderr
