"""What the pages say of SmolLM2 is what its committed evaluations have."""

import csv
import json

import numpy as np
import pytest
from scipy import stats

from committed.results import (
    ALL_RATES,
    RATES,
    ROOT,
    SEEDS_OF_ALL_RATES,
    SEEDS_OF_RATES,
    SHOWN,
    best_on_the_other_seeds,
    columns_of,
    in_one_line,
    max_at,
    row_of,
    shown_test,
    with_plain_signs,
)
from maxatk.evaluation.results import read_results
from maxatk.statistics.significance import (
    adjusted_p_values,
    over_seeds_and_problems,
    paired_difference,
)


def plain(cell):
    """Return a mean and its interval as sentences write them."""
    return with_plain_signs(f"{cell.text} {cell.detail}")


def less(cell):
    """Return the same of a difference below 0, as by how much less it is."""
    ends = with_plain_signs(cell.detail).strip("[]").split(", ")
    low, high = (0.0 - float(end) for end in reversed(ends))
    return f"{cell.text.removeprefix('−')} [{low:.3f}, {high:.3f}]"


def test_what_is_said_of_the_best_of_three_rates_is_what_the_seeds_say(fill):
    page = in_one_line("docs/smollm2.md")
    arms = fill.of_shared_seeds({name: fill.load_evaluations([name]) for name in ALL_RATES})
    at_1, at_8, at_32 = row_of(fill.table_of_best(arms), "bon_loo1 − grpo")[1:]
    assert (
        f"`bon_loo1` has {plain(at_32)} more at 32, {less(at_8)} less at 8 and {less(at_1)} less"
    ) in page
    assert f"`bon_loo1` has {plain(at_32)} more at 32, over four seeds" in in_one_line("README.md")
    p_values = []
    rates = {}
    for k in (1, 8, 32):
        values = {}
        for model in ("bon_loo1", "grpo"):
            values[model], rates[model, k] = best_on_the_other_seeds(
                fill, ALL_RATES, model, k, seeds=SEEDS_OF_ALL_RATES
            )
        difference = values["bon_loo1"] - values["grpo"]
        test = over_seeds_and_problems(difference[:, :, None], variance_factor=1 + 4 / 3)
        p_values.append(f"{test.p[0]:.2f}")
    assert f"p {p_values[0]}, {p_values[1]} and {p_values[2]}. This test" in page
    full, half, double = ALL_RATES
    for k in (8, 32):
        assert set(rates["grpo", k]) == {half}
        assert set(rates["bon_loo1", k]) == {full}
    assert set(rates["bon_loo1", 1]) == {double}
    assert sorted(rates["grpo", 1]) == sorted([full] * 3 + [double])


def test_what_is_said_of_the_better_of_two_rates_is_what_the_seeds_say(fill):
    page = in_one_line("docs/smollm2.md")
    # At 32 the rates that the other seeds choose are the same for all of them.
    values = max_at(fill, RATES[0], "bon_loo1", 32) - max_at(fill, RATES[1], "grpo", 32)
    test = over_seeds_and_problems(values[:, :, None], variance_factor=1 + 5 / 4)
    assert f"(p {test.p[0]:.2f})" in page
    behind = values.mean(axis=1)[4]
    assert (values.mean(axis=1)[:4] > 0).all()
    assert f"behind by {-behind:.3f} in the fifth" in page


def test_what_is_said_of_the_largest_rate_is_what_its_seeds_say(fill):
    page = in_one_line("docs/smollm2.md")
    largest = fill.load_evaluations(["smollm2_all_double_rate"])
    assert set(largest["grpo"]) == set(SEEDS_OF_ALL_RATES)
    table = fill.table_of_seeds(largest)
    lead = row_of(table, "bon_loo1 − grpo")[-1]
    gain = row_of(table, "grpo − base")[-1]
    gain_at_half = row_of(
        fill.table_of_seeds(fill.load_evaluations(["smollm2_all_half_rate"])), "grpo − base"
    )[-1]
    assert (
        f"`bon_loo1` has {plain(lead)} more at 32, and leads there in three of the four seeds."
    ) in page
    assert (
        f"it is {plain(gain)} above the base, where it is {plain(gain_at_half)} above it at 1e-4."
    ) in page
    means = {
        model: max_at(fill, ALL_RATES[2], model, 32, seeds=SEEDS_OF_ALL_RATES).mean(axis=1)
        for model in ("grpo", "bon_loo1")
    }
    assert (means["bon_loo1"] > means["grpo"]).sum() == 3


def test_what_is_said_of_thirty_large_steps_is_what_their_seeds_say(fill):
    page = in_one_line("docs/smollm2.md")
    thirty = "smollm2_all_double_rate_30"
    sixty = ALL_RATES[2]
    seeds = (1, 2, 3)
    assert tuple(sorted(fill.load_evaluations([thirty])["grpo"])) == seeds
    loses = {}
    for model in ("bon_loo1", "grpo"):
        less_after_60 = max_at(fill, thirty, model, 32, seeds=seeds) - max_at(
            fill, sixty, model, 32, seeds=seeds
        )
        test = over_seeds_and_problems(less_after_60[:, :, None])
        loses[model] = shown_test(test)
    assert f"`bon_loo1` has {loses['bon_loo1']} less at 32 than after 30" in page
    assert f"than after 30, and GRPO {loses['grpo']} less." in page
    names = (*ALL_RATES, thirty)
    for k in (8, 32):
        means = {
            (name, model): max_at(fill, name, model, k, seeds=seeds).mean()
            for name in names
            for model in ("grpo", "bon_loo1")
        }
        assert max(means, key=means.get) == (thirty, "bon_loo1")
    arms = fill.of_shared_seeds({name: fill.load_evaluations([name]) for name in names})
    _, at_8, at_32 = row_of(fill.table_of_best(arms), "bon_loo1 − grpo")[1:]
    assert f"has {plain(at_32)} more at 32 than GRPO and {plain(at_8)} more at 8." in page


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


SEEDS_OF_128 = (6, 7)


def evaluations_of_128(fill, seed):
    """Return the evaluations of one seed with 128 samples, and the base on the same problems."""
    trained = {
        model: {seed: by_seed[seed]}
        for model, by_seed in fill.load_evaluations(["smollm2_128"]).items()
    }
    return fill.with_base(trained, read_results(fill.DOCS / "smollm2_base" / "base.json"))


def test_what_is_said_of_the_best_of_128_is_what_its_seeds_say(fill):
    page = in_one_line("docs/smollm2.md")
    rows = {}
    for seed in SEEDS_OF_128:
        table = fill.table_of_seeds(evaluations_of_128(fill, seed))
        pairs = ("grpo − base", "bon_loo1 − base", "bon_loo1 − grpo")
        rows[seed] = [row_of(table, pair)[-1] for pair in pairs]
        for model in ("grpo", "bon_loo1"):
            assert set(columns_of(fill, "smollm2_128", model, seed)["samples"]) == {128}
    of_grpo, of_bon, lead = rows[6]
    assert f"GRPO has {plain(of_grpo)} more at 128 than the base" in page
    assert f"and `bon_loo1` {plain(of_bon)} more, both" in page
    assert f"`bon_loo1` has {less(lead)} less (p" in page
    values = {
        model: np.array(by_seed[6].per_problem.values["max@k"][128])[:, None]
        for model, by_seed in evaluations_of_128(fill, 6).items()
    }
    planned = [("grpo", "base"), ("bon_loo1", "base"), ("bon_loo1", "grpo")]
    p_values = [float(paired_difference(values[a], values[b]).p[0]) for a, b in planned]
    texts = [f"{p:.2f}" for p in adjusted_p_values(p_values)]
    assert texts[0] == texts[1]
    assert f"both with p {texts[0]} after correction for the three tests" in page
    assert f"(p {texts[2]})" in page
    of_grpo, of_bon, lead = [_shown(cell) for cell in rows[7]]
    assert f"On the seventh GRPO has {of_grpo} than the base, `bon_loo1` {of_bon}" in page
    assert f"and `bon_loo1` {lead} than GRPO" in page


def _shown(cell):
    """Return a difference as sentences write it, with its direction."""
    if cell.text.startswith("−"):
        return f"{less(cell)} less"
    return f"{plain(cell)} more"


def test_what_is_said_of_the_two_seeds_beside_the_five_is_what_they_say(fill):
    page = in_one_line("docs/smollm2.md")
    at_32 = {}
    for seed in SEEDS_OF_128:
        row = row_of(fill.table_of_seeds(evaluations_of_128(fill, seed)), "bon_loo1 − grpo")
        at_32[seed] = _shown(row[3])
    assert f"`bon_loo1` has {at_32[6]} there than GRPO on the sixth and {at_32[7]} on the" in page
    tests = {}
    for k in (1, 32):
        values = {
            model: np.concatenate(
                [
                    max_at(fill, RATES[0], model, k),
                    max_at(fill, "smollm2_128", model, k, seeds=SEEDS_OF_128),
                ]
            )
            for model in ("grpo", "bon_loo1")
        }
        differences = (values["bon_loo1"] - values["grpo"])[:, :, None]
        assert len(differences) == 7
        tests[k] = over_seeds_and_problems(differences)
    assert (
        f"`bon_loo1` has {shown_test(tests[32])} more at 32 (p {tests[32].p[0]:.3f}) and "
        f"{shown_test(tests[1], sign=-1)} less at 1"
    ) in page
    assert f"Over all seven it is {shown_test(tests[32])}." in page
    assert f"over all seven it is {shown_test(tests[32])}." in in_one_line("README.md")


def test_what_is_said_of_the_variety_of_the_two_seeds_is_what_they_have(fill):
    page = in_one_line("docs/smollm2.md")
    programs = {
        (seed, model): np.mean(columns_of(fill, "smollm2_128", model, seed)["programs"])
        for seed in SEEDS_OF_128
        for model in ("grpo", "bon_loo1")
    }
    assert (
        f"{programs[6, 'grpo']:.1f} of the 128 programs of a problem differ on the sixth seed and "
        f"{programs[7, 'grpo']:.1f} on the seventh, with `bon_loo1` {programs[6, 'bon_loo1']:.1f} "
        f"and {programs[7, 'bon_loo1']:.1f}."
    ) in page


def test_what_is_said_of_the_base_at_other_temperatures_is_what_its_files_have(fill):
    page = in_one_line("docs/smollm2.md")
    intervals = []
    for temperature in ("0.3", "1"):
        file = fill.DOCS / "smollm2_base" / f"temperature_{temperature}.json"
        evaluated = json.loads(file.read_text())
        assert set(evaluated["per_problem"]["samples"]) == {16}
        ids = columns_of(fill, "smollm2_all", "base", 1)["ids"]
        assert sorted(evaluated["per_problem"]["ids"]) == sorted(ids)
        at = evaluated["metrics"]["max@k"]
        intervals += [
            f"{at[k]['mean']:.3f} [{at[k]['low']:.3f}, {at[k]['high']:.3f}]" for k in "18"
        ]
    cold_1, cold_8, hot_1, hot_8 = intervals
    assert f"it has {cold_1} at 1 and {cold_8} at 8 where it is sampled at 0.3" in page
    assert f"and {hot_1} and {hot_8} at 1, with" in page
    cold = json.loads((fill.DOCS / "smollm2_base" / "temperature_0.3.json").read_text())
    columns = cold["per_problem"]
    more = {}
    for model in ("grpo", "bon_loo1"):
        for k in (1, 8):
            of_cold = dict(zip(columns["ids"], columns["max@k"][str(k)], strict=True))
            difference = max_at(fill, RATES[0], model, k) - [of_cold[name] for name in ids]
            test = over_seeds_and_problems(difference[:, :, None])
            more[model, k] = shown_test(test)
    assert (
        f"have {more['grpo', 1]} more at 1 and {more['grpo', 8]} more at 8 with GRPO, and "
        f"{more['bon_loo1', 1]} and {more['bon_loo1', 8]} more with `bon_loo1`"
    ) in page
    readme = in_one_line("README.md")
    assert f"{more['bon_loo1', 8]} more at 8 than the base at 0.3" in readme


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
    programs = [
        [
            f"{fill.load(name).models[model]['diversity']['programs']:.1f}"
            for model in means[RATES[0]]
        ]
        for name in ("smollm2_hidden", "smollm2_long_2", "smollm2_hidden_long")
    ]
    assert (
        "it has {} and `bon_loo1` {} after 30 steps with hidden tests (three seeds), {} and {} "
        "after 60 with visible ones (seeds 2 and 3), and {} and {} in the other".format(
            *programs[0], *programs[1], *programs[2]
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
        low = difference.mean() - half
        high = difference.mean() + half
        expected = f"{difference.mean():.3f} [{low:.3f}, {high:.3f}]"
        assert f"| {trained_with} | {means} | {expected} |" in page
