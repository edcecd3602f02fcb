"""The committed tables, and those in the pages, are what the committed results give."""

import csv
import functools
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.statistics.power import pairs_needed
from maxatk.statistics.tests import over_seeds_and_problems

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.parent.name for path in (ROOT / "docs" / "study").glob("*/results.json"))
RECIPES = {  # by the name that the study's folder has
    Path(settings["out"]).name: path
    for path in (ROOT / "recipes").glob("*/*.yaml")
    if "out" in (settings := yaml.safe_load(path.read_text(encoding="utf-8")))
}


def in_one_line(page):
    """Return a page whose sentences are not broken into lines."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def fill():
    spec = importlib.util.spec_from_file_location("fill", ROOT / "docs" / "fill.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_committed_results():
    assert "table2" in STUDIES


def test_the_committed_tables_are_those_to_which_a_page_links(fill):
    linked = {
        f"{study}/{table}.md": text
        for study, tables in fill.linked_tables().items()
        for table, text in tables.items()
    }
    assert len(linked) > 30
    committed = {f"{path.parent.name}/{path.name}": path for path in fill.DOCS.glob("*/*.md")}
    assert set(committed) == set(linked)
    for name, path in committed.items():
        assert path.read_text(encoding="utf-8") == linked[name], name


@pytest.mark.parametrize("name", STUDIES)
def test_every_table_of_a_committed_study_can_be_made_again(fill, tmp_path, name):
    fill.write_tables(fill.load(name), tmp_path)
    suffixes = {path.suffix for path in tmp_path.iterdir()}
    assert suffixes == {".md", ".csv", ".tex"}


def test_tables_in_pages_are_those_of_the_results(fill):
    places = 0
    for page in fill.PAGES:
        text = page.read_text(encoding="utf-8")
        assert fill.filled(text) == text, page.name
        places += len(re.findall("<!-- study: ", text))
    assert places >= 3


FOUR_SEEDS = ("smollm2_hidden_long_2", "smollm2_hidden_long_3", "smollm2_hidden_long_5")


def columns_of(fill, name, model, seed):
    path = fill.DOCS / name / "evaluations" / f"{model}_{seed}.json"
    return json.loads(path.read_text())["per_problem"]


def row_of(table, name):
    (row,) = [row for row in table.rows if row[0].text == name]
    return row


def test_differences_over_seeds_that_share_problems_have_the_crossed_interval(fill):
    evaluations = fill.load_evaluations(FOUR_SEEDS)
    table = fill.table_of_seeds(evaluations)
    assert table.header == ("model", "max@1", "max@8", "max@32")
    places = zip(FOUR_SEEDS, ([2], [3, 4], [5]), strict=True)
    values = np.array(
        [
            np.subtract(
                columns_of(fill, name, "bon_loo1", seed)["max@k"]["8"],
                columns_of(fill, name, "grpo", seed)["max@k"]["8"],
            )
            for name, seeds in places
            for seed in seeds
        ]
    )
    # Two-way analysis of variance without replication, by its mean squares.
    seeds, problems = values.shape
    by_seed = problems * values.mean(axis=1).var(ddof=1)
    by_problem = seeds * values.mean(axis=0).var(ddof=1)
    left = values - values.mean(axis=0) - values.mean(axis=1)[:, None] + values.mean()
    rest = (left**2).sum() / ((seeds - 1) * (problems - 1))
    mean_squares = max(by_seed + by_problem - rest, by_seed, by_problem)
    df = mean_squares**2 / (
        by_seed**2 / (seeds - 1)
        + by_problem**2 / (problems - 1)
        + rest**2 / ((seeds - 1) * (problems - 1))
    )
    half = stats.t.ppf(0.975, df) * np.sqrt(mean_squares / (seeds * problems))
    low, high = values.mean() - half, values.mean() + half
    cell = row_of(table, "bon_loo1 − grpo")[2]
    assert cell.text == f"{values.mean():+.3f}"
    assert cell.detail == f"[{low:+.3f}, {high:+.3f}]".replace("-", "−")
    assert "28 problems, seeds 2 to 5. The 95% intervals are those of the crossed" in fill.caption(
        evaluations
    )


def test_two_seeds_have_students_t_over_problems_and_the_caption_says_so(fill):
    evaluations = {
        model: {seed: by_seed[seed] for seed in (1, 3)}
        for model, by_seed in fill.load_evaluations(["smollm2_all"]).items()
    }
    table = fill.table_of_seeds(evaluations)
    means = {}
    for model in ("grpo", "base"):
        by_seed = [columns_of(fill, "smollm2_all", model, seed)["max@k"]["32"] for seed in (1, 3)]
        means[model] = np.mean(by_seed, axis=0)
    test = stats.ttest_rel(means["grpo"], means["base"]).confidence_interval(0.95)
    cell = row_of(table, "grpo − base")[3]
    assert cell.detail == f"[{test.low:+.3f}, {test.high:+.3f}]".replace("-", "−")
    caption = fill.caption(evaluations).replace("\n", " ")
    assert "120 problems, seeds 1 and 3." in caption
    assert "not of other seeds" in caption


def test_seeds_or_problems_that_differ_are_not_paired(fill):
    evaluations = fill.load_evaluations(["smollm2_all"])
    first_two = {seed: evaluations["base"][seed] for seed in (1, 2)}
    other_two = {seed: evaluations["grpo"][seed] for seed in (1, 3)}
    with pytest.raises(InvalidValueError, match="of the same seeds for every model"):
        fill.table_of_seeds({"base": first_two, "grpo": other_two})
    some = set(evaluations["base"][1].ids[:60])
    halves = [fill.over_problems(evaluations, some, inside=inside) for inside in (True, False)]
    with pytest.raises(InvalidValueError, match="over the same problems"):
        fill.table_of_best({"one": halves[0], "other": halves[1]})
    with pytest.raises(InvalidValueError, match="without seed 2 of base twice"):
        fill.load_evaluations(["smollm2_all", "smollm2_hidden_long_2"])


def test_a_table_keeps_the_problems_of_another_study_or_leaves_them_out(fill):
    evaluations = fill.load_evaluations(["smollm2_all"])
    chosen = fill.problems_of(FOUR_SEEDS[0])
    seeds = [columns_of(fill, "smollm2_all", "base", seed) for seed in SEEDS_OF_RATES]
    values = np.mean([seed["max@k"]["32"] for seed in seeds], axis=0)
    inside = dict(zip(seeds[0]["ids"], values, strict=True))
    parts = {
        True: [value for name, value in inside.items() if name in chosen],
        False: [value for name, value in inside.items() if name not in chosen],
    }
    assert [len(part) for part in parts.values()] == [28, 92]
    for kept, part in parts.items():
        table = fill.table_of_seeds(fill.over_problems(evaluations, chosen, inside=kept))
        assert row_of(table, "base")[3].text == f"{np.mean(part):.3f}"
    # The committed digits of the same models come out on the 28 problems.
    committed = columns_of(fill, "smollm2_hidden_long_3", "base", 3)
    again = dict(zip(seeds[2]["ids"], seeds[2]["max@k"]["32"], strict=True))
    on_the_28 = [again[name] for name in committed["ids"]]
    assert on_the_28 == pytest.approx(committed["max@k"]["32"], abs=1e-4)


@pytest.mark.parametrize("name", STUDIES)
def test_committed_studies_are_those_of_their_recipes(fill, name):
    from maxatk.studies.recipe import load_study

    recipe = load_study(RECIPES[name])
    study = fill.load(name)
    assert list(study.seeds) == recipe.seeds
    assert study.title == recipe.title
    assert {run.name for run in study.comparison.runs} == {model.name for model in recipe.variants}


VALUED = [name for name in STUDIES if (ROOT / "docs" / "study" / name / "problems.csv").exists()]
SHOWN = 6e-6  # the values of problems are rounded to six digits


def mean_and_interval(differences, seeds):
    """Return a mean of single problems with Student's t: over seeds, or problems of two or one."""
    by_seed = differences.groupby(seeds).mean()
    units = differences if len(by_seed) < 3 else by_seed
    return units.mean(), *stats.ttest_1samp(units, 0).confidence_interval(0.95)


@pytest.mark.parametrize("name", VALUED)
def test_the_values_of_single_problems_give_the_numbers_of_a_study_again(fill, name):
    study = fill.load(name)
    table = pd.read_csv(fill.DOCS / name / "problems.csv")
    in_order = table[table.metric == "max@k"].sort_values(["seed", "problem"])
    of_model = {model: rows.reset_index() for model, rows in in_order.groupby("model")}
    assert set(of_model) == set(study.models)
    for model, rows in of_model.items():
        for k, cell in study.models[model]["metrics"]["max@k"].items():
            assert rows[k].mean() == pytest.approx(cell["mean"], abs=SHOWN), (model, k)
    tests = [test for test in (*study.differences, *study.pairs) if test.measure.metric == "max@k"]
    assert len(tests) > 8
    for test in tests:
        first, second = of_model[test.first], of_model[test.second]
        assert list(first.problem) == list(second.problem)
        k = str(test.measure.k)
        computed = mean_and_interval(first[k] - second[k], first.seed)
        assert computed == pytest.approx((test.difference, test.low, test.high), abs=2 * SHOWN)


def chosen(values, names, seeds, *, aim, floor):
    """Return of the models with enough max@1 on some seeds the one with the highest max@aim."""
    means = {}
    for name in names:
        rows = values[name][values[name].seed.isin(seeds)]
        of_seeds = rows.groupby("seed").mean(numeric_only=True)
        means[name] = of_seeds.mean()
    reached = [name for name in names if means[name]["1"] >= floor]
    return max(reached, key=lambda name: means[name][aim])


def held_out(values, names, seeds, *, aim, floor=-np.inf):
    """Return the rows of every seed with the model that the other seeds choose."""
    rows = []
    for seed in seeds:
        others = [other for other in seeds if other != seed]
        of_model = values[chosen(values, names, others, aim=aim, floor=floor)]
        rows.append(of_model[of_model.seed == seed])
    return pd.concat(rows).set_index(["seed", "problem"])


def differences_from_the_rivals(fill, *, aim, floor=-np.inf):
    """Return what the models that are no rivals add to the rivals, for every seed and problem."""
    study = fill.load("front")
    values = values_of_front(fill)
    methods = {name: model["levels"].get("method") for name, model in study.models.items()}
    rivals = [name for name, method in methods.items() if method in study.front.rivals]
    ours = [name for name in methods if name not in (*rivals, "base")]
    our = held_out(values, ours, study.seeds, aim=aim, floor=floor)
    their = held_out(values, [*rivals, "base"], study.seeds, aim=aim, floor=floor)
    return our[aim] - their[aim]


def values_of_front(fill):
    """Return max@k of every problem by model, as it is committed."""
    table = pd.read_csv(fill.DOCS / "front" / "problems.csv")
    return dict(list(table[table.metric == "max@k"].groupby("model")))


def test_the_front_is_what_the_values_of_single_problems_give(fill):
    study = fill.load("front")
    values = values_of_front(fill)
    methods = {name: model["levels"].get("method") for name, model in study.models.items()}
    for best in study.front.best:
        names = [name for name, method in methods.items() if method == best.method]
        rows = held_out(values, names, study.seeds, aim=str(best.aim))
        assert tuple(rows.model.groupby("seed").first()) == best.by_seed
        for estimate in best.estimates:
            column = rows[str(estimate.k)]
            assert column.groupby("seed").mean().mean() == pytest.approx(estimate.mean, abs=SHOWN)
    for test in study.front.beyond:
        differences = differences_from_the_rivals(fill, aim=str(test.aim), floor=test.floor - SHOWN)
        by_seed = differences.groupby("seed").mean()
        # Nadeau and Bengio's variance: every seed has a part in the choices of the others.
        seeds = len(by_seed)
        error = stats.sem(by_seed) * np.sqrt(1 + seeds / (seeds - 1))
        mean = by_seed.mean()
        computed = mean, *stats.t.interval(0.95, seeds - 1, loc=mean, scale=error)
        assert computed == pytest.approx((test.difference, test.low, test.high), abs=2 * SHOWN)


def interval_over_seeds(fill, name, first, second, k):
    """Mean difference in max@k with Student's t over seeds that have problems of their own."""
    models = fill.load(name).models
    by_seed = [models[model]["by_seed"].values() for model in (first, second)]
    ours, theirs = ([means["max@k"][str(k)] for means in of_model] for of_model in by_seed)
    interval = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    return np.mean(np.subtract(ours, theirs)), interval.low, interval.high


def distance_over_seeds(fill, name, first, second, k):
    """Return as text by how much two models differ in max@k, with the interval, as above 0."""
    mean, low, high = interval_over_seeds(fill, name, first, second, k)
    if mean < 0:
        mean, low, high = -mean, -high, -low
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def distance_between_studies(first, second, k):
    """Return as text by how much one model is above one of another study of the same problems.

    Each is a study and the name of its model; the seeds are those of the first study.
    """
    study, model = first
    other_study, other_model = second
    of_other = other_study.models[other_model]["by_seed"]
    differences = [
        means["max@k"][str(k)] - of_other[seed]["max@k"][str(k)]
        for seed, means in study.models[model]["by_seed"].items()
    ]
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    return f"{np.mean(differences):.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def test_the_numbers_of_the_first_screen_are_those_of_the_studies(fill):
    text = in_one_line("README.md")
    demo = "demo_seeds"
    for k, first, second in (
        (8, "bon_loo1", "grpo"),
        (128, "bon_loo1", "grpo"),
        (1, "grpo", "bon_loo1"),
        (128, "base", "grpo"),
    ):
        mean, low, high = interval_over_seeds(fill, demo, first, second, k)
        assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in text, (k, first, second)
    low_rate = "learning_rate"
    for k in (1, 128):
        models = ("grpo,rate=1.5e-4", "bon_loo1,rate=3e-4")
        mean, low, high = interval_over_seeds(fill, low_rate, *models, k)
        assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in text, k
    everything = fill.table_of_seeds(fill.load_evaluations(["smollm2_all"]))
    cell = row_of(everything, "bon_loo1 − grpo")[-1]
    assert f"{cell.text} {cell.detail}".replace("+", "").replace("−", "-") in text


def test_the_table_of_the_first_screen_has_the_means_of_the_study(fill):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    models = fill.load("learning_rate").models
    rows = {
        "| none | |": "base",
        "| GRPO | 3e-4 |": "grpo,rate=3e-4",
        "| max@k (`bon_loo1`) | 3e-4 |": "bon_loo1,rate=3e-4",
        "| GRPO | 1.5e-4 |": "grpo,rate=1.5e-4",
        "| max@k (`bon_loo1`) | 1.5e-4 |": "bon_loo1,rate=1.5e-4",
    }
    for start, model in rows.items():
        means = models[model]["metrics"]["max@k"]
        numbers = " | ".join(f"{means[k]['mean']:.3f}" for k in ("1", "8", "128"))
        assert f"{start} {numbers} |" in text, model


def test_what_is_said_of_unsolved_problems_is_what_the_seeds_say(fill):
    page = in_one_line("docs/study.md")
    readme = in_one_line("README.md")
    small = "problems=all,rate=7.5e-5"
    large = "problems=all,rate=1.5e-4"
    gate = "problems=unsolved,rate=7.5e-5"
    differences = (
        (f"grpo,{small}", "base", 128, "GRPO is above the base at 128 by {}"),
        (f"bon_loo1,{small}", f"grpo,{small}", 128, "`bon_loo1` is above GRPO by {}"),
        (f"grpo,{small}", f"bon_loo1,{small}", 1, "below it by {} at 1"),
        (f"bon_loo1,{large}", f"grpo,{large}", 128, "it has {} more at 128"),
        (f"grpo,{small}", f"grpo,{gate}", 128, "on unsolved problems alone ends {} below"),
    )
    for first, second, k, sentence in differences:
        numbers = interval_over_seeds(fill, "unsolved", first, second, k)
        mean, low, high = (f"{number:.3f}" for number in numbers)
        assert sentence.format(f"{mean} [{low}, {high}]") in page, sentence
    lead = interval_over_seeds(fill, "unsolved", f"bon_loo1,{small}", f"grpo,{small}", 128)
    assert "{:.3f} [{:.3f}, {:.3f}] at 128 at the better rate".format(*lead) in readme


def test_what_is_said_of_each_method_at_its_best_is_what_the_front_says(fill):
    page = in_one_line("docs/study.md")
    readme = in_one_line("README.md")
    front = fill.load("front").front
    lead = {test.aim: test for test in reversed(front.beyond)}  # at the lowest floor
    numbers = {
        aim: f"{test.difference:.3f} [{test.low:.3f}, {test.high:.3f}]"
        for aim, test in lead.items()
    }
    assert f"has the most at 8**: {numbers[8]} more" in page
    p_alone = f"{lead[8].p:.3f}"
    corrected = f"{lead[8].adjusted_p:.3f} after correction for"
    assert (
        f"p is {p_alone} for this comparison alone and {corrected} all {len(front.beyond)}" in page
    )
    assert f"At 32 it has {numbers[32]} more" in page
    assert f"At 128 no difference is shown**: {numbers[128]}" in page
    assert len(front.beyond) == 6
    for k in ("8", "32"):
        leads = differences_from_the_rivals(fill, aim=k).groupby("seed").mean()
        assert len(leads) == 4
        assert min(leads) > 0, "the page says that it has more in each of the four seeds"
    values = {}
    for best in front.best:
        if best.aim == 1:
            by_k = {estimate.k: f"{estimate.mean:.3f}" for estimate in best.estimates}
            values[best.method] = by_k[1], by_k[128]
    firsts = {method: first for method, (first, _) in values.items()}
    lasts = [values[method][1] for method in front.rivals]
    assert (
        "they reach {grpo} (GRPO), {entropy bonus} (entropy bonus), {KL penalty} (KL penalty) and "
        "{clip-higher} (clip-higher), and `bon_loo1` {bon_loo1}.".format(**firsts)
    ) in page
    base = fill.load("front").models["base"]["metrics"]["max@k"]["128"]["mean"]
    assert f"which has {base:.3f}: {', '.join(lasts[:-1])} and {lasts[-1]}." in page
    assert "a first answer of {grpo} where `bon_loo1` has {bon_loo1}".format(**firsts) in readme
    of_eight = {best.method: best for best in front.best if best.aim == 8}
    eights = {method: f"{best.estimates[1].mean:.3f}" for method, best in of_eight.items()}
    sentence = (
        "they have {entropy bonus} and {KL penalty} there, clip-higher {clip-higher} and plain "
        "GRPO {grpo}"
    )
    assert sentence.format(**eights) in page
    steps = {method: best.model.rpartition("=")[2] for method, best in of_eight.items()}
    assert steps.pop("bon_loo1") == "640"
    assert max(map(int, steps.values())) == 320
    for_many = {best.model for best in front.best if best.method == "bon_loo1" and best.aim > 1}
    assert for_many == {of_eight["bon_loo1"].model}
    assert set(of_eight["bon_loo1"].by_seed) == for_many


def test_what_is_said_of_seeds_that_chose_nothing_is_what_they_have(fill):
    page = in_one_line("docs/study.md")
    readme = in_one_line("README.md")
    name = "front_confirmed"
    study = fill.load(name)
    front = fill.load("front")
    assert not set(study.seeds) & set(front.seeds)
    # Each model is trained as what the seeds of the front choose together for 8.
    recipe = yaml.safe_load(RECIPES[name].read_text(encoding="utf-8"))
    (grid,) = recipe["grids"]
    for best in front.front.best:
        if best.aim == 8:
            steps = grid["method"][best.method]["trainer.max_steps"]
            rate = recipe["train"]["trainer"]["learning_rate"]
            assert best.model == f"{best.method},rate={rate:.1e},steps={steps}".replace("e-0", "e-")
    numbers = {}
    for rival in ("KL penalty", "entropy bonus", "clip-higher", "grpo", "base"):
        for k in (1, 8, 32, 128):
            numbers[rival, k] = distance_over_seeds(fill, name, "bon_loo1", rival, k)
    starred = {place: text.replace(" [", "\\* [") for place, text in numbers.items()}
    tests = {(test.second, test.measure.k): test for test in study.pairs}
    assert {test.above for (_, k), test in tests.items() if k == 8} == {len(study.seeds)} == {6}
    planned = tests["KL penalty", 8]
    assert (
        f"more at 8 than the KL penalty**: {starred['KL penalty', 8]}, p {planned.p:.3f}, and "
        f"{planned.adjusted_p:.3f} after correction for all {len(tests)} tests of the table. It "
        f"has {starred['entropy bonus', 8]} more than with an entropy bonus, "
        f"{starred['clip-higher', 8]} than with clip-higher and {starred['grpo', 8]} than GRPO."
    ) in page
    assert (
        f"{starred['KL penalty', 32]} than the KL penalty, which is the closest at 8, and "
        f"{starred['clip-higher', 32]} than clip-higher, the closest at 32." in page
    )
    assert f"is shown**: {numbers['clip-higher', 128]} from clip-higher. It is" in page
    assert f"It is {numbers['base', 128]} above the base there." in page
    assert f"answer is {starred['KL penalty', 1]} below the KL penalty's**, and" in page
    assert f"and {starred['grpo', 1]} above that of GRPO" in page
    seconds = {
        name: round(model["training"]["seconds"])
        for name, model in study.models.items()
        if model["training"]
    }
    assert f"{seconds['bon_loo1']} s of training against {seconds['KL penalty']} s" in page
    assert (
        f"has {numbers['KL penalty', 8]} more at 8 than GRPO with a KL penalty (p {planned.p:.3f})"
        in readme
    )
    assert f"At 32 it has {numbers['clip-higher', 32]} more than the closest of them" in readme
    assert f"answer is {numbers['KL penalty', 1]} below that with the KL penalty" in readme
    rows = {
        "| none | | ": "base",
        "| GRPO | 160 | ": "grpo",
        "| GRPO with a KL penalty of 0.04 | 320 | ": "KL penalty",
        "| max@k (`bon_loo1`) | 640 | ": "bon_loo1",
    }
    for start, model in rows.items():
        means = study.models[model]["metrics"]["max@k"]
        cells = " | ".join(f"{means[k]['mean']:.3f}" for k in ("1", "8", "128"))
        assert f"{start}{cells} |" in readme, model


def test_what_is_said_of_rivals_at_half_the_rate_is_what_their_seeds_have(fill):
    page = in_one_line("docs/study.md")
    name = "front_half_rate"
    study = fill.load(name)
    assert study.seeds == fill.load("front_confirmed").seeds[:4]
    tests = {(test.first, test.second, test.measure.k): test for test in study.pairs}
    distance = functools.partial(distance_over_seeds, fill, name)
    penalty = "KL penalty, half the rate"
    plain = "grpo, half the rate"
    to_penalty = tests["bon_loo1", penalty, 8]
    to_plain = tests["bon_loo1", plain, 8]
    assert to_penalty.above == to_plain.above == 4
    assert (
        f"has {distance('bon_loo1', penalty, 8)} more than the KL penalty at half the rate (p "
        f"{to_penalty.p:.3f}, and {to_penalty.adjusted_p:.3f} after correction for all "
        f"{len(tests)} tests of the table) and {distance('bon_loo1', plain, 8)} more than GRPO at "
        f"half the rate ({to_plain.adjusted_p:.3f} after correction)"
    ) in page
    assert (
        f"no gain**: {distance(penalty, 'KL penalty', 8)} at 8 with the KL penalty, "
        f"{distance(plain, 'grpo', 8)} for GRPO."
    ) in page
    first = distance("bon_loo1", penalty, 1).replace(" [", "\\* [")
    assert f"better first answer**, by {first}." in page


def test_what_is_said_of_a_smaller_step_for_both_is_what_their_seeds_have(fill):
    page = in_one_line("docs/study.md")
    name = "front_longer"
    study = fill.load(name)
    confirmed = fill.load("front_confirmed")
    assert study.seeds == confirmed.seeds[:4]
    ours = "bon_loo1,steps=1280"
    earlier = "bon_loo1,steps=640"
    theirs = "KL penalty,steps=1280"
    theirs_early = "KL penalty,steps=640"
    tests = {(test.first, test.second, test.measure.k): test for test in study.pairs}

    def distance(first, second, k):
        text = distance_over_seeds(fill, name, first, second, k)
        test = tests.get((first, second, k))
        if test is None or test.adjusted_p > 0.05:
            return text
        return text.replace(" [", "\\* [")

    planned = tests[ours, theirs, 8]
    assert {tests[ours, theirs, k].above for k in (8, 32, 128)} == {4}
    assert (
        f"1,280 steps `bon_loo1` has {distance(ours, theirs, 8)} more at 8** (p {planned.p:.3f}, "
        f"and {planned.adjusted_p:.3f} after correction for all {len(tests)} tests of the table), "
        f"{distance(ours, theirs, 32)} more at 32 and {distance(ours, theirs, 128)} more at 128, "
        f"each in all four seeds. Its first answer is {distance(ours, theirs, 1)} below."
    ) in page
    assert (
        f"after 1,280 it has {distance(theirs, theirs_early, 8)} less at 8 and "
        f"{distance(theirs, theirs_early, 128)} less at 128. Against its 640 steps `bon_loo1` "
        f"after 1,280 has {distance(ours, theirs_early, 8)} more at 8, "
        f"{distance(ours, theirs_early, 32)} more at 32, {distance(ours, theirs_early, 128)} more "
        f"at 128 and {distance(ours, theirs_early, 1)} less at 1."
    ) in page
    # The base and the problems of a seed are the same in both studies.
    for seed in study.seeds:
        means = [s.models["base"]["by_seed"][str(seed)]["max@k"]["8"] for s in (study, confirmed)]
        assert means[0] == means[1]
    to_full_rate = distance_between_studies((study, ours), (confirmed, "bon_loo1"), 8)
    assert (
        f"it has {distance(ours, earlier, 8)} more at 8 after 1,280 steps than after 640, and "
        f"{to_full_rate} more than after 640 steps of the full rate, on the same problems. At "
        f"equal steps of 640 no difference from the KL "
        f"penalty is shown at 8: {distance(earlier, theirs_early, 8)}."
    ) in page


def test_what_is_said_of_a_stronger_penalty_is_what_its_seeds_have(fill):
    page = in_one_line("docs/study.md")
    name = "front_kl"
    study = fill.load(name)
    confirmed = fill.load("front_confirmed")
    assert study.seeds == confirmed.seeds[:4]
    rival = "stronger KL penalty"
    tests = {test.measure.k: test for test in study.pairs}
    assert [k for k, test in tests.items() if test.adjusted_p <= 0.05] == [1]
    lead = {k: distance_over_seeds(fill, name, "bon_loo1", rival, k) for k in (1, 8, 32, 128)}
    assert tests[1].difference < 0 < min(tests[k].difference for k in (8, 32, 128))
    first = lead[1].replace(" [", "\\* [")
    assert (
        f"at 8**: `bon_loo1` has {lead[8]} more, p {tests[8].p:.3f}. At 32 it has {lead[32]} more "
        f"and at 128 {lead[128]}."
    ) in page
    assert f"first answer is better** than that of `bon_loo1`, by {first}." in page
    # The weaker penalty was trained on the same seeds, with the same problems.
    weaker = (confirmed, "KL penalty")
    gains = {k: distance_between_studies((study, rival), weaker, k) for k in (1, 8)}
    assert f"of the same seeds: by {gains[8]} at 8 and by {gains[1]} at 1." in page


def test_what_is_said_of_one_study_against_another_is_what_their_seeds_have(fill):
    page = in_one_line("docs/study.md")
    rates = (fill.load("learning_rate"), "grpo,rate=1.5e-4")
    distilled = (fill.load("distillation"), "bon_loo1 to best of 8")
    assert f"has {distance_between_studies(rates, distilled, 1)} more at 1 than *bon_loo1" in page
    for k in (8, 16, 32, 64, 128):
        low, high = re.findall(r"-?\d\.\d{3}", distance_between_studies(rates, distilled, k))[1:]
        assert float(low) < 0 < float(high), "the page says that no difference is shown"
    falling = distance_over_seeds(fill, "distillation", "base", "k falls to 1", 128)
    assert f"At 128 it has {falling} less than the base." in page
    to_constant = distance_over_seeds(fill, "k_against_n", "k=8", "k=8 to 1", 128)
    assert f"At 128 no difference is shown: it has {to_constant} less." in page


def test_what_is_said_of_three_seeds_is_what_they_have(fill):
    page = in_one_line("docs/study.md")
    at_1 = distance_over_seeds(fill, "signal", "plain loop", "groups with signal", 1)
    at_128 = distance_over_seeds(fill, "signal", "groups with signal", "plain loop", 128)
    first = fill.load("signal").pairs[0]
    assert (
        f"above it at 1 by {at_1}, p {first.adjusted_p:.3f} after correction for two tests, and "
        f"below it at 128 by {at_128} ("
    ) in page
    pairs = fill.load("selection").pairs
    (deployed,) = [
        test
        for test in pairs
        if (test.measure.metric, test.measure.k) == ("max@k by visible_tests", 128)
        and (test.first, test.second) == ("bon_loo1 by visible", "bon_loo1")
    ]
    assert (
        f"it has {-deployed.difference:.3f} [{-deployed.high:.3f}, {-deployed.low:.3f}] more than "
        f"*by visible*, p {deployed.adjusted_p:.3f} after correction for {len(pairs)} tests"
    ) in page


def mean_over_seeds(study, model, k):
    return np.mean([means["max@k"][str(k)] for means in study.models[model]["by_seed"].values()])


def test_the_penalties_are_those_that_the_seeds_which_choose_prefer(fill):
    """Each method's highest mean of max@8 over two seeds, which report nothing."""
    page = in_one_line("docs/study.md")
    choosing = fill.load("front_penalties")
    at_8 = {
        model: mean_over_seeds(choosing, model, 8) for model in choosing.models if model != "base"
    }
    chosen = []
    for method in ("bon_loo1", "grpo"):
        models = [model for model in at_8 if model.startswith(method)]
        chosen.append(max(models, key=at_8.get))
    assert chosen == ["bon_loo1, KL 0.04,steps=640", "grpo, KL 0.2,steps=640"]
    assert (
        f"without one it has {at_8['bon_loo1,steps=640']:.3f} at 8, "
        f"and with 0.04 it has {at_8['bon_loo1, KL 0.04,steps=640']:.3f}."
    ) in page
    from maxatk.studies.recipe import load_study

    reporting = load_study(RECIPES["front_tuned"])
    names = [model.removesuffix(",steps=640") for model in chosen]
    assert [variant.name for variant in reporting.variants] == ["base", *names]
    assert reporting.train["trainer"]["max_steps"] == 640
    assert not set(reporting.seeds) & set(choosing.seeds)


def test_what_is_said_of_tuned_penalties_is_what_their_seeds_have(fill):
    page = in_one_line("docs/study.md")
    readme = in_one_line("README.md")
    name = "front_tuned"
    study = fill.load(name)
    confirmed = fill.load("front_confirmed")
    ours = "bon_loo1, KL 0.04"
    rival = "grpo, KL 0.2"
    assert study.seeds == confirmed.seeds
    # The base and the problems of a seed are the same in both studies.
    bases = [s.models["base"]["by_seed"] for s in (study, confirmed)]
    assert [by_seed["21"]["max@k"]["8"] for by_seed in bases] == [bases[0]["21"]["max@k"]["8"]] * 2
    tests = {test.measure.k: test for test in study.pairs}
    at = (1, 8, 32, 128)
    lead = {k: distance_over_seeds(fill, name, ours, rival, k) for k in at}
    assert tests[8].adjusted_p > 0.05, "the page says that no difference is shown"
    assert (
        f"at 8**: `bon_loo1` has {lead[8]} more, p {tests[8].p:.3f}, in {tests[8].above} of the "
        f"six seeds. At 32 it has {lead[32]} more and at 128 {lead[128]}."
    ) in page
    first = distance_over_seeds(fill, name, rival, ours, 1)
    starred = first.replace(" [", "\\* [") if tests[1].adjusted_p <= 0.05 else first
    assert f"GRPO has the better first answer**, by {starred}." in page
    weaker = (confirmed, "KL penalty")
    gain = {k: distance_between_studies((study, rival), weaker, k) for k in at}
    lost = distance_between_studies(weaker, (study, rival), 1)
    assert (
        f"it has {gain[8]} more at 8 and {gain[128]} more at 128 than with 0.04 and 320 steps, and "
        f"{lost} less at 1."
    ) in page
    without = (confirmed, "bon_loo1")
    plain = {k: distance_between_studies(without, (study, rival), k) for k in at}
    at_32 = distance_between_studies((study, rival), without, 32)
    at_128 = distance_between_studies((study, rival), without, 128)
    assert f"above the tuned GRPO at 8**, by {plain[8]}, with the model" in page
    at_1 = plain[1].replace("-0.000", "0.000")
    assert f"At 1 it has {at_1} more, at 32 {at_32} less and at 128 {at_128} less." in page
    assert f"`bon_loo1` has {plain[8]} more at 8 than that GRPO." in page
    assert (
        f"it has {plain[8]} less at 8 than max@k training without one, an equal first answer and "
        f"{at_128} more at 128."
    ) in readme
    assert f"within {plain[8]} at 8, with more at 128" in in_one_line("docs/choose.md")
    assert f"`bon_loo1` has {lead[8]} more at 8" in readme
    assert f"first answer is {first} better" in readme
    # What the penalty does to our method itself, on the six seeds.
    with_penalty = (study, ours)
    less = {k: distance_between_studies(without, with_penalty, k) for k in (1, 8)}
    more = distance_between_studies(with_penalty, without, 128)
    assert f"against none, {less[8]} less at 8, {less[1]} less at 1 and {more} more at 128." in page
    means = study.models[rival]["metrics"]["max@k"]
    cells = " | ".join(f"{means[k]['mean']:.3f}" for k in ("1", "8", "128"))
    assert f"| GRPO with a penalty of 0.2 | 640 | {cells} |" in readme


RATES = ("smollm2_all", "smollm2_all_half_rate")
SEEDS_OF_RATES = (1, 2, 3, 4, 5)
HALF_A_DIGIT = 0.0005001  # of three that are shown; a mean of 0.3525 may go either way


def shown(table, model, place):
    """Return the number that a cell of the table shows."""
    return float(row_of(table, model)[place].text.replace("−", "-"))


def max_at(fill, study, model, k):
    """Max@k of every problem (seeds, problems), read as it is committed."""
    by_seed = [columns_of(fill, study, model, seed)["max@k"] for seed in SEEDS_OF_RATES]
    return np.array([columns[str(k)] for columns in by_seed])


def test_the_best_arm_of_a_seed_is_chosen_on_the_other_seeds(fill):
    arms = {name: fill.load_evaluations([name]) for name in RATES}
    table = fill.table_of_best(arms)
    for place, k in enumerate((1, 8, 32), 1):
        means = {}
        for model in ("grpo", "bon_loo1"):
            of_arms = [max_at(fill, name, model, k) for name in RATES]
            chosen = []
            for seed in range(len(SEEDS_OF_RATES)):
                others = [other for other in range(len(SEEDS_OF_RATES)) if other != seed]
                best = max(of_arms, key=lambda arm, others=others: arm[others].mean())
                chosen.append(best[seed])
            means[model] = np.mean(chosen)
            assert shown(table, model, place) == pytest.approx(means[model], abs=HALF_A_DIGIT)
        difference = means["bon_loo1"] - means["grpo"]
        assert shown(table, "bon_loo1 − grpo", place) == pytest.approx(difference, abs=HALF_A_DIGIT)
    assert "base" not in {row[0].text for row in table.rows}


def test_what_is_said_of_the_best_rates_is_what_the_seeds_say(fill):
    arms = {name: fill.load_evaluations([name]) for name in RATES}
    readme = in_one_line("README.md")
    page = in_one_line("docs/smollm2.md")
    lead = row_of(fill.table_of_best(arms), "bon_loo1 − grpo")[-1]
    interval = f"{lead.text} {lead.detail}".replace("+", "").replace("−", "-")
    assert f"`bon_loo1` has {interval} more" in readme
    # At 32 the rates that the other seeds choose are the same for all of them.
    values = max_at(fill, RATES[0], "bon_loo1", 32) - max_at(fill, RATES[1], "grpo", 32)
    test = over_seeds_and_problems(values[:, :, None], variance_factor=1 + 5 / 4)
    assert f"(p {test.p[0]:.2f})" in page
    behind = values.mean(axis=1)[4]
    assert (values.mean(axis=1)[:4] > 0).all()
    assert f"behind by {-behind:.3f} in the fifth" in page
    half = row_of(fill.table_of_seeds(arms[RATES[1]]), "bon_loo1 − grpo")[-1]
    low, high = half.detail.strip("[]").replace("−", "-").replace("+", "").split(", ")
    less = half.text.removeprefix("−")
    assert f"{less} [{-float(high):.3f}, {-float(low):.3f}] less" in readme


def test_what_is_said_of_the_largest_rate_is_what_its_seed_says(fill):
    page = in_one_line("docs/smollm2.md")
    table = fill.table_of_seeds(fill.load_evaluations(["smollm2_all_double_rate"]))
    of_eight = row_of(table, "bon_loo1 − grpo")[2]
    low, high = of_eight.detail.strip("[]").replace("−", "-").split(", ")
    assert f"at 8 by {of_eight.text[1:]} [{-float(high):.3f}, {-float(low):.3f}]" in page
    sentences = {
        "bon_loo1": "has {} there, where it has {} at the full rate and {} at half of it",
        "grpo": "GRPO has {}, {} and {}.",
    }
    for model, sentence in sentences.items():
        means = [
            np.mean(columns_of(fill, study, model, 5)["max@k"]["32"])
            for study in ("smollm2_all_double_rate", *RATES)
        ]
        assert sentence.format(*(f"{mean:.3f}" for mean in means)) in page


def test_what_is_said_of_the_base_with_256_samples_is_what_its_file_has(fill):
    page = in_one_line("docs/smollm2.md")
    pooled = json.loads((fill.DOCS / "smollm2_base" / "base.json").read_text())
    at = pooled["metrics"]["max@k"]
    assert (
        f"It has {at['1']['mean']:.3f} at 1, {at['8']['mean']:.3f} at 8 and "
        f"{at['32']['mean']:.3f} at 32" in page
    )
    for k in ("128", "256"):
        interval = f"{at[k]['mean']:.3f} [{at[k]['low']:.3f}, {at[k]['high']:.3f}]"
        assert interval in page
    assert set(pooled["per_problem"]["samples"]) == {256}
    cpus = fill.load_evaluations(["smollm2_all"])
    ids = columns_of(fill, "smollm2_all", "base", 1)["ids"]
    assert sorted(pooled["per_problem"]["ids"]) == sorted(ids)
    row = row_of(fill.table_of_seeds(cpus), "base")
    means = [cell.text.split()[0] for cell in row[1:]]
    assert f"where the CPUs have {means[0]}, {means[1]} and {means[2]}" in page


def programs_of(fill, study, model):
    """Return how many of the samples of a problem are different programs, for every seed."""
    by_seed = [columns_of(fill, study, model, seed)["programs"] for seed in SEEDS_OF_RATES]
    return np.mean(by_seed, axis=1)


def test_what_is_said_of_narrowing_is_what_all_trainings_have(fill):
    page = in_one_line("docs/smollm2.md")
    means = {}
    for study in RATES:
        by_seed = {model: programs_of(fill, study, model) for model in ("grpo", "bon_loo1")}
        means[study] = {model: f"{of_seeds.mean():.1f}" for model, of_seeds in by_seed.items()}
        if study == RATES[0]:
            assert (by_seed["grpo"] < by_seed["bon_loo1"]).all()
    assert (
        "GRPO has {grpo} different programs of 32 and `bon_loo1` {bon_loo1}, with".format(
            **means[RATES[0]]
        )
        in page
    )
    assert (
        "half the rate it has {grpo} and `bon_loo1` {bon_loo1}.".format(**means[RATES[1]]) in page
    )
    others = [
        [
            f"{fill.load(name).models[model]['diversity']['programs']:.1f}"
            for model in means[RATES[0]]
        ]
        for name in ("smollm2_hidden", "smollm2_long_2", "smollm2_hidden_long")
    ]
    assert (
        "it has {} and `bon_loo1` {} after 30 steps with hidden tests (three seeds), {} and {} "
        "after 60 with visible ones (seeds 2 and 3), and {} and {} in the other".format(
            *others[0], *others[1], *others[2]
        )
    ) in page


def test_the_same_trainings_are_those_that_the_page_names(fill):
    """Where max@1 of the chosen problems is equal in two evaluations, it is one training."""
    studies = {1: "", 2: "_2", 3: "_3", 4: "_3", 5: "_5"}
    same = set()
    for seed, suffix in studies.items():
        study = fill.load(f"smollm2_hidden_long{suffix}")
        chosen = fill.problems_of("smollm2_hidden_long_2")
        for model in ("grpo", "bon_loo1"):
            columns = columns_of(fill, "smollm2_all", model, seed)
            values = zip(columns["ids"], columns["max@k"]["1"], strict=True)
            mean = np.mean([value for name, value in values if name in chosen])
            shown_there = study.models[model]["by_seed"][str(seed)]["max@k"]["1"]
            if mean == pytest.approx(shown_there, abs=SHOWN):
                same.add((seed, model))
    assert same == {(3, "grpo"), (3, "bon_loo1"), (4, "grpo"), (4, "bon_loo1"), (5, "bon_loo1")}
    assert (
        "Those of the third and the fourth seed, and `bon_loo1` of the fifth, are the trainings of "
        "the tables above."
    ) in in_one_line("docs/smollm2.md")


def adjusted_p_of_smollm2(fill, study):
    """Return p of the crossed tests of a table, by pair and k, corrected for all nine of them."""
    p_values = {}
    for first, second in (("grpo", "base"), ("bon_loo1", "base"), ("bon_loo1", "grpo")):
        for k in (1, 8, 32):
            differences = max_at(fill, study, first, k) - max_at(fill, study, second, k)
            p_values[first, second, k] = over_seeds_and_problems(differences[:, :, None]).p[0]
    corrected = stats.false_discovery_control(list(p_values.values()))
    return dict(zip(p_values, corrected, strict=True))


def test_what_is_said_of_the_tests_on_smollm2_is_corrected(fill):
    page = in_one_line("docs/smollm2.md")
    full = adjusted_p_of_smollm2(fill, "smollm2_all")
    for k in (1, 32):
        assert f"{full['bon_loo1', 'grpo', k]:.3f}" == "0.016"
    assert "Both have p 0.016 after correction for nine tests" in page
    half = adjusted_p_of_smollm2(fill, "smollm2_all_half_rate")
    of_eight = f"{half['bon_loo1', 'grpo', 8]:.3f}"
    assert f"0.016 [0.000, 0.031], p {of_eight} after correction for nine tests" in page


def test_what_is_said_of_a_second_turn_is_what_its_problems_say():
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8").replace("−", "-")
    path = ROOT / "docs" / "study" / "smollm2_programs" / "turns.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ways = [f"{way} at 1" for way in ("one turn", "blind retry", "two turns")]
    for trained_with in ("one turn", "two turns"):
        of_model = [row for row in rows if row["trained with"] == trained_with]
        values = np.array([[float(row[way]) for way in ways] for row in of_model])
        of_problems = values.reshape(2, 120, 3).mean(axis=0)  # over the two seeds
        difference = of_problems[:, 2] - of_problems[:, 1]
        half = stats.t.ppf(0.975, 119) * stats.sem(difference)
        means = " | ".join(f"{mean:.3f}" for mean in of_problems.mean(axis=0))
        low, high = difference.mean() - half, difference.mean() + half
        expected = f"{difference.mean():.3f} [{low:.3f}, {high:.3f}]"
        assert f"| {trained_with} | {means} | {expected} |" in page


def test_what_is_said_of_the_spread_over_seeds_is_what_the_studies_have(fill):
    # Models of the front are checkpoints of the same few trainings, and three others share models
    # and problems with the seeds that chose nothing.
    left_out = ("front", "front_half_rate", "front_longer", "front_kl", "front_tuned")
    studies = [fill.load(name) for name in STUDIES if name not in left_out]
    studies = [study for study in studies if study.over == "seeds"]
    spreads = []
    too_narrow = []
    for k in (1, 128):
        of_pairs = []
        of_models = []
        for study in studies:
            for test in study.pairs:
                if (test.measure.metric, test.measure.k) == ("max@k", k):
                    of_pairs.append(np.std(test.by_seed, ddof=1))
            for model in study.models.values():
                means = [of_seed["max@k"][str(k)] for of_seed in model["by_seed"].values()]
                over_seeds = stats.t.ppf(0.975, len(means) - 1) * stats.sem(means)
                shown_interval = model["metrics"]["max@k"][str(k)]
                over_prompts = (shown_interval["high"] - shown_interval["low"]) / 2
                of_models.append(over_seeds / over_prompts)
        spreads.append(round(float(np.median(of_pairs)), 3))
        too_narrow.append(float(np.median(of_models)))
    choose = in_one_line("docs/choose.md")
    page = in_one_line("docs/study.md")
    assert "over seeds by {:.3f} at k = 1 and by {:.3f} at 128".format(*spreads) in choose
    needed = [pairs_needed(gain, spread) for gain in (0.05, 0.02) for spread in spreads]
    sentence = "0.05 then takes {} to {} seeds, and one of 0.02 takes {} to {}."
    assert sentence.format(*needed) in choose
    assert "takes [{} to {} seeds]".format(*needed[2:]) in page
    assert "by a factor of about {:.1f} at 1 and {:.1f} at 128.".format(*too_narrow) in page
