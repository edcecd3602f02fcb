"""The tables of a study: their shape, their tests over seeds, and their files."""

import csv

import pytest

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_json, write_json
from maxatk.report.tables import change, change_interval, p_value
from maxatk.studies import findings
from maxatk.studies.findings_tables import study_tables, write_tables
from maxatk.studies.schedule import SeededModel
from maxatk.studies.variants import Variant
from studies.conftest import STEADY

TESTS = (
    "metric",
    "difference",
    "95%, other seeds with problems of their own",
    "p",
    "adjusted p",
    "sign flips, p (at best 0.25)",
    "seeds above",
    "95%, other problems, these trainings",
)
METRICS = ("max@1", "max@16", "pass@1", "pass@16")
EVERY_K = (1, 2, 4, 8, 16)
SHAPES = {
    "scores": (("model", *METRICS), 3),
    "max_at_k": (("model", *(f"max@{k}" for k in EVERY_K)), 3),
    "pass_at_k": (("model", *(f"pass@{k}" for k in EVERY_K)), 3),
    "differences": (("model − baseline", *TESTS), 8),
    "leaders": (("best − second best", *TESTS), 4),
    "pairs": (("first − second", *TESTS), 2),
    "seeds": (("model − base", "metric", "seed 1", "seed 2", "seed 3", "seeds above"), 4),
    "samples": (
        (
            *("model", "problems", "samples", "passed", "wrong answer", "unscored"),
            *("different completions per problem", "different programs per problem"),
            *("nats of programs per problem", "nats per completion", "nats per token"),
            "tokens per completion",
        ),
        3,
    ),
    "training": (
        (
            *("model", "mean |ρ−1| over logged steps"),
            "gradient p95/median of a training, mean over seeds",
            *("seconds of a training, mean over seeds", "max@16"),
        ),
        2,
    ),
}


@pytest.fixture(scope="module")
def study(seeded, build):
    return build(seeded([1, 2, 3]), pairs=[("better", "same")])


def test_every_table_has_its_shape(study):
    tables = study_tables(study)
    shapes = {name: (table.header, len(table.rows)) for name, table in tables.items()}
    assert shapes == SHAPES


def test_the_tests_show_seeds_and_the_prompts_of_these_seeds(study):
    for name, tests in (
        ("differences", study.differences),
        ("leaders", study.leaders),
        ("pairs", study.pairs),
    ):
        for row, test in zip(study_tables(study)[name].rows, tests, strict=True):
            assert [cell.text for cell in row] == [
                f"{test.first} − {test.second}",
                test.measure.name,
                change(test.difference) + ("*" if test.significant else ""),
                change_interval(test.low, test.high),
                p_value(test.p),
                p_value(test.adjusted_p),
                p_value(test.sign_flip_p),
                f"{test.above} of 3",
                change_interval(test.prompts_low, test.prompts_high),
            ]


def test_the_seeds_stand_side_by_side(study):
    rows = study_tables(study)["seeds"].rows
    expected = [test for test in study.differences if test.measure.metric == "max@k"]
    for row, test in zip(rows, expected, strict=True):
        assert [cell.text for cell in row[2:5]] == [change(value) for value in test.by_seed]
        for cell, moved in zip(row[2:5], test.by_seed, strict=True):
            assert cell.mark == ("above" if moved > 0 else "below" if moved < 0 else "")


def test_a_star_in_the_scores_is_that_of_the_test_of_the_best(study):
    table = study_tables(study)["scores"]
    for place, test in enumerate(study.leaders, start=1):
        starred = [row[0].text for row in table.rows if row[place].starred]
        assert starred == ([test.first] if test.significant else [])


def test_no_star_says_the_opposite_of_the_test_of_seeds_of_unequal_size(build, make, tmp_path):
    """The first seed has most of the problems, and a test counts every seed once."""
    all_models = []
    for name, in_first, in_others in (("base", 0.3, 0.3), ("better", 0.26, 0.6)):
        variant = Variant({} if name == "base" else {"method": name}, {})
        for seed in range(1, 7):
            ids = [f"{seed}-{i}" for i in range(200 if seed == 1 else 4)]
            chance = in_first if seed == 1 else in_others
            evaluation = tmp_path / f"{name}-{seed}"
            evaluation.mkdir()
            write_json(evaluation / RESULTS, make(seed, chance, chance, ids=ids, samples=16))
            all_models.append(SeededModel(variant, seed, evaluation, None))
    study = build(all_models)
    best = study.leaders[0]
    assert (best.measure.name, best.first, best.significant) == ("max@1", "base", True)
    assert best.difference < 0
    assert not any(row[1].starred for row in study_tables(study)["scores"].rows)


def test_two_seeds_have_differences_and_no_test(seeded, build):
    study = build(seeded([1, 2]))
    table = study_tables(study)["differences"]
    assert "sign flips, p (at best 0.5)" in table.header
    assert table.header[3] == "95%, other problems, these trainings"
    assert table.header.count(table.header[3]) == 1
    for row, test in zip(table.rows, study.differences, strict=True):
        ends = change_interval(test.prompts_low, test.prompts_high)
        assert [cell.text for cell in row[3:6]] == [ends, "–", "–"]
        assert row[2].text == change(test.difference)
        assert not test.significant


def test_tables_are_written_in_three_forms(study, tmp_path):
    write_tables(study, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{suffix}" for name in SHAPES for suffix in ("md", "csv", "tex")
    }
    with (tmp_path / "pairs.csv").open() as file:
        first, _ = csv.DictReader(file)
    pair = study.pairs[0]
    assert float(first["difference"]) == pytest.approx(pair.difference, abs=5e-4)
    assert float(first["p"].replace("<0.001", "0")) == pytest.approx(pair.p, abs=1e-3)


def test_models_of_two_axes_are_crossed(studied, build):
    levels = [
        {"method": "one", "updates": "1"},
        {"method": "one", "updates": "8"},
        {"method": "two", "updates": "8"},
    ]
    all_models = [
        seeded_model for of in ({}, *levels) for seeded_model in studied(STEADY, STEADY, levels=of)
    ]
    study = build(all_models)
    table = study_tables(study)["crossed"]
    mean = study.comparison.baseline.metric("max@k", 128).mean
    printed = f"{mean:.3f}"
    assert table.header == ("model", "metric", "updates=1", "updates=8")
    rows = [tuple(cell.text for cell in row) for row in table.rows]
    assert rows[2:] == [("one", "max@128", printed, printed), ("two", "max@128", "–", printed)]


def test_models_of_one_axis_have_nothing_to_cross(studied, build):
    model = studied(STEADY, STEADY, levels={"method": "model"})
    assert "crossed" not in study_tables(build([*studied(levels={}), *model]))


def test_a_column_more_of_the_trainings_is_one_entry(studied, build, monkeypatch):
    more = (*findings.TRAINING_COLUMNS, ("loss", "mean loss", 2))
    monkeypatch.setattr(findings, "TRAINING_COLUMNS", more)
    history = [{"loss": 1.0}, {"loss": 2.0}]
    model = studied(history, history, levels={"method": "model"})
    table = study_tables(build([*studied(levels={}), *model]))["training"]
    assert (table.header[-2], table.rows[0][-2].text) == ("mean loss", "1.50")


def test_headings_of_trainings_say_over_what_a_number_is(studied, build):
    # Steps are pooled over the seeds, and a training that logs more of them counts for more.
    model = studied([{"entropy": 1.0}, {"entropy": 2.0}], [{"entropy": 6.0}], levels={"k": "1"})
    table = study_tables(build([*studied(levels={}), *model]))["training"]
    cells = dict(zip(table.header, (cell.text for cell in table.rows[0]), strict=True))
    assert cells["nats per token, mean over logged steps"] == "3.000"
    for _, heading, _ in findings.TRAINING_COLUMNS:
        assert "over logged steps" in heading or "over seeds" in heading


def test_a_stored_score_that_chooses_has_a_table_and_tests(seeded, build):
    all_models = seeded([1, 2, 3])
    for seeded_model in all_models:
        results = read_json(seeded_model.evaluation / RESULTS)
        for part in ("metrics", "per_problem"):
            results[part]["max@k by chance"] = results[part]["pass@k"]
        write_json(seeded_model.evaluation / RESULTS, results)
    study = build(all_models, pairs=[("better", "same")])
    tables = study_tables(study)
    assert tables["max_at_k_by_chance"].header[-1] == "max@16 by chance"
    by_metric = {test.measure.name: test.difference for test in study.pairs}
    assert list(by_metric) == ["max@1", "max@16", "max@1 by chance", "max@16 by chance"]
    assert by_metric["max@16 by chance"] != by_metric["max@16"]
