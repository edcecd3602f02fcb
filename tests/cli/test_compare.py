import csv
import io
import json

import pytest

from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from processes import patience
from runs import write_records, write_samples

PROBLEMS = 8


@pytest.fixture
def scored(maxatk, tmp_path):
    """Two models verified by the command itself: `good` solves every problem, `poor` none."""
    tests = (TestCase(input="", output="1\n"), TestCase(input="", output="1\n"))
    ids = [f"p{i}" for i in range(PROBLEMS)]
    write_records(tmp_path / "problems.jsonl", (Problem(name, "", tests) for name in ids))
    for name, programs in (("good", ["print(1)"] * 2), ("poor", ["print(2)", "print(3)"])):
        write_samples(tmp_path / f"{name}.jsonl", dict.fromkeys(ids, programs))
        done = maxatk(
            *("score", "--problems", "problems.jsonl", "--samples", f"{name}.jsonl"),
            *("--out", name, "--progress", "none"),
        )
        assert done.returncode == 0, done.stderr


def test_the_better_model_gets_the_star_in_every_format(maxatk, scored):
    text = maxatk("compare", "poor", "good", "--k", "1", "2")
    assert text.returncode == 0, text.stderr
    assert "1.000*¹" in text.stdout
    assert "¹ best, ² second best" in " ".join(text.stdout.split())
    assert text.stdout.count("good − poor") == 2  # once for each k: no second table says it
    # 8 differences of one sign: twice 2^-8.
    assert ".008" in text.stdout
    markdown = maxatk("compare", "poor", "good", "--format", "md", "--table", "scores")
    assert "| good | **1.000\\*** (0 problems below 1) |" in markdown.stdout
    about = "95% intervals over problems; \\* above all others, adjusted p at most 0.05\n"
    assert markdown.stdout.endswith(f"|\n\n{about}")
    latex = maxatk("compare", "poor", "good", "--format", "latex").stdout
    assert r"\textbf{1.000}$^{*}$" in latex
    assert "\n% 95% intervals over problems; * above all others" in latex
    differences = maxatk("compare", "poor", "good", "--format", "csv", "--table", "differences")
    names = differences.stdout.splitlines()[0].split(",")
    assert len(names) == len(set(names))
    (row, *_) = csv.DictReader(io.StringIO(differences.stdout))
    assert (float(row["difference"]), row["significant"]) == (1.0, "True")


def test_other_problems_or_verifiers_are_refused_unless_told(maxatk, scored, tmp_path):
    path = tmp_path / "poor" / "results.json"
    results = json.loads(path.read_text())
    results["manifest"]["settings"]["verifier"]["time_limit_s"] = 99
    path.write_text(json.dumps(results))
    refused = maxatk("compare", "good", "poor")
    assert refused.returncode == 2
    assert "'poor' was verified with {'time_limit_s': 99" in refused.stderr
    assert maxatk("compare", "good", "poor", "--allow-other-verifiers").returncode == 0
    results["manifest"]["settings"]["problems"]["sha256"] = "other"
    path.write_text(json.dumps(results))
    refused = maxatk("compare", "good", "poor", "--allow-other-verifiers")
    assert "not over the same problems" in refused.stderr
    assert f"--allow-other-problems compares the {PROBLEMS} whose ids they share" in refused.stderr
    allowed = ("--allow-other-verifiers", "--allow-other-problems")
    done = maxatk("compare", "good", "poor", *allowed)
    assert done.returncode == 0
    assert "note: verifier.time_limit_s: 4.0 for good, 99 for poor\n" in done.stderr


def test_the_report_prints_every_k_in_other_formats(maxatk, scored, tmp_path):
    done = maxatk(
        *("report", "poor", "good", "--out", "r.html", "--format", "csv", "--figure", "pdf"),
    )
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    means = {(row["metric"], row["k"], row["model"]): float(row["mean"]) for row in rows}
    assert [means["max@k", "2", name] for name in ("poor", "good")] == [0, 1]
    assert [means["pass@k", "1", name] for name in ("poor", "good")] == [0, 1]
    assert (tmp_path / "r-figure1.pdf").read_bytes().startswith(b"%PDF")
    assert "scores-max-at-k" in (tmp_path / "r.html").read_text()


def test_the_name_of_a_folder_may_have_an_equals_sign(maxatk, scored, tmp_path):
    (tmp_path / "good").rename(tmp_path / "lr=1e-4")
    compared = maxatk(
        "compare", "poor", "lr=1e-4", "--format", "csv", "--table", "scores", "--k", "1"
    )
    assert compared.returncode == 0, compared.stderr
    rows = list(csv.DictReader(io.StringIO(compared.stdout)))
    assert [row["model"] for row in rows] == ["poor", "lr=1e-4"]
    renamed = maxatk("compare", "poor", "b=lr=1e-4", "--format", "csv", "--k", "1")
    assert "b" in renamed.stdout, renamed.stderr


def test_figure_1_beside_the_page_has_the_threshold_of_the_page(maxatk, scored, tmp_path):
    drawn = []
    for threshold in ("1", "2"):
        done = maxatk("report", "poor", "good", "--out", "r.html", "--threshold", threshold)
        assert done.returncode == 0, done.stderr
        drawn.append((tmp_path / "r-figure1.svg").read_text())
    assert drawn[0] != drawn[1]


def table_of(path, samples_of):
    """Write a table in which a problem has so many samples."""
    rows = [
        f"{name},{sample},{sample % 2}\n"
        for name, samples in samples_of.items()
        for sample in range(samples)
    ]
    path.write_text("problem_id,sample,reward\n" + "".join(rows))


def test_it_is_said_why_k_ends_where_it_does(maxatk, tmp_path):
    table_of(tmp_path / "many.csv", {"p": 4, "q": 4, "r": 4})
    table_of(tmp_path / "few.csv", {"p": 2, "q": 2, "r": 2})
    table_of(tmp_path / "ragged.csv", {"p": 4, "q": 1, "r": 8})
    table_of(tmp_path / "more_ragged.csv", {"p": 1, "q": 1, "r": 8})

    equal = maxatk("compare", "a=many.csv", "b=many.csv", "--table", "verdict")
    assert (equal.returncode, equal.stderr) == (0, "")
    fewer = maxatk("compare", "many=many.csv", "few=few.csv", "--table", "verdict")
    assert fewer.stderr == (
        "note: k ends at 2, the largest that all have: many has 4, few has 2.\n"
    )
    ragged = maxatk("compare", "a=ragged.csv", "b=more_ragged.csv", "--table", "verdict")
    assert ragged.stderr == (
        "note: a: k ends at 1: 'q' has no more samples, others up to 8.\n"
        "note: b: k ends at 1: 2 problems, the first 'p', have no more samples, others up to 8.\n"
    )
    alone = maxatk("score", "--rewards", "ragged.csv", "--out", "run")
    assert "run: k ends at 1: 'q' has no more samples, others up to 8\n" in alone.stdout
    even = maxatk("score", "--rewards", "many.csv", "--out", "even")
    assert "k ends" not in even.stdout


def test_samples_without_a_reward_are_noted(maxatk, scored, tmp_path):
    noted = maxatk("compare", "good", "poor", "--k", "1")
    assert "have no reward" not in noted.stderr
    path = tmp_path / "poor" / "results.json"
    results = json.loads(path.read_text())
    results["per_problem"]["scored"] = [1] * PROBLEMS
    results["counts"]["unscored"] = PROBLEMS
    path.write_text(json.dumps(results))
    noted = maxatk("compare", "good", "poor", "--k", "1")
    assert noted.returncode == 0
    assert "note: poor: 8 of 16 samples (50.0%) have no reward and are left out" in noted.stderr


@pytest.fixture
def judged(maxatk, tmp_path):
    """The same rewards as runs that differ in what passes, or in the column for the reward."""
    rows = [
        {"problem_id": f"p{problem}", "reward": reward, "judge": 1 - reward}
        for problem in range(PROBLEMS)
        for reward in (0.1 * problem, 0.5)
    ]
    write_jsonl(tmp_path / "r.jsonl", rows)
    for name, *flags in (
        ("strict",),
        ("half", "--threshold", "0.5"),
        ("judge", "--column", "judge"),
    ):
        done = maxatk("score", "--rewards", "r.jsonl", "--out", name, *flags)
        assert done.returncode == 0, done.stderr


def test_pass_at_k_of_other_thresholds_is_compared_from_one_threshold_only(maxatk, judged):
    noted = maxatk("compare", "strict", "half")
    assert noted.returncode == 0, noted.stderr
    assert "note: threshold: 1.0 for strict, 0.5 for half\n" in noted.stderr
    commands = (
        ("compare", "strict", "half", "--metric", "pass@k"),
        ("report", "strict", "half", "--out", "r.html"),
    )
    for command in commands:
        refused = maxatk(*command)
        assert refused.returncode == 2
        assert "name one --threshold for all" in refused.stderr
        assert "'half' passes from the reward 0.5 on, one of 'strict' from 1" in refused.stderr
        done = maxatk(*command, "--threshold", "0.5")
        assert done.returncode == 0, done.stderr
        assert "threshold" not in done.stderr


def test_another_reward_is_compared_from_one_column_only(maxatk, judged):
    commands = (
        ("compare", "strict", "judge"),
        ("compare", "strict", "r.jsonl", "judge"),
        ("report", "strict", "judge", "--out", "r.html"),
    )
    for command in commands:
        refused = maxatk(*command)
        assert refused.returncode == 2
        assert (
            "the reward of 'judge' is the column 'judge', that of 'strict' is its own"
            in refused.stderr
        )
        done = maxatk(*command, "--column", "judge")
        assert done.returncode == 0, done.stderr


@pytest.mark.timeout(patience(40))  # it would go on for ever
def test_a_difference_that_is_zero_but_for_rounding_needs_no_number_of_problems(maxatk, tmp_path):
    rewards = {"base": (0.3, 0.1, 0.5, 0.7), "tuned": (0.2, 0.2, 0.6, 0.6)}
    for name, of_problems in rewards.items():
        rows = [f"p{number},{reward}" for number, reward in enumerate(of_problems)]
        text = "\n".join(["problem_id,reward", *rows])
        (tmp_path / f"{name}.csv").write_text(text + "\n")
    done = maxatk("report", "base.csv", "tuned.csv", "--out", "r.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert "is not told apart from" in page
    assert "problems cannot tell" not in page


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--k", "4"), "few: k: must be an integer from 1 to the 2 samples of a problem, got 4"),
        (("--column", "judge"), "few: column: there is none 'judge'"),
        (("--budget", "turns=1"), "few: budget: 'turns=1': no sample says how many turns"),
    ],
)
def test_a_refusal_says_which_run_lacks_what_was_asked_for(maxatk, tmp_path, flags, message):
    many = [{"problem_id": "p", "reward": 1, "judge": 1, "turns": 1}] * 4
    write_jsonl(tmp_path / "many.jsonl", many)
    write_jsonl(tmp_path / "few.jsonl", [{"problem_id": "p", "reward": 1}] * 2)
    refused = maxatk("compare", "many=many.jsonl", "few=few.jsonl", *flags)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"maxatk: {message}")
