import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import maxatk as maxatk_package
from maxatk import load_problems
from maxatk.cli.main import main
from maxatk.problems import BENCHMARKS
from problems.rows import codeforces_row, contest_row, lcb_row, livebench_row, mbpp_row

PAPER = Path(maxatk_package.__file__).parent / "recipes" / "paper" / "data.yaml"


def write_rows(path, *rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path.name


def refused(done):
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_list_names_every_benchmark_with_licence_and_options(maxatk):
    listed = maxatk("problems", "list").stdout
    for name, benchmark in BENCHMARKS.items():
        assert f" {name} " in listed
        assert benchmark.licence.split()[0] in listed
    assert "max_difficulty" in listed


def test_a_problem_is_shown_with_its_tests_and_its_solution(maxatk, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", mbpp_row(7))
    shown = maxatk("problems", "show", "mbpp", "7", "--file", rows).stdout
    for part in ("mbpp/7", "tests: 2", "compare: literal", "You are an expert", "test 0, input"):
        assert part in shown
    assert "def add_all(xs, n):" in shown
    asserts = maxatk("problems", "show", "mbpp", "7", "form=asserts", "--file", rows).stdout
    assert "add_all = candidate\nassert add_all(" in asserts
    maxatk("problems", "prepare", "mbpp", "--file", rows, "--out", "made.jsonl")
    assert "def add_all" in maxatk("problems", "show", "made.jsonl", "mbpp/7").stdout
    missing = maxatk("problems", "show", "mbpp", "8", "--file", rows)
    assert "id: '8' is not in mbpp, which has 1 problem; did you mean 'mbpp/7'?" in refused(missing)


def test_only_a_preparation_says_that_it_resumes(monkeypatch, tmp_path, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("maxatk.cli.problems_prepare.prepare", interrupted)
    monkeypatch.setattr("maxatk.cli.problems.checked_problems", interrupted)
    rows = tmp_path / "rows.jsonl"
    write_rows(rows, mbpp_row(7))
    out = str(tmp_path / "made.jsonl")
    assert main(["problems", "prepare", "mbpp", "--file", str(rows), "--out", out]) == 130
    assert capsys.readouterr().err.endswith("interrupted; the same command resumes\n")
    assert main(["problems", "check", out]) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")


@pytest.mark.parametrize("setting", ["limit=1", "options.instruct=true"])
def test_a_setting_behind_the_fields_of_a_table_is_told_where_to_stand(setting, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    write_rows(rows, {"question": "1 + 1", "gold": 2}, {"question": "1 + 2", "gold": 3})
    command = ["problems", "prepare", "table", "--file", str(rows), "--out", str(tmp_path / "out")]
    assert main([*command, "--map", "prompt=question", "answer=gold", setting]) == 2
    assert f"--map {setting}: " in (message := capsys.readouterr().err)
    assert "give settings before --map" in message
    assert main([*command, setting, "--map", "prompt=question", "answer=gold"]) == 0


def test_a_recipe_prepares_its_sets_in_a_folder(maxatk, tmp_path):
    write_rows(tmp_path / "cc.jsonl", *(contest_row(f"{n}_A. Sum") for n in range(1, 11)))
    write_rows(tmp_path / "lcb.jsonl", lcb_row())
    sets = {
        "contests": {
            "benchmark": "code_contests",
            "file": "cc.jsonl",
            "parts": {"train": 8, "test": 2},
        },
        "live": {"benchmark": "livecodebench", "file": "nowhere.jsonl"},
    }
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({"sets": sets}))
    command = ("problems", "prepare", "data.yaml", "--out", "made")
    assert "'nowhere.jsonl' does not exist" in refused(maxatk(*command))
    assert not (tmp_path / "made").exists()  # refused before the other set was prepared
    done = maxatk(*command, "sets.live.file=lcb.jsonl")
    assert done.returncode == 0, done.stderr
    counts = {
        path.name: len(load_problems(path))
        for path in (tmp_path / "made").glob("*.jsonl")
        if "." not in path.stem
    }
    assert counts == {"contests-train.jsonl": 8, "contests-test.jsonl": 2, "live.jsonl": 1}
    one = maxatk(*command[:3], "--only", "contests", "--out", "one.jsonl")
    assert one.returncode == 0, one.stderr
    assert (tmp_path / "one-train.jsonl").is_file()
    for flags, message in (
        (("--out", "made.jsonl"), "out: the recipe has 2 sets, name a folder"),
        (("--out", "made.json"), "out: must be a file that ends in .jsonl or a folder"),
        (
            ("--only", "contest", "--out", "made"),
            "--only: unknown value 'contest'; allowed: contests, live; did",
        ),
        (("--file", "cc.jsonl", "--out", "made"), "--file: for a recipe write sets.NAME.file=..."),
    ):
        assert message in refused(maxatk(*command[:3], *flags))


def test_the_length_filter_needs_a_tokenizer_that_exists(maxatk, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", mbpp_row())
    flags = ("--file", rows, "--out", "x.jsonl")
    command = ("problems", "prepare", "mbpp", "max_prompt_tokens=9")
    assert "tokenizer: is needed to count max_prompt_tokens" in refused(maxatk(*command, *flags))
    command = (*command, "tokenizer=./none")
    assert "there is no folder './none'" in refused(maxatk(*command, *flags))


def save_policy(folder):
    from transformers import Qwen2Config

    from maxatk.mini.model import train_tokenizer

    tokenizer = train_tokenizer(["abcdefghijklmnopqrstuvwxyz \n"] * 2, vocabulary=1)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    Qwen2Config().save_pretrained(folder)


def test_the_papers_recipe_runs_on_folders_of_local_files(maxatk, tmp_path):
    save_policy(tmp_path / "policy")
    for name in ("cc", "lcb", "lb", "cf", "mbpp"):
        (tmp_path / name).mkdir()
    easy = [contest_row(f"p{n} sum", difficulty=n % 4, cf_contest_id=0) for n in range(20)]
    write_rows(tmp_path / "cc" / "train.jsonl", *easy, contest_row("9_A. Hard"))
    write_rows(tmp_path / "cc" / "test.jsonl", contest_row("2050_B. Two"))
    for number in ("", 2, 3, 4, 5, 6):
        write_rows(tmp_path / "lcb" / f"test{number}.jsonl", lcb_row(f"q{number}"))
    write_rows(tmp_path / "lb" / "test.jsonl", livebench_row())
    rows = [codeforces_row("2050/A"), codeforces_row("2051/C", aliases=["2050/B"])]
    write_rows(tmp_path / "cf" / "test.jsonl", *rows)
    write_rows(tmp_path / "mbpp" / "test.jsonl", mbpp_row(11))
    places = {"code_contests": "cc", "livecodebench": "lcb", "livebench": "lb", "codeforces": "cf"}
    done = maxatk(
        *("problems", "prepare", str(PAPER), "tokenizer=policy", "sets.mbpp.file=mbpp"),
        "sets.code_contests.max_prompt_tokens=2000",
        "sets.codeforces.overlap.file=cc",
        *(f"sets.{name}.file={folder}" for name, folder in places.items()),
        *("--out", "made"),
    )
    assert done.returncode == 0, done.stderr
    counts = {
        p.stem: len(load_problems(p))
        for p in (tmp_path / "made").glob("*.jsonl")
        if "." not in p.stem and p.stat().st_size
    }
    assert counts == {
        "code_contests-train": 18,
        "code_contests-test": 2,
        "livecodebench": 6,
        "livebench": 1,
        "codeforces": 1,
        "mbpp": 1,
    }
    assert "its difficulty is above 3" in done.stdout
    assert re.search("codeforces +│ is in code_contests too", done.stdout)


def test_prompts_are_counted_by_the_tokenizer_of_the_policy(maxatk, tmp_path):
    save_policy(tmp_path / "policy")
    long = mbpp_row(2, text="long " * 500)
    rows = write_rows(tmp_path / "rows.jsonl", mbpp_row(1), long)
    done = maxatk(
        *("problems", "prepare", "mbpp", "--file", rows, "--out", "made.jsonl"),
        *("max_prompt_tokens=1500", "tokenizer=policy"),
    )
    assert done.returncode == 0, done.stderr
    assert "its prompt is longer than 1500 tokens" in done.stdout
    assert [problem.id for problem in load_problems(tmp_path / "made.jsonl")] == ["mbpp/1"]


def test_a_failing_solution_is_reported_and_its_problem_can_be_dropped(maxatk, tmp_path):
    wrong = mbpp_row(2, code="def add_all(xs, n):\n    raise ValueError('no')")
    rows = write_rows(tmp_path / "rows.jsonl", mbpp_row(1), wrong, mbpp_row(3))
    maxatk("problems", "prepare", "mbpp", "--file", rows, "--out", "made.jsonl")
    done = maxatk("problems", "check", "made.jsonl", "--drop", "good.jsonl")
    assert done.returncode == 0, done.stderr
    assert re.search(r"made.jsonl +│ 2 +│ 1 +│ 0 +│ 0 ", done.stdout)
    assert "ValueError: no" in done.stdout
    assert "good.jsonl: 2 problems" in done.stdout
    good = load_problems(tmp_path / "good.jsonl")
    assert [problem.id for problem in good] == ["mbpp/1", "mbpp/3"]


@pytest.mark.parametrize("lines", [None, '{"problem_id": "x", "sample": 0, "completion": ""}'])
def test_solutions_of_other_problems_are_refused(maxatk, tmp_path, lines):
    rows = write_rows(tmp_path / "rows.jsonl", mbpp_row(1))
    maxatk("problems", "prepare", "mbpp", "--file", rows, "--out", "made.jsonl")
    solutions = tmp_path / "made.solutions.jsonl"
    if lines:
        solutions.write_text(lines)
    else:
        solutions.unlink()
    message = refused(maxatk("problems", "check", "made.jsonl"))
    assert ("unknown problem 'x'" if lines else "made.solutions.jsonl: no such file") in message
    if lines is None:  # the message has a line that such a file may have
        line = json.loads(message[message.index("{") :])
        assert "sample" not in line  # solutions have no numbers
        write_rows(solutions, {**line, "problem_id": "mbpp/1"})
        assert maxatk("problems", "check", "made.jsonl").returncode == 0
        assert line["completion"] in maxatk("problems", "show", "made.jsonl", "mbpp/1").stdout


def test_problems_of_which_nothing_can_be_checked_are_counted(maxatk, tmp_path):
    write_rows(tmp_path / "p.jsonl", {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y"})
    checked = maxatk("problems", "check", "p.jsonl", "--format", "json")
    counts = {"problems": "p.jsonl", "without_tests_and_answer": 2}
    assert json.loads(checked.stdout)["checked"] == [counts]


def test_calls_that_a_program_could_answer_without_a_right_value_are_named(maxatk, tmp_path):
    calls = ("f(1)", "abs(f(1) - 3) < 1e-6", "f(1) == 3")
    rows = [{"id": call, "prompt": "x", "tests": [{"call": call, "output": "3"}]} for call in calls]
    write_rows(tmp_path / "p.jsonl", *rows)
    write_rows(tmp_path / "p.solutions.jsonl", {"problem_id": "f(1)", "completion": "f = None"})
    checked = maxatk("problems", "check", "p.jsonl")
    assert checked.returncode == 0, checked.stderr
    message = " ".join(checked.stderr.split())
    example = "'abs(f(1) - 3) < 1e-6' of 'abs(f(1) - 3) < 1e-6'"
    assert f"2 problems with a test whose `call` does more than call, such as {example}" in message
    assert "evaluated inside the program, which can replace abs, sorted or ==" in message


def test_rows_that_all_fall_away_are_counted_and_refused(maxatk, tmp_path):
    odd = mbpp_row(tests=["assert f(x) == 1"])
    rows = write_rows(tmp_path / "rows.jsonl", odd)
    done = maxatk("problems", "prepare", "mbpp", "--file", rows, "--out", "made.jsonl")
    assert "no row became a problem" in refused(done)
    assert "an assert is not of the form" in done.stdout


def test_ambiguous_problems_are_listed_and_a_checker_by_id_settles_them(maxatk, tmp_path):
    solutions = {"language": [3, 3], "solution": ["print(7)", "print(8)"]}
    tests = {"input": ["1\n"], "output": ["7\n"]}
    row = contest_row("1_A. Digit", solutions=solutions, public_tests=tests)
    rows = write_rows(tmp_path / "rows.jsonl", row)
    maxatk(
        "problems", "prepare", "code_contests", "solutions=2", "--file", rows, "--out", "p.jsonl"
    )
    checked = maxatk("problems", "check", "p.jsonl", "--ambiguous", "--drop", "good.jsonl")
    assert "ambiguous" in checked.stdout
    assert "good.jsonl: 0 problems" in checked.stdout
    checker = "import sys\nprint(int(open(sys.argv[3]).read().strip().isdigit()))\n"
    checker_row = {"id": "code_contests/1_A. Digit", "checker": checker}
    write_rows(tmp_path / "checkers.jsonl", checker_row)
    words = ("--checkers", "checkers.jsonl", "--drop", "good.jsonl")
    settled = maxatk("problems", "check", "p.jsonl", "--ambiguous", *words)
    assert "good.jsonl: 1 problem\n" in settled.stdout
    assert load_problems(tmp_path / "good.jsonl")[0].checker == checker


@pytest.mark.skipif(find_spec("math_verify") is None, reason="math-verify is not installed")
def test_answers_are_checked_in_the_forms_that_models_write(maxatk, tmp_path):
    lines = [
        {"id": "a", "prompt": "", "answer": "42"},
        {"id": "b", "prompt": "", "answer": "Paris"},
    ]
    write_rows(tmp_path / "p.jsonl", *lines)
    checked = maxatk("problems", "check", "p.jsonl", "--format", "json", "--drop", "good.jsonl")
    printed = json.loads(checked.stdout)
    assert [row["problem_id"] for row in printed["unrecognised"]] == ["b"]
    assert [problem.id for problem in load_problems(tmp_path / "good.jsonl")] == ["a"]
    aside = maxatk("problems", "check", "p.jsonl", "--ambiguous")
    assert "--ambiguous: is for problems with tests, of which 'p.jsonl' has none" in refused(aside)


@pytest.mark.skipif(find_spec("math_verify") is None, reason="math-verify is not installed")
def test_tests_and_answers_of_one_file_are_both_checked(maxatk, tmp_path):
    lines = [
        {"id": "six", "prompt": "", "tests": [{"input": "", "output": "6"}]},
        {"id": "seven", "prompt": "", "tests": [{"input": "", "output": "7"}]},
        {"id": "answered", "prompt": "", "answer": "42"},
        {"id": "unreadable", "prompt": "", "answer": "Paris"},
    ]
    solutions = {"six": "print(6)", "seven": "print(6)", "answered": r"It is \boxed{42}."}
    samples = [
        {"problem_id": name, "sample": 0, "completion": text} for name, text in solutions.items()
    ]
    write_rows(tmp_path / "p.jsonl", *lines)
    write_rows(tmp_path / "p.solutions.jsonl", *samples)
    checked = maxatk("problems", "check", "p.jsonl", "--format", "json", "--drop", "good.jsonl")
    printed = json.loads(checked.stdout)
    counts = {"passed": 1, "failed": 1, "unverified": 0, "without_solution": 0}
    assert printed["checked"] == [{"problems": "p.jsonl", **counts, "answers": 2, "recognised": 1}]
    assert [row["problem_id"] for row in printed["failures"]] == ["seven"]
    assert [row["problem_id"] for row in printed["unrecognised"]] == ["unreadable"]
    assert [p.id for p in load_problems(tmp_path / "good.jsonl")] == ["six", "answered"]
    ambiguous = json.loads(
        maxatk("problems", "check", "p.jsonl", "--ambiguous", "--format", "json").stdout
    )
    assert ambiguous["checked"] == [
        {"problems": "p.jsonl", "ambiguous": 0, "alike": 0, "unknown": 2}
    ]


def test_a_column_is_named_as_it_is_and_not_as_yaml(maxatk, tmp_path):
    (tmp_path / "rows.csv").write_text("Task: text,1,Answer #\nDouble it.,x,2\n")
    command = ("problems", "prepare", "table", "--file", "rows.csv", "--out", "made.jsonl")
    fields = ("--map", "prompt=Task: text", "id=1", "answer=Answer #")
    done = maxatk(*command, *fields)
    assert done.returncode == 0, done.stderr
    (problem,) = load_problems(tmp_path / "made.jsonl")
    assert (problem.id, problem.prompt, problem.answer) == ("x", "Double it.", "2")
    for flags, message in (
        (("--map", "id=1", "id=2"), "map: 'id' is given twice, as '1' and '2'"),
        (("options.id=1", "--map", "id=1"), "--map id=1: options.id is given too, as 1"),
    ):
        assert message in refused(maxatk(*command, *flags))
    (tmp_path / "data.yaml").write_text("sets: {mine: {benchmark: table, file: rows.csv}}\n")
    of_recipe = ("problems", "prepare", "data.yaml", "--out", "made", "--map", "id=1")
    assert "--map: for a recipe write sets.NAME.options.FIELD" in refused(maxatk(*of_recipe))
