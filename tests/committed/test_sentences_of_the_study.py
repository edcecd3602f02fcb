"""What the pages say of the other studies of the built-in model is what they have."""

import re

import numpy as np
from scipy import stats

from committed.results import (
    SIDE_QUESTIONS,
    STUDIES,
    STUDY,
    distance_between_studies,
    distance_over_seeds,
    in_one_line,
    interval_over_seeds,
)
from maxatk.statistics.power import pairs_needed


def test_what_is_said_of_unsolved_problems_is_what_the_seeds_say(fill):
    page = in_one_line(SIDE_QUESTIONS)
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


def test_what_is_said_of_one_study_against_another_is_what_their_seeds_have(fill):
    page = in_one_line(STUDY)
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
    page = in_one_line(SIDE_QUESTIONS)
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


def test_what_is_said_of_the_spread_over_seeds_is_what_the_studies_have(fill):
    # Models of the front are checkpoints of the same few trainings, those of temperatures differ in
    # their samples alone, and the others share models or problems with the seeds that chose nothing
    # or with the fresh ones.
    left_out = (
        "front",
        "front_half_rate",
        "front_longer",
        "front_kl",
        "front_tuned",
        "front_repeated_longer",
        "front_falling_k",
        "front_weaker_penalty",
        "front_dr_grpo",
        "front_temperature",
        "front_temperature_longer",
        "front_rollouts",
        "front_tuned_temperature",
        "front_tuned_temperature_again",
        "front_temperature_penalties",
        "front_temperature_penalties_again",
        "front_temperature_penalties_fresh",
        "front_distillation",
        "front_distillation_again",
    )
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
    page = in_one_line(STUDY)
    assert "over seeds by {:.3f} at k = 1 and by {:.3f} at 128".format(*spreads) in choose
    needed = [pairs_needed(gain, spread) for gain in (0.05, 0.02) for spread in spreads]
    sentence = "0.05 then takes {} to {} seeds, and one of 0.02 takes {} to {}."
    assert sentence.format(*needed) in choose
    assert "takes [{} to {} seeds]".format(*needed[2:]) in page
    assert "by a factor of about {:.1f} at 1 and {:.1f} at 128.".format(*too_narrow) in page
