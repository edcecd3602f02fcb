"""What a demo says at its end, and the table of other seeds that the package carries."""

import csv
import json
from importlib import resources
from pathlib import Path

import pytest

from maxatk.evaluation.results import Counts, Diversity, Mean, PerProblem, Results
from maxatk.report.comparison import Comparison, Run
from maxatk.studies.demo_conclusion import (
    AT_OTHER_TEMPERATURES,
    DEMO_MODELS,
    OTHER_SEEDS,
    demo_conclusion,
)
from maxatk.studies.recipe import load_study

RECIPE = Path(__file__).parents[2] / "recipes" / "mini" / "demo.yaml"
STUDY = Path(__file__).parents[2] / "docs" / "study" / "demo_seeds" / "results.json"


def results_of(best, k=128):
    """Results that know one k alone."""
    means = {k: Mean(best, best, best, 40)}
    return Results(
        metrics={"max@k": means, "pass@k": means},
        per_problem=PerProblem(),
        counts=Counts(40, 10240, 0, {}),
        entropy=None,
        diversity=Diversity(),
        manifest={},
    )


def sentences_of(base, grpo, bon_loo1):
    values = {"base": base, "grpo": grpo, "bon_loo1": bon_loo1}
    return demo_conclusion(load_study(RECIPE), compared(values))


def compared(best, k=128):
    """Models that know one k alone."""
    return Comparison(tuple(Run(name, results_of(mean, k)) for name, mean in best.items()))


def test_one_sentence_says_what_the_best_of_many_is_worth():
    first, second, other_seeds, smaller, cooler = sentences_of(0.82, 0.71, 0.84)
    assert first == (
        "Of 128 answers, the best is worth 0.71 after GRPO, 0.82 before training and 0.84 after "
        "max@8 training."
    )
    assert second.startswith("Ordinary training lost part of it")
    assert other_seeds.startswith(
        "On 8 other seeds, each with its own problems, at a learning rate of"
    )
    assert other_seeds.endswith("(8 of 8 above 0), with 95% intervals over seeds.")
    assert "on five of these seeds GRPO at half of this one loses nothing there" in smaller
    assert cooler == AT_OTHER_TEMPERATURES


@pytest.mark.parametrize("values", [(0.82, 0.83, 0.84), (0.82, 0.75, 0.72)])
def test_a_run_that_does_not_show_the_effect_says_so(values):
    assert sentences_of(*values)[1].startswith("This run does not show what the other seeds show")


def test_a_run_without_the_models_or_with_few_samples_says_nothing():
    demo = load_study(RECIPE)
    assert demo_conclusion(demo, compared({"base": 0.8})) == []
    assert demo_conclusion(demo, compared(dict.fromkeys(DEMO_MODELS, 0.8), k=8)) == []


def test_a_study_of_another_model_says_nothing(recipe, of_a_llama):
    comparison = compared(dict.fromkeys(DEMO_MODELS, 0.8))
    assert demo_conclusion(load_study(recipe()), comparison) != []
    assert demo_conclusion(load_study(recipe(**of_a_llama)), comparison) == []


def test_the_table_of_the_package_is_that_of_the_study():
    study = json.loads(STUDY.read_text(encoding="utf-8"))
    text = (resources.files("maxatk") / OTHER_SEEDS).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 3 * 8
    for row in rows:
        means = study["models"][row["model"]]["by_seed"][row["seed"]]["max@k"]
        assert [float(row[k]) for k in ("1", "8", "32", "128")] == pytest.approx(
            [means[k] for k in ("1", "8", "32", "128")], abs=5e-5
        )


def test_every_seed_of_the_table_shows_the_effect():
    text = (resources.files("maxatk") / OTHER_SEEDS).read_text(encoding="utf-8")
    seeds = {}
    for row in csv.DictReader(text.splitlines()):
        seeds.setdefault(row["seed"], {})[row["model"]] = {
            k: float(row[k]) for k in ("1", "8", "32", "128")
        }
    for scores in seeds.values():
        assert scores["grpo"]["128"] < scores["base"]["128"]
        assert all(scores["bon_loo1"][k] > scores["grpo"][k] for k in ("8", "32", "128"))
        assert scores["bon_loo1"]["8"] > scores["base"]["8"]
    sentence = sentences_of(0.8, 0.7, 0.8)[2]
    assert "-0.141 [-0.191, -0.091] (0 of 8 above 0)" in sentence
    assert "+0.137 [0.085, 0.188] (8 of 8 above 0)" in sentence
