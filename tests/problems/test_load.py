import logging

import pytest

from maxatk import load_problems
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.jsonl import write_jsonl
from maxatk.problems import BENCHMARKS, find_problem, load_benchmark
from maxatk.problems.load import read_problems
from maxatk.records import Problem, TestCase
from problems.rows import (
    ROWS,
    apps_row,
    codeforces_row,
    contest_row,
    contests_plus_row,
    cure_row,
    humaneval_row,
    lcb_row,
    livebench_row,
    mbpp_row,
)

ODD_ROW = mbpp_row(2, tests=["assert f(x) == 1"])


def write_problems(path, *names):
    case = TestCase(input="", output="")
    write_jsonl(path, (Problem(name, "do", (case,)).to_json() for name in names))
    return path


def test_a_problem_whose_tests_no_verifier_takes_is_named(tmp_path):
    tests = (TestCase(call="f(1", output="1"),)
    path = tmp_path / "problems.jsonl"
    write_jsonl(path, (Problem(name, "do", tests).to_json() for name in ("odd", "even")))
    with pytest.raises(InvalidValueError, match=r"^Problem 'odd': TestCase.*: call must be an"):
        read_problems(path)


@pytest.mark.parametrize(
    ("visible", "reason"),
    [
        (TestCase(call="f(1", output="1"), "TestCase.*: call must be an"),
        (TestCase(check="assert f(1) == 1"), "entry_point: a check test needs"),
    ],
)
def test_visible_tests_that_no_verifier_takes_are_named_too(tmp_path, visible, reason):
    hidden = (TestCase(call="f(1)", output="1"),)
    path = tmp_path / "problems.jsonl"
    write_jsonl(path, [Problem("odd", "do", hidden, visible_tests=(visible,)).to_json()])
    with pytest.raises(InvalidValueError, match=rf"^Problem 'odd': visible_tests: {reason}"):
        read_problems(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_rows_come_from_a_local_file(rows_file, name):
    path = rows_file(mbpp_row(1), ODD_ROW, mbpp_row(3), name=name)
    loaded = load_benchmark("mbpp", file=path)
    assert [solved.problem.id for solved in loaded.solved] == ["mbpp/1", "mbpp/3"]
    assert [row.row_id for row in loaded.left_out] == ["mbpp/2"]


def test_rows_that_are_left_out_are_counted_in_the_log(rows_file, caplog):
    with caplog.at_level(logging.WARNING):
        assert len(load_problems("mbpp", file=rows_file(mbpp_row(1), ODD_ROW))) == 1
    assert "mbpp: 1 row left out: 1 an assert is not of the form" in caplog.text


def test_the_limit_counts_problems_not_rows(rows_file):
    path = rows_file(ODD_ROW, mbpp_row(3), mbpp_row(4), mbpp_row(5))
    problems = load_problems("mbpp", file=path, limit=2)
    assert [problem.id for problem in problems] == ["mbpp/3", "mbpp/4"]


def test_a_problems_file_reads_as_it_is(tmp_path):
    path = write_problems(tmp_path / "own.jsonl", "a", "b", "c")
    assert [problem.id for problem in load_problems(path)] == ["a", "b", "c"]
    assert [problem.id for problem in load_problems(str(path), limit=2)] == ["a", "b"]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_below_one_is_refused(tmp_path, limit):
    path = write_problems(tmp_path / "own.jsonl", "a")
    for name, options in ((path, {}), ("mbpp", {"file": path})):
        with pytest.raises(InvalidValueError, match=f"limit: must be an integer of 1.*{limit}"):
            load_problems(name, limit=limit, **options)
    for problems in ([Problem("a", ""), Problem("b", "")], str(tmp_path / "b.jsonl")):
        with pytest.raises(InvalidValueError, match=f"limit: must be an integer of 1.*{limit}"):
            read_problems(problems, limit=limit)


@pytest.mark.parametrize("problems", [None, 5, Problem("a", ""), [Problem("a", ""), "b"]])
def test_what_is_no_list_of_problems_is_refused(problems):
    with pytest.raises(InvalidValueError, match="problems: must be a name, a path or a list"):
        read_problems(problems)


@pytest.mark.parametrize("problem_id", [5, None, ["a"]])
def test_an_id_that_is_no_text_is_refused(tmp_path, rows_file, problem_id):
    path = write_problems(tmp_path / "own.jsonl", "a")
    for name, keys in ((path, {}), ("mbpp", {"file": rows_file(mbpp_row(1))})):
        with pytest.raises(InvalidValueError, match="id: must be text, got"):
            find_problem(name, problem_id, **keys)


def test_unknown_names_are_refused_with_a_suggestion(rows_file):
    with pytest.raises(InvalidValueError, match=r"unknown value 'mbbp'.*did you mean 'mbpp'"):
        load_problems("mbbp")
    with pytest.raises(InvalidValueError, match="allowed: aime24, aime25, apps, code_contests"):
        load_benchmark("none")
    with pytest.raises(
        InvalidValueError, match=r"split: unknown value 'tset'.*did you mean 'test'"
    ):
        load_problems("mbpp", split="tset", file=rows_file(mbpp_row()))


def test_a_problems_file_has_neither_split_nor_file(tmp_path):
    path = write_problems(tmp_path / "own.jsonl", "a")
    with pytest.raises(InvalidValueError, match="split, file, revision, options: are for"):
        load_problems(path, split="test")


def test_a_local_file_has_no_splits(rows_file):
    with pytest.raises(InvalidValueError, match="split: a local file is read whole, so 'train'"):
        load_problems("code_contests", split="train", file=rows_file(contest_row()))


def test_a_local_file_whose_rows_tell_their_split_has_them(rows_file):
    file = rows_file(*(mbpp_row(i) for i in (10, 11, 510, 511, 600, 601, 974)))
    numbers = {
        split: [problem.id for problem in load_problems("mbpp", split=split, file=file)]
        for split in ("prompt", "test", "validation", "train")
    }
    assert numbers == {
        "prompt": ["mbpp/10"],
        "test": ["mbpp/11", "mbpp/510"],
        "validation": ["mbpp/511", "mbpp/600"],
        "train": ["mbpp/601", "mbpp/974"],
    }
    assert len(load_problems("mbpp", file=file)) == 7


def test_missing_files(tmp_path):
    with pytest.raises(MissingFileError, match=r"own\.jsonl: no such file"):
        load_problems(tmp_path / "own.jsonl")
    for name in ("rows.jsonl", "rows.json"):
        with pytest.raises(MissingFileError, match=name):
            load_problems("mbpp", file=tmp_path / name)


def test_rows_of_every_benchmark_of_the_paper_load(rows_file):
    assert set(ROWS) <= set(BENCHMARKS)
    for name, row in ROWS.items():
        (problem,) = load_problems(name, file=rows_file(row()))
        assert problem.source == name


NEEDED = {
    "apps": "input_output",
    "code_contests": "private_tests",
    "codeforces": "official_tests",
    "cure": "test_input",
    "humaneval": "entry_point",
    "livebench": "private_test_cases",
    "livecodebench": "contest_date",
    "mbpp": "test_list",
}


@pytest.mark.parametrize("task_id", [975, float("inf"), "x"])
def test_an_id_that_no_split_of_mbpp_holds_is_named(rows_file, task_id):
    with pytest.raises(DataError, match=r"row 0: does not have the schema"):
        load_problems("mbpp", file=rows_file(mbpp_row(1) | {"task_id": task_id}))


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_column_is_named_with_its_row_and_the_remedy(rows_file, name):
    row = ROWS[name]()
    column = NEEDED[name]
    bad = {key: value for key, value in row.items() if key != column}
    with pytest.raises(DataError) as refused:
        load_problems(name, file=rows_file(row, bad))
    message = str(refused.value)
    assert f"rows.jsonl, row 1: missing column '{column}'" in message
    assert f"a row of {BENCHMARKS[name].hub} is wanted" in message
    assert "bad_rows=leave_out" in message


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("mbpp", mbpp_row(test_list=None)),
        ("mbpp", mbpp_row(test_list="assert f(1) == 2")),
        ("cure", cure_row(test_output=["3"])),
        ("livecodebench", lcb_row(contest_date="soon")),
        ("livecodebench", lcb_row(metadata="{")),
        ("livecodebench", lcb_row(private_test_cases="gibberish")),
        ("livebench", livebench_row(original_json=None)),
        ("codeforces", codeforces_row(official_tests="none")),
        ("humaneval", humaneval_row(prompt=None)),
        ("apps", apps_row(input_output="[1, 2]")),
        ("mbpp", mbpp_row(code=None)),
        ("code_contests", contest_row(public_tests=None)),
        ("code_contests", contest_row(public_tests={"input": ["1"], "output": []})),
        ("code_contests", contest_row(public_tests={"input": [1], "output": ["1"]})),
        ("code_contests", contest_row(public_tests={"input": "12", "output": "34"})),
        ("code_contests", contest_row(solutions={"language": [3], "solution": [5]})),
        ("code_contests", contest_row(solutions={"language": [3], "solution": "5"})),
        ("code_contests", contest_row(description="\ud800")),
        ("cure", cure_row(solutions="print(1)")),
        ("cure", cure_row(dataset=["a"])),
        ("apps", apps_row(solutions='"print(1)"')),
        ("apps", apps_row(input_output='{"inputs": "12", "outputs": "34"}')),
        ("apps", apps_row(input_output='{"inputs": [{"1": 2}], "outputs": ["3"]}')),
        ("humaneval", humaneval_row(test=None)),
        ("humaneval", humaneval_row(test="")),
        ("humaneval", humaneval_row(entry_point=None)),
        ("livebench", livebench_row(solution=["print(1)"])),
        ("livecodebench", lcb_row(starter_code=[])),
        ("codeforces", codeforces_row(title=5)),
        ("codeforces", codeforces_row(note=["a"])),
        ("code_contests_plus", contests_plus_row(description=None)),
    ],
)
def test_a_row_of_another_schema_is_named(rows_file, name, row):
    with pytest.raises(DataError, match=r"rows\.jsonl, row 0: does not have the schema"):
        load_problems(name, file=rows_file(row))


ID_COLUMNS = {
    "aime25": "id",
    "apps": "problem_id",
    "code_contests": "name",
    "code_contests_o": "name",
    "code_contests_plus": "id",
    "codeforces": "id",
    "cure": "task_id",
    "humaneval": "task_id",
    "livebench": "question_id",
    "livecodebench": "question_id",
    "mbpp": "task_id",
    "table": "id",
}


@pytest.mark.parametrize("value", [None, "", [], {"a": 1}, float("nan"), True])
@pytest.mark.parametrize("name", ID_COLUMNS)
def test_a_row_without_a_name_takes_no_id_of_another(rows_file, name, value):
    # "None" as an id would make one problem of all such rows.
    column = ID_COLUMNS[name]
    options = {"id": "id"} if name == "table" else None
    path = rows_file(ROWS[name]() | {column: value})
    with pytest.raises(DataError, match="row 0: does not have the schema") as refused:
        load_problems(name, file=path, options=options)
    if name != "mbpp":  # whose ids tell the split, and are read for it first
        assert f"({column}: must be a text or a number for an id" in str(refused.value)


@pytest.mark.parametrize("text", ["{", "{}", "[1]", "\xff"])
def test_a_file_without_rows_is_refused(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"rows\.json"):
        load_problems("mbpp", file=path)


def test_an_empty_problems_file_and_a_repeated_id_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no problems"):
        load_problems(tmp_path / "empty.jsonl")
    with pytest.raises(DataError, match="the id 'a' occurs twice"):
        load_problems(write_problems(tmp_path / "own.jsonl", "a", "b", "a"))


def test_repeated_tests_of_a_problem_are_dropped(rows_file):
    twice = {"input": ["1 2\n", "1 2\n"], "output": ["3\n", "3\n"]}
    other_answer = {"input": ["1 2\n"], "output": ["3.0\n"]}
    path = rows_file(contest_row(public_tests=twice, private_tests=other_answer))
    assert len(load_benchmark("code_contests", file=path).solved[0].problem.tests) == 3


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mbpp", {"fom": "stdin"}, "options of mbpp: unknown key 'fom'; did you mean 'form'"),
        ("mbpp", {"form": "stdout"}, "options of mbpp.form: got 'stdout'; allowed: stdin, asserts"),
        ("livecodebench", {"release": "release_v7"}, "unknown value 'release_v7'; allowed: rele"),
        ("livecodebench", {"start_date": "June"}, "start_date: must be YYYY-MM-DD"),
        ("code_contests", {"max_difficulty": -1}, "max_difficulty: must be at least 0"),
        ("code_contests", {"compare": "token"}, "unknown value 'token'"),
        ("mbpp", {"form": "stdin", "visible_tests": 1}, "is for the form 'asserts', got form="),
    ],
)
def test_options_that_are_not_allowed_are_refused(rows_file, name, options, message):
    with pytest.raises(InvalidValueError) as refused:
        load_problems(name, file=rows_file(ROWS[name]()), options=options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("names", "options", "ids"),
    [
        (["test.jsonl", "test2.jsonl", "test3.jsonl"], {"release": "release_v2"}, ["a", "b"]),
        (["test.jsonl", "test2.jsonl", "test3.jsonl"], {"release": "v3"}, ["c"]),
    ],
)
def test_a_release_chooses_the_files_of_a_folder(rows_file, tmp_path, names, options, ids):
    for name, row_id in zip(names, "abc", strict=True):
        rows_file(lcb_row(row_id), name=name)
    problems = load_problems("livecodebench", file=tmp_path, options=options)
    assert [problem.id for problem in problems] == [f"livecodebench/{name}" for name in ids]
    with pytest.raises(MissingFileError, match=r"holds no 'test4\.jsonl'"):
        load_problems("livecodebench", file=tmp_path, options={"release": "v4"})


def test_a_split_chooses_the_files_of_a_folder(rows_file, tmp_path):
    for name in ("test-00000-of-00002", "test-00001-of-00002", "train-00000-of-00001"):
        rows_file(contest_row(name), name=f"{name}.json")
    ids = [problem.id[-14:] for problem in load_problems("code_contests", file=tmp_path)]
    assert ids == ["00000-of-00002", "00001-of-00002"]
    (train,) = load_problems("code_contests", file=tmp_path, split="train")
    assert train.id == "code_contests/train-00000-of-00001"
    with pytest.raises(MissingFileError, match="holds no file of split 'valid'"):
        load_problems("code_contests", file=tmp_path, split="valid")


def test_files_that_name_no_split_are_read_whatever_the_split(rows_file, tmp_path):
    rows_file(contest_row("a"), name="part-0.json")
    assert len(load_problems("code_contests", file=tmp_path, split="valid")) == 1


def test_one_problem_is_found_with_its_solution(rows_file):
    path = rows_file(ODD_ROW, mbpp_row(3), mbpp_row(4))
    assert find_problem("mbpp", "4", file=path) == find_problem("mbpp", "mbpp/4", file=path)
    assert "def add_all" in find_problem("mbpp", "3", file=path).solution
    with pytest.raises(InvalidValueError, match=r"id: '33' is not in mbpp.* mean 'mbpp/3"):
        find_problem("mbpp", "33", file=path)
    with pytest.raises(InvalidValueError, match="id: 'mbpp/2' is left out: an assert"):
        find_problem("mbpp", "2", file=path)
