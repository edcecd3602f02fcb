import json
import os
import pty
import random
import re
import signal
import sys
import time

import pytest

from maxatk.cli.main import main
from maxatk.exchange import FORMATS
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from processes import patience, read_terminal
from runs import rows_of

DOUBLE = (TestCase(input="2\n", output="4\n"), TestCase(input="3\n", output="6\n"))


def steady(folder):
    """What two runs of one command must share: everything but measured times."""
    scores = rows_of(folder / "scores.jsonl")
    for row in scores:
        del row["seconds"]
    results = json.loads((folder / "results.json").read_text())
    del results["manifest"]
    return scores, results


def table_of(text):
    """Return {outcome: (samples, share)} of the table of outcomes."""
    rows = re.findall(r"│ (\w+) +│ ([\d,]+) +│ ([\d.]+%) +│", text)
    return {name: (int(number.replace(",", "")), share) for name, number, share in rows}


def test_the_summary_counts_every_outcome_and_what_was_found(maxatk, scoring):
    programs = [
        "print(2 * int(input()))",
        "print(4)",
        "1 / 0",
        "def",
        "while True: pass",
        "print('x' * (1 << 25))",
    ]
    done = maxatk(*scoring(*programs))
    assert done.returncode == 0, done.stderr
    assert "max@1" in done.stdout
    counts = {name: number for name, (number, _) in table_of(done.stdout).items()}
    assert counts == {
        "passed": 1,
        "wrong_answer": 1,
        "runtime_error": 1,
        "compile_error": 1,
        "time_limit": 1,
        "output_limit": 1,
    }
    assert table_of(done.stdout)["passed"][1] == "16.7%"
    assert done.stdout.endswith("\n6 verdicts\n")
    again = maxatk(*scoring(*programs))
    assert table_of(again.stdout) == table_of(done.stdout)
    assert again.stdout.endswith("\n0 verdicts, 6 found from before\n")


def test_a_reward_that_ends_the_process_ends_no_command(maxatk, scoring, tmp_path):
    (tmp_path / "own.py").write_text(
        "import os\nfrom os import _exit\n"
        "def size(completions, **_):\n"
        "    if os.fork() == 0:\n        os._exit(0)\n"  # a child of its own may end so
        "    assert os.wait()[1] == 0\n"
        "    if 'print(4)' in completions:\n        os._exit(0)\n"
        "    if 'print(5)' in completions:\n        _exit(256)\n"
        "    return [len(completion) / 10 for completion in completions]\n"
    )
    done = maxatk(
        *scoring("print(4)", "print(5)", "pass"),
        "--reward",
        "{reward: own.py:size, on_error: drop}",
    )
    assert done.returncode == 0, done.stderr
    assert [row["reward"] for row in rows_of(tmp_path / "score/scores.jsonl")] == [None, None, 0.4]
    assert "reward size: raised SystemExit: os._exit(0)" in done.stderr
    assert "max@1" in done.stdout
    (tmp_path / "own.py").write_text("import os\nos._exit(0)\n")
    done = maxatk(*scoring("pass", name="other"), "--reward", "own.py:size")
    assert done.returncode == 2
    assert "cannot be imported: SystemExit: os._exit(0)" in done.stderr


@pytest.mark.parametrize(
    "row",
    [{"completion": "    return 2 * x\n"}, {"solution": "def double(x):\n    return 2 * x\n"}],
)
def test_the_files_of_other_tools_are_verified_as_they_are(maxatk, tmp_path, row):
    tests = (TestCase(call="double(2)", output="4"),)
    write_jsonl(
        tmp_path / "p.jsonl",
        [Problem("HumanEval/0", "def double(x):\n", tests, entry_point="double").to_json()],
    )
    write_jsonl(tmp_path / "s.jsonl", [{"task_id": "HumanEval/0", **row}] * 2)
    done = maxatk("score", "--problems", "p.jsonl", "--samples", "s.jsonl", "--out", "scored")
    assert done.returncode == 0, done.stderr
    assert [(r["sample"], r["reward"]) for r in rows_of(tmp_path / "scored/scores.jsonl")] == [
        (0, 1.0),
        (1, 1.0),
    ]


@pytest.mark.parametrize("name", ["samples.csv", "samples.tsv"])
@pytest.mark.parametrize("numbered", [True, False])
def test_samples_to_be_verified_may_be_a_table_without_types(maxatk, tmp_path, name, numbered):
    write_jsonl(tmp_path / "p.jsonl", [Problem("p", "", DOUBLE).to_json()])
    columns = ["problem_id", "completion", *(["sample"] if numbered else [])]
    rows = [["p", "print(2 * int(input()))", "0"], ["p", "print(4)", "1"]]
    separator = "," if name.endswith(".csv") else "\t"
    lines = [separator.join(cells[: len(columns)]) for cells in (columns, *rows)]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    flags = ("--samples", name, "--problems", "p.jsonl", "--out", "o", "--verifier.workers", "1")
    done = maxatk("score", *flags)
    assert done.returncode == 0, done.stderr
    scores = rows_of(tmp_path / "o/scores.jsonl")
    assert [(row["sample"], row["reward"]) for row in scores] == [(0, 1.0), (1, 0.5)]


def test_all_bad_lines_are_reported_before_any_work(maxatk, scoring, tmp_path):
    arguments = scoring("print(4)", name="bad")
    samples = tmp_path / "bad-samples.jsonl"
    good = samples.read_bytes()
    bad = [
        b"{",
        b"[]",
        b'{"problem_id": "p", "sample": 1}',
        b'{"problem_id": "q", "sample": 1, "completion": ""}',
        good.strip(),
        b'{"problem_id": "p", "sample": "1", "completion": ""}',
        b'{"problem_id": "p", "sample": 2, "completion": "\xff"}',
    ]
    samples.write_bytes(good + b"\n".join(bad) + b"\n")
    done = maxatk(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    heading, *lines = done.stderr.splitlines()
    assert heading == f"maxatk: {samples}: 7 bad lines:"
    reasons = ("broken JSON", "must be a JSON object", "missing field 'completion'")
    reasons += ("unknown problem 'q'", "occurs twice", "must be int, got", "not UTF-8")
    for number, (line, reason) in enumerate(zip(lines, reasons, strict=True), start=2):
        assert line.strip().startswith(f"{samples}:{number}: ")
        assert reason in line
    assert not (tmp_path / "bad").exists()


@pytest.mark.long
def test_sigkill_at_random_moments_changes_nothing(maxatk, started, tmp_path):
    programs = [f"print({i % 3 + 3} * int(input()) // 2)  # {i}" for i in range(120)]
    write_jsonl(tmp_path / "p.jsonl", [Problem("p", "", DOUBLE).to_json()])
    write_jsonl(
        tmp_path / "s.jsonl", (Sample("p", i, text).to_json() for i, text in enumerate(programs))
    )
    command = ("score", "--problems", "p.jsonl", "--samples", "s.jsonl", "--verifier.workers", "1")
    whole = maxatk(*command, "--out", "whole")
    assert whole.returncode == 0, whole.stderr
    draw = random.Random(7)
    counts = []
    for target in sorted(draw.sample(range(1, 110), 4)):
        process = started(sys.executable, "-m", "maxatk", *command, "--out", "out", cwd=tmp_path)
        counts.append(kill_when_scored(process, tmp_path / "out" / "scores.jsonl", target))
    assert counts == sorted(counts), "a kill lost verdicts that were written"
    assert counts[0] < len(programs), "no kill came before the end"
    finished = maxatk(*command, "--out", "out")
    assert finished.returncode == 0, finished.stderr
    assert f", {counts[-1]} found from before" in finished.stdout
    assert steady(tmp_path / "out") == steady(tmp_path / "whole")


def kill_when_scored(process, scores, target):
    """SIGKILL a process once it has written so many verdicts; return how many it left."""
    deadline = time.monotonic() + patience(60)
    while not scores.is_file() or scores.read_bytes().count(b"\n") < target:
        assert time.monotonic() < deadline
        assert process.poll() is None, "it ended before the kill"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return scores.read_bytes().count(b"\n")


def test_a_terminal_shows_a_bar(scoring, started):
    leader, follower = pty.openpty()
    command = (sys.executable, "-m", "maxatk", *scoring(*(f"print({i})" for i in range(40))))
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    process = started(*command, stderr=follower, stdout=follower, env=environment)
    os.close(follower)
    shown = read_terminal(leader)
    assert process.wait(timeout=patience(60)) == 0, shown
    assert b"40/40" in shown


def test_a_folder_that_cannot_be_written_is_one_line(maxatk, scoring, tmp_path):
    arguments = scoring("print(4)")
    (tmp_path / "score").write_text("a file, not a folder")
    done = maxatk(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.fixture
def unequal(tmp_path):
    """Return the arguments of `score` for three problems, the last of which has no samples."""
    problems = (Problem(f"p{i}", "", DOUBLE).to_json() for i in range(3))
    write_jsonl(tmp_path / "p.jsonl", problems)
    right = "print(2 * int(input()))"
    wrong = "print(0)"
    samples = [("p0", right), ("p0", right), ("p0", wrong), ("p1", right)]
    rows = (Sample(name, i, text).to_json() for i, (name, text) in enumerate(samples))
    write_jsonl(tmp_path / "s.jsonl", rows)
    files = ("--problems", "p.jsonl", "--samples", "s.jsonl", "--out", "out")
    return ("score", *files, "--verifier.workers", "1")


def test_a_limit_takes_the_first_problems_and_their_samples(maxatk, unequal, tmp_path):
    done = maxatk(*unequal, "--limit", "1")
    assert done.returncode == 0, done.stderr
    assert [row["reward"] for row in rows_of(tmp_path / "out" / "scores.jsonl")] == [1.0, 1.0, 0.0]
    assert "no sample for 1 of 3 problems, the first 'p2'" in maxatk(*unequal).stderr
    assert "limit: must be an integer of 1" in maxatk(*unequal, "--limit", "0").stderr


def test_a_scoring_grows_by_lines_and_problems_at_the_end_and_by_nothing_else(
    maxatk, unequal, tmp_path
):
    assert maxatk(*unequal, "--limit", "1").returncode == 0
    first = (tmp_path / "out" / "scores.jsonl").read_bytes()
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write(json.dumps(Sample("p1", 1, "print(0)").to_json()) + "\n")
    done = maxatk(*unequal, "--limit", "2")
    assert done.returncode == 0, done.stderr
    assert "2 verdicts" in done.stdout
    assert (tmp_path / "out" / "scores.jsonl").read_bytes().startswith(first)
    rewards = [row["reward"] for row in rows_of(tmp_path / "out" / "scores.jsonl")]
    assert rewards == [1.0, 1.0, 0.0, 1.0, 0.0]
    smaller = maxatk(*unequal, "--limit", "1")
    assert "problems.count: 2 in the folder, 1 now" in smaller.stderr
    text = (tmp_path / "s.jsonl").read_text()
    (tmp_path / "s.jsonl").write_text(text.replace("print(0)", "print(1)"))
    changed = maxatk(*unequal, "--limit", "2")
    assert changed.returncode == 2
    assert "samples.sha256: '" in changed.stderr
    assert "a run can grow by more samples, in a file behind those it has" in changed.stderr


def test_a_dry_run_checks_and_counts_and_writes_nothing(maxatk, unequal, tmp_path):
    flags = ("--limit", "2", "--dry-run")
    done = maxatk(*unequal, *flags)
    assert done.returncode == 0, done.stderr
    counted = dict(line.split() for line in done.stdout.splitlines())
    assert counted == {"problems": "2", "samples": "4", "found": "0", "distinct": "3", "tests": "6"}
    assert not (tmp_path / "out").exists()
    assert maxatk(*unequal, "--limit", "2").returncode == 0
    assert maxatk(*unequal, *flags).stdout.split()[5] == "4"
    other = maxatk(*unequal, *flags, "--verifier.time-limit", "1")
    assert "verifier.time_limit_s: 4.0 in the folder, 1.0 now" in other.stderr
    assert "no sample for 1 of 3" in maxatk(*unequal, "--dry-run").stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--threshold", "nan"), "threshold: must be a finite number, got nan"),
        (("--by", "level"), "score: --by needs --problems, whose meta has the field"),
        (("--by", "levle", "--problems", "p.jsonl"), "by: unknown value 'levle'; allowed: level"),
        (("--by", "level", "--problems", "bare.jsonl"), "by: 'level': the problems have no `meta`"),
    ],
)
def test_what_could_not_be_counted_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, capsys, flags, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text("problem_id,sample,reward\np,0,0.5\n")
    write_jsonl(tmp_path / "p.jsonl", [Problem("p", "x", meta={"level": 1}).to_json()])
    write_jsonl(tmp_path / "bare.jsonl", [Problem("p", "x").to_json()])
    try:
        code = main(["score", "--rewards", "scores.csv", "--out", "run", *flags])
    except SystemExit as ended:  # by the parser of the flags
        code = ended.code
    assert code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert not (tmp_path / "run").exists()


def test_the_help_names_every_format(maxatk):
    shown = maxatk("score", "--help").stdout
    section = shown[shown.index("Which tool wrote") : shown.index("--output-format {")]
    assert [name for name in FORMATS if name not in section] == []


def test_problems_of_one_prompt_are_judged_by_their_own_tests(maxatk, tmp_path):
    problems = [Problem(f"p{n}", "Print it.", (TestCase(input="", output=f"{n}\n"),)) for n in "12"]
    write_jsonl(tmp_path / "problems.jsonl", (problem.to_json() for problem in problems))
    samples = [Sample(p.id, n, f"print({n + 1})") for p in problems for n in range(2)]
    write_jsonl(tmp_path / "samples.jsonl", (sample.to_json() for sample in samples))
    done = maxatk(
        *("score", "--problems", "problems.jsonl", "--samples", "samples.jsonl", "--out", "run"),
        *("--verifier.workers", 1, "--progress", "none"),
    )
    assert done.returncode == 0, done.stderr
    rewards = [(row["problem_id"], row["reward"]) for row in rows_of(tmp_path / "run/scores.jsonl")]
    assert rewards == [("p1", 1.0), ("p1", 0.0), ("p2", 0.0), ("p2", 1.0)]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rewards", "1.csv", "--reward", "binary"], "--reward is for --samples"),
        (["--rewards", "1.csv", "2.csv", "--by", "level"], "--by is for one file"),
        (["--rewards", "1.csv", "--by", "level", "--budget", "turns=1"], "without --budget"),
    ],
)
def test_flags_that_would_say_nothing_of_rewards_are_refused(maxatk, tmp_path, flags, message):
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text("problem_id,reward\np,1\n")
    done = maxatk("score", *flags, "--out", "scored")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "scored").exists()


@pytest.mark.parametrize("flag", ["--limit", "--verifier.stop-after-timeouts"])
def test_a_number_too_large_to_count_to_is_refused(maxatk, scoring, flag):
    done = maxatk(*scoring("print(4)"), flag, 10**23)
    assert done.returncode == 2
    message = f"must be an integer of 64 bits, got {10**23}"
    assert message in " ".join((done.stdout + done.stderr).replace("│", " ").split())
