"""Rows of the benchmarks' schemas, with problems of our own making."""

import base64
import functools
import json
import pickle
import zlib


def mbpp_row(task_id=1, *, tests=None, **changed):
    return {
        "task_id": task_id,
        "text": "Write a function to add a number to every item of a list.",
        "code": "def add_all(xs, n):\r\n  return [x + n for x in xs]",
        "test_list": tests
        or ["assert add_all([1, 2], 3) == [4, 5]", "assert add_all([], 1) == []"],
        "test_setup_code": "",
        "challenge_test_list": [],
        **changed,
    }


def contest_row(name="1_A. Sum", **changed):
    return {
        "name": name,
        "description": "Print the sum of the numbers of a line.",
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["4 4\n", "\n"], "output": ["8\n", "0\n"]},
        "generated_tests": {"input": ["-1\n"], "output": ["-1\n"]},
        "source": 2,
        "difficulty": 7,
        "solutions": {
            "language": [1, 3, 3],
            "solution": [
                "print sum(map(int, raw_input().split()))",
                "print(sum(map(int, input().split())))",
                "print(0)",
            ],
        },
        "incorrect_solutions": {"language": [], "solution": []},
        "cf_contest_id": 1,
        "cf_index": "A",
        "cf_points": 0.0,
        "cf_rating": 0,
        "cf_tags": [""],
        "is_description_translated": False,
        "untranslated_description": "",
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 256 << 20,
        "input_file": "",
        "output_file": "",
        **changed,
    }


def cure_row(task_id=0, **changed):
    return {
        "question": "Print the sum of the numbers of a line.",
        "example_input": ["1 2\n"],
        "example_output": ["3\n"],
        "test_input": ["1 2\n", "4 4\n"],
        "test_output": ["3\n", "8\n"],
        "solutions": ["print(sum(map(int, input().split())))"],
        "difficulty": 2,
        "task_id": task_id,
        "test_time_limit": 1,
        "exe_method": "stdin",
        "dataset": "CodeContests",
        **changed,
    }


def packed(tests):
    """Return tests as LiveCodeBench packs private ones: JSON in a pickle in zlib in base64."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


STDIN_TESTS = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
CALL_TESTS = [
    {"input": '[1, 2]\n"a"', "output": '{"a": [1, 2, null]}', "testtype": "functional"},
    {"input": "[]\ntrue", "output": "1e400", "testtype": "functional"},
]


def lcb_row(question_id="abc001_a", *, public=STDIN_TESTS, private=STDIN_TESTS, **changed):
    return {
        "question_title": "Sum",
        "question_content": "Print the sum of the numbers of a line.",
        "platform": "atcoder",
        "question_id": question_id,
        "contest_id": "abc001",
        "contest_date": "2024-09-14T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(private),
        "metadata": "{}",
        **changed,
    }


def lcb_call_row(**changed):
    return lcb_row(
        "3001",
        public=CALL_TESTS[:1],
        private=CALL_TESTS,
        platform="leetcode",
        starter_code=(
            "class Solution:\n    def pair(self, xs: List[int], key: str) -> Dict:\n        "
        ),
        **{"metadata": '{"func_name": "pair"}', **changed},
    )


def livebench_row(task="LCB_generation", **changed):
    row = lcb_row()
    completion = task == "coding_completion"
    return {
        "question_id": "0123abcd",
        "category": "coding",
        "turns": ["Print the sum of the numbers of a line, please."],
        "question_title": "Sum",
        "public_test_cases": row["public_test_cases"],
        "private_test_cases": row["private_test_cases"],
        "original_json": {
            name: row[name] for name in ("question_content", "starter_code", "metadata", "platform")
        },
        "release_date": "2024-06-24T00:00:00",
        "citation": "",
        "task": task,
        "livebench_release_date": "2024-06-24T00:00:00",
        "livebench_removal_date": "",
        "partial_solution": "numbers = input().split()" if completion else "",
        "solution": None,
        "remainder": "print(sum(map(int, numbers)))" if completion else None,
        **changed,
    }


def codeforces_row(row_id="2050/A", **changed):
    contest, index = row_id.split("/")
    return {
        "id": row_id,
        "aliases": None,
        "contest_id": contest,
        "contest_name": "A round",
        "contest_type": "CF",
        "contest_start": 1733207700,
        "contest_start_year": 2024,
        "index": index,
        "time_limit": 2.0,
        "memory_limit": 256.0,
        "title": "Any two",
        "description": "Find two positive numbers with the given sum.",
        "input_format": "One number.",
        "output_format": "Two numbers.",
        "interaction_format": None,
        "note": "Any answer is accepted.",
        "examples": [{"input": "3\n", "output": "1 2\n"}],
        "editorial": None,
        "rating": 800,
        "tags": [],
        "testset_size": 2,
        "official_tests": [
            {"input": "3\n", "output": "1 2\n"},
            {"input": "9\n", "output": "4 5\n"},
        ],
        "official_tests_complete": True,
        "input_mode": "stdio",
        "generated_checker": None,
        "executable": True,
        "generated_tests": 0,
        **changed,
    }


def humaneval_row(task_id="HumanEval/900", **changed):
    return {
        "task_id": task_id,
        "prompt": (
            "def twice(x):\n    return 2 * x\n\n\n"
            'def four_times(x: int) -> int:\n    """Return four times x."""\n'
        ),
        "canonical_solution": "    return twice(twice(x))\n",
        "test": (
            "METADATA = {}\n\n\ndef check(candidate):\n"
            "    for x in range(5):\n        assert candidate(x) == twice(x) + twice(x)\n"
        ),
        "entry_point": "four_times",
        **changed,
    }


def apps_row(problem_id=4000, **changed):
    return {
        "problem_id": problem_id,
        "question": "Print the sum of the numbers of a line.",
        "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
        "input_output": json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]}),
        "difficulty": "introductory",
        "url": "https://example.org/4000",
        "starter_code": "",
        **changed,
    }


def selected_apps_row(row_id=7, **changed):
    return {
        "name": str(row_id),
        "description": "Print the sum of the numbers of a line.",
        "difficulty": "introductory",
        "id": row_id,
        "sample_io": [{"input": "1 2", "output": ["3"]}],
        "test_list": [{"input": "1 2", "output": ["3"]}],
        "starter_code": "",
        **changed,
    }


GSM8K = {
    "question": "Ana has 1,200 nuts and eats 48/2 of them. How many are left?",
    "answer": "She eats 48/2 = <<48/2=24>>24.\n1,200 - 24 = <<1200-24=1176>>1,176\n#### 1,176",
}
MATH = {
    "problem": "Half of $x$ is $\\frac{1}{3}$. What is $x$?",
    "solution": "Twice, so \\boxed{\\frac{2}{3}}.",
    "answer": "\\frac{2}{3}",
    "subject": "Algebra",
    "level": 2,
    "unique_id": "test/algebra/7.json",
}
AIME24 = {
    "id": 60,
    "problem": "What is 5 squared?",
    "solution": "25",
    "answer": "025",
    "url": "somewhere",
    "year": "2024",
}
AIME25 = {"id": "0", "problem": "What is 7 times 10?", "answer": "70"}
MATHEMATICS = {"gsm8k": GSM8K, "math_500": MATH, "aime24": AIME24, "aime25": AIME25}

ANY_DIGIT = "import sys\nprint(int(open(sys.argv[3]).read().strip() in set('0123456789')))\n"
TESTLIB = (
    '#include "testlib.h"\nint main(int argc, char* argv[]) { registerTestlibCmd(argc, argv); }\n'
)


def contests_plus_row(row_id="1_A", **changed):
    return {
        "source": "Codeforces",
        "id": row_id,
        "title": "Any digit",
        "description": "Print any digit.",
        "time_limit": 2000,
        "memory_limit": 256,
        "checker": ANY_DIGIT,
        "generator": TESTLIB,
        "validator": TESTLIB,
        "correct_submissions": [
            {"language": "cpp", "code": "int main() {}"},
            {"language": "py3", "code": "print(7)"},
            {"language": "py3", "code": "print(8)"},
        ],
        "incorrect_submissions": [{"language": "py3", "code": "print(12)"}],
        "test_cases": [{"input": "1\n", "output": "7\n"}, {"input": "2\n", "output": "7\n"}],
        **changed,
    }


def contests_o_row(name="1_A. Any digit", **changed):
    return {
        "name": name,
        "description": "Print any digit.",
        "corner_cases": [{"input": {"stdin": "1\n"}, "output": {"stdout": "7\n"}}],
        "commands": ["./gen 1"],
        "generator": TESTLIB,
        "checker": ANY_DIGIT,
        "input_constraints_summary": "none",
        "results": [],
        **changed,
    }


ROWS = {
    "apps": apps_row,
    "code_contests": contest_row,
    "code_contests_plus": contests_plus_row,
    "code_contests_o": contests_o_row,
    "codeforces": codeforces_row,
    "cure": cure_row,
    "humaneval": humaneval_row,
    "livebench": livebench_row,
    "livecodebench": lcb_row,
    "mbpp": mbpp_row,
    **{name: functools.partial(dict, row) for name, row in MATHEMATICS.items()},
    "table": lambda: {"prompt": "1 + 1?", "answer": "2"},
}
"""Benchmark -> function that makes a row of it."""
