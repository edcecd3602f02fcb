"""Rows of the benchmarks' schemas, with problems of our own making."""


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
