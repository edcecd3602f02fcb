"""What is said of runs before any number, on the page and by commands."""

import copy
import html
import json

from maxatk.report import write_report
from maxatk.report.load_runs import load_comparison
from maxatk.report.notices import notices
from maxatk.report.run_tables import samples_table


def cut_off_warnings(comparison):
    return [
        line for notice in notices(comparison) if notice.id == "cut-off" for line in notice.lines
    ]


def with_ends(results, **reasons):
    return {**copy.deepcopy(results), "finish_reasons": reasons or None}


def test_a_run_with_many_samples_cut_off_is_named_in_notes_table_and_page(results, tmp_path):
    runs = {
        "base": with_ends(results["base"], length=30, stop=70),
        "other": with_ends(results["sharp"], length=20, stop=80),
    }
    comparison = load_comparison(runs)
    (warning,) = cut_off_warnings(comparison)
    assert warning.startswith("base has 30.0% of its samples cut off by their length")
    table = samples_table(comparison)
    column = table.header.index("samples cut off")
    assert [row[column].text for row in table.rows] == ["30.0%", "20.0%"]
    assert warning in write_report(runs, tmp_path / "r.html").read_text()


def test_runs_that_do_not_know_their_ends_have_no_column(results):
    comparison = load_comparison({"base": with_ends(results["base"])})
    assert cut_off_warnings(comparison) == []
    assert "samples cut off" not in samples_table(comparison).header


def test_problems_that_a_model_s_own_rewards_chose_are_said_by_commands_and_page(
    results, maxatk, tmp_path
):
    rule = "0 < max@1 < 1 of 8 samples of small/model"
    meta = [{"selected_by": rule} for _ in results["base"]["per_problem"]["ids"]]
    for name in ("base", "sharp"):
        chosen = copy.deepcopy(results[name])
        if name == "base":  # of the other run nobody gave the problems
            chosen["per_problem"]["meta"] = meta
        (tmp_path / f"{name}.json").write_text(json.dumps(chosen))
    note = f"note: problems chosen by a model's own rewards ({rule}): they favour that model"
    runs = [f"{name}={name}.json" for name in ("base", "sharp")]
    assert note in maxatk("compare", *runs).stderr
    assert note in maxatk("report", *runs, "--out", "r.html").stderr
    page = html.unescape((tmp_path / "r.html").read_text())
    assert page.index(rule) < page.index("Which model for N attempts")
    (tmp_path / "base.json").write_text(json.dumps(results["base"]))
    assert "chosen by" not in maxatk("compare", *runs).stderr


def test_trainings_that_differ_in_more_than_the_method_are_said(results):
    def trained(**trainer):
        run = copy.deepcopy(results["sharp"])
        run["manifest"]["training"] = {"model": "base", "problems": "a.jsonl", "trainer": trainer}
        return run

    runs = {
        "base": results["base"],
        "grpo": trained(method="grpo", max_steps=60, learning_rate=1e-4),
        "bon": trained(method="bon_loo1", k=4, max_steps=60, learning_rate=2e-4),
        "long": trained(method="bon_loo1", k=8, max_steps=120),
    }

    def lines(names, recipes=None):
        comparison = load_comparison({name: runs[name] for name in names})
        return [
            line
            for notice in notices(comparison, recipes)
            if notice.id == "training-differences"
            for line in notice.lines
        ]

    assert lines(["base", "grpo"]) == []
    assert lines(["grpo", "bon"]) == ["learning_rate: 0.0001 for grpo, 0.0002 for bon"]
    assert lines(runs) == [
        "max_steps: 60 for grpo and bon, 120 for long",
        "learning_rate: 0.0001 for grpo, 0.0002 for bon, the default for long",
    ]
    unrecorded = {"base": {"model": "base", "problems": "b.jsonl", "trainer": {"max_steps": 60}}}
    assert lines(["base", "grpo"], unrecorded) == [
        "problems: b.jsonl for base, a.jsonl for grpo",
        "learning_rate: the default for base, 0.0001 for grpo",
    ]
