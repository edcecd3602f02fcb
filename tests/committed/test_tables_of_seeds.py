"""Tables over seeds that share problems: which interval, which problems, which arm is best."""

import numpy as np
import pytest
from scipy import stats

from committed.results import (
    ALL_RATES,
    RATES,
    SEEDS_OF_ALL_RATES,
    SEEDS_OF_RATES,
    best_on_the_other_seeds,
    columns_of,
    row_of,
)
from maxatk.errors import InvalidValueError

FOUR_SEEDS = ("smollm2_hidden_long_2", "smollm2_hidden_long_3", "smollm2_hidden_long_5")
HALF_A_DIGIT = 0.0005001  # of three that are shown; a mean of 0.3525 may go either way


def shown(table, model, place):
    """Return the number that a cell of the table shows."""
    return float(row_of(table, model)[place].text.replace("−", "-"))


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
    residuals = values - values.mean(axis=0) - values.mean(axis=1)[:, None] + values.mean()
    by_residual = (residuals**2).sum() / ((seeds - 1) * (problems - 1))
    mean_squares = max(by_seed + by_problem - by_residual, by_seed, by_problem)
    df = mean_squares**2 / (
        by_seed**2 / (seeds - 1)
        + by_problem**2 / (problems - 1)
        + by_residual**2 / ((seeds - 1) * (problems - 1))
    )
    half = stats.t.ppf(0.975, df) * np.sqrt(mean_squares / (seeds * problems))
    low = values.mean() - half
    high = values.mean() + half
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
    for is_inside, part in parts.items():
        table = fill.table_of_seeds(fill.over_problems(evaluations, chosen, inside=is_inside))
        assert row_of(table, "base")[3].text == f"{np.mean(part):.3f}"
    # The committed digits of the same models come out on the 28 problems.
    committed = columns_of(fill, "smollm2_hidden_long_3", "base", 3)
    again = dict(zip(seeds[2]["ids"], seeds[2]["max@k"]["32"], strict=True))
    on_the_28 = [again[name] for name in committed["ids"]]
    assert on_the_28 == pytest.approx(committed["max@k"]["32"], abs=1e-4)


@pytest.mark.parametrize(
    ("rates", "seeds"), [(RATES, SEEDS_OF_RATES), (ALL_RATES, SEEDS_OF_ALL_RATES)]
)
def test_the_best_arm_of_a_seed_is_chosen_on_the_other_seeds(fill, rates, seeds):
    arms = fill.of_shared_seeds({name: fill.load_evaluations([name]) for name in rates})
    table = fill.table_of_best(arms)
    for place, k in enumerate((1, 8, 32), 1):
        means = {}
        for model in ("grpo", "bon_loo1"):
            values, _ = best_on_the_other_seeds(fill, rates, model, k, seeds=seeds)
            means[model] = values.mean()
            assert shown(table, model, place) == pytest.approx(means[model], abs=HALF_A_DIGIT)
        difference = means["bon_loo1"] - means["grpo"]
        assert shown(table, "bon_loo1 − grpo", place) == pytest.approx(difference, abs=HALF_A_DIGIT)
    assert "base" not in {row[0].text for row in table.rows}
