"""The committed results, as the tests of this folder read them again."""

import json
from pathlib import Path

import numpy as np
import yaml
from scipy import stats

ROOT = Path(__file__).parents[2]
STUDIES = sorted(path.parent.name for path in (ROOT / "docs" / "study").glob("*/results.json"))
RECIPES = {}  # by the name that the study's folder has
for path in (ROOT / "recipes").glob("*/*.yaml"):
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "out" in settings:
        RECIPES[Path(settings["out"]).name] = path
RATES = ("smollm2_all", "smollm2_all_half_rate")
SEEDS_OF_RATES = (1, 2, 3, 4, 5)
ALL_RATES = (*RATES, "smollm2_all_double_rate")
SEEDS_OF_ALL_RATES = (1, 2, 3, 5)  # the largest rate ran on these
STUDY = "docs/study.md"
TEMPERATURE = "docs/study-temperature.md"
BEST_SETTINGS = "docs/study-best-settings.md"
SIDE_QUESTIONS = "docs/study-side-questions.md"
SHOWN = 6e-6  # the values of problems are rounded to six digits


def in_one_line(page):
    """Return a page whose sentences are not broken into lines."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def columns_of(fill, name, model, seed):
    """Return the values of single problems in one committed evaluation of SmolLM2."""
    path = fill.DOCS / name / "evaluations" / f"{model}_{seed}.json"
    return json.loads(path.read_text())["per_problem"]


def row_of(table, name):
    """Return the one row of a table that has this name."""
    (row,) = [row for row in table.rows if row[0].text == name]
    return row


def max_at(fill, study, model, k, *, seeds=SEEDS_OF_RATES):
    """Max@k of every problem (seeds, problems), read as it is committed."""
    by_seed = [columns_of(fill, study, model, seed)["max@k"] for seed in seeds]
    return np.array([columns[str(k)] for columns in by_seed])


def best_on_the_other_seeds(fill, studies, model, k, *, seeds):
    """Return max@k of every seed in the study that the other seeds choose, and these studies."""
    of_studies = [max_at(fill, name, model, k, seeds=seeds) for name in studies]
    values = []
    chosen = []
    for place in range(len(seeds)):
        means = [np.delete(of_study, place, axis=0).mean() for of_study in of_studies]
        best = int(np.argmax(means))
        values.append(of_studies[best][place])
        chosen.append(studies[best])
    return np.array(values), chosen


def with_plain_signs(text):
    """Return a number of a table, or several, as sentences write them."""
    return text.replace("+", "").replace("−", "-")


def mean_over_seeds(study, model, k):
    """Return max@k of a model, every seed with the same weight."""
    return np.mean([means["max@k"][str(k)] for means in study.models[model]["by_seed"].values()])


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
        return _with_interval(-mean, -high, -low)
    return _with_interval(mean, low, high)


def differences_between_studies(first, second, k):
    """Return by how much one model is above one of another study of the same problems, by seed.

    Each is a study and the name of its model; the seeds are those that both studies have.
    """
    study, model = first
    other_study, other_model = second
    of_other = other_study.models[other_model]["by_seed"]
    return [
        means["max@k"][str(k)] - of_other[seed]["max@k"][str(k)]
        for seed, means in study.models[model]["by_seed"].items()
        if seed in of_other
    ]


def distance_between_studies(first, second, k):
    """Return as text the mean of those differences with the interval over seeds."""
    return mean_over_seeds_as_text(differences_between_studies(first, second, k))


def mean_over_seeds_as_text(differences):
    """Return the mean of differences, one a seed, with the interval of Student's t."""
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    return _with_interval(np.mean(differences), interval.low, interval.high)


def shown_test(test, *, sign=1):
    """Return the mean of a test with its interval; with a sign of -1, by how much it is less."""
    mean = test.mean[0]
    low = test.low[0]
    high = test.high[0]
    if sign < 0:
        return _with_interval(-mean, -high, -low)
    return _with_interval(mean, low, high)


def _with_interval(mean, low, high):
    """Return a mean and its interval as the pages write them, where no 0 has a sign."""
    mean, low, high = (round(float(number), 3) + 0.0 for number in (mean, low, high))
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"
