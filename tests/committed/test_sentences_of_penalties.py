"""What the pages say of KL penalties on the built-in model is what its seeds have."""

import numpy as np
from scipy import stats

from committed.results import (
    BEST_SETTINGS,
    RECIPES,
    ROOT,
    STUDY,
    differences_between_studies,
    distance_between_studies,
    distance_over_seeds,
    in_one_line,
    mean_over_seeds,
    mean_over_seeds_as_text,
)
from maxatk.statistics.significance import adjusted_p_values
from maxatk.studies.recipe import load_study


def test_what_is_said_of_a_stronger_penalty_is_what_its_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
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


def test_the_penalties_are_those_that_the_seeds_which_choose_prefer(fill):
    """Each method's highest mean of max@8 over two seeds, which report nothing."""
    page = in_one_line(BEST_SETTINGS)
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

    reporting = load_study(RECIPES["front_tuned"])
    names = [model.removesuffix(",steps=640") for model in chosen]
    assert [variant.name for variant in reporting.variants] == ["base", *names]
    assert reporting.train["trainer"]["max_steps"] == 640
    assert not set(reporting.seeds) & set(choosing.seeds)


def test_what_is_said_of_tuned_penalties_is_what_their_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
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
    assert f"At 1 it has {plain[1]} more, at 32 {at_32} less and at 128 {at_128} less." in page
    # What the penalty does to our method itself, on the six seeds.
    with_penalty = (study, ours)
    less = {k: distance_between_studies(without, with_penalty, k) for k in (1, 8)}
    more = distance_between_studies(with_penalty, without, 128)
    assert f"against none, {less[8]} less at 8, {less[1]} less at 1 and {more} more at 128." in page


def test_what_is_said_of_no_penalty_is_what_the_fresh_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
    readme = in_one_line("README.md")
    choose = in_one_line("docs/choose.md")
    name = "front_repeated"
    rival = "grpo, KL 0.2"
    study = fill.load(name)
    confirmed = fill.load("front_confirmed")
    tuned = fill.load("front_tuned")
    choosing = fill.load("front_penalties")
    assert not set(study.seeds) & {*confirmed.seeds, *choosing.seeds, *fill.load("front").seeds}
    tests = {test.measure.k: test for test in study.pairs}
    at = (1, 8, 32, 128)
    lead = {k: distance_over_seeds(fill, name, "bon_loo1", rival, k) for k in at}
    assert tests[8].above == len(study.seeds) == 6
    assert tests[128].difference < 0 < min(tests[k].difference for k in (1, 8, 32))
    assert (
        f"above the tuned GRPO at 8**, by {lead[8]}, p {tests[8].p:.3f}, in each of the six seeds. "
        f"After correction for the four tests of the table p is {tests[8].adjusted_p:.3f}."
    ) in page
    assert (
        f"first answer no difference is shown**: {lead[1]} more. At 32 none is shown either: "
        f"{lead[32]} more."
    ) in page
    assert f"it may have less**, by {lead[128]}, p {tests[128].p:.3f}." in page
    of_study = in_one_line(STUDY)
    assert f"above that GRPO at 8 by {lead[8]} on [six fresh seeds]" in of_study
    assert f"above that GRPO at 8** by {lead[8]} on [six fresh seeds]" in page
    assert f"six were the planned test against it (p {tests[8].p:.3f})." in readme
    # All seeds together, of which six chose that this would be tested.
    of_twelve = {
        k: differences_between_studies((study, "bon_loo1"), (study, rival), k)
        + differences_between_studies((confirmed, "bon_loo1"), (tuned, rival), k)
        for k in at
    }
    assert len(of_twelve[8]) == 12
    assert min(of_twelve[8]) > 0
    more = {k: mean_over_seeds_as_text(of_twelve[k]) for k in (1, 8, 32)}
    less = mean_over_seeds_as_text([-difference for difference in of_twelve[128]])
    assert (
        f"in each of twelve**, by {more[8]}. It has {more[1]} more at 1, {more[32]} more at 32 and "
        f"{less} less at 128."
    ) in page
    assert (
        f"in each of twelve seeds, by {more[8]}, with no difference shown in the first answer, and "
        f"it has {less} less at 128."
    ) in page
    assert f"was not planned, it has {more[8]} more at 8 and {less} less at 128." in of_study
    interval = stats.ttest_1samp(of_twelve[1], 0).confidence_interval(0.95)
    assert -0.01 < interval.low < interval.high < 0.01
    assert "a first answer equal within 0.01" in of_study
    assert (
        f"Over twelve seeds it has {more[8]} more at 8 than GRPO with a tuned penalty, an equal "
        f"first answer and {less} less at 128."
    ) in readme
    assert f"at 8 by {more[8]} over twelve seeds" in choose
    assert f"with k = 8 at 128 by {less};" in choose


def test_what_is_said_of_no_penalty_and_a_smaller_step_is_what_their_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
    readme = in_one_line("README.md")
    name = "front_repeated_longer"
    study = fill.load(name)
    at_full_rate = fill.load("front_repeated")
    assert study.seeds == at_full_rate.seeds[:4]
    # The base and the problems of a seed are the same in both studies.
    for seed in study.seeds:
        of_studies = [s.models["base"]["by_seed"][str(seed)] for s in (study, at_full_rate)]
        assert of_studies[0]["max@k"]["8"] == of_studies[1]["max@k"]["8"]
    ours = "bon_loo1,steps=1280"
    theirs = "grpo, KL 0.2,steps=1280"
    tests = {(test.first, test.second, test.measure.k): test for test in study.pairs}
    lead = {k: distance_over_seeds(fill, name, ours, theirs, k) for k in (1, 8, 32, 128)}
    planned = tests[ours, theirs, 8]
    assert planned.above == len(study.seeds) == 4
    earlier = tests["bon_loo1,steps=640", "grpo, KL 0.2,steps=640", 8]
    assert earlier.adjusted_p <= 0.05, "the page has a star"
    lead_earlier = distance_over_seeds(fill, name, earlier.first, earlier.second, 8)
    starred = lead_earlier.replace(" [", "\\* [")
    assert (
        f"after 1,280 steps `bon_loo1` has {lead[8]} more, p {planned.p:.3f}, in each of the four "
        f"seeds. After correction for all {len(tests)} tests of the table p is "
        f"{planned.adjusted_p:.3f}. After 640 steps it has {starred} more."
    ) in page
    at_128 = tests[ours, theirs, 128]
    assert at_128.above == 0
    assert at_128.difference < 0 < min(tests[ours, theirs, k].difference for k in (1, 8, 32))
    assert (
        f"`bon_loo1` has {lead[1]} more at 1 and {lead[32]} more at 32. At 128 it has {lead[128]} "
        f"less, in each of the four seeds (p {at_128.adjusted_p:.3f} after correction)."
    ) in page
    of_rival = distance_between_studies((study, theirs), (at_full_rate, "grpo, KL 0.2"), 8)
    of_ours = distance_between_studies((study, ours), (at_full_rate, "bon_loo1"), 8)
    assert (
        f"At 8 GRPO has {of_rival} more than after 640 steps of the full rate, and `bon_loo1` "
        f"{of_ours} more, on the same problems."
    ) in page
    assert f"with-a-smaller-step): {lead[8]} on four seeds." in readme


def test_what_is_said_of_a_k_that_falls_is_what_the_fresh_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
    choose = in_one_line("docs/choose.md")
    falling = (fill.load("front_falling_k"), "bon_loo1, k 8 to 1")
    repeated = fill.load("front_repeated")
    constant = (repeated, "bon_loo1")
    rival = (repeated, "grpo, KL 0.2")
    assert falling[0].seeds == repeated.seeds
    for seed, means in falling[0].models["base"]["by_seed"].items():
        assert means["max@k"]["8"] == repeated.models["base"]["by_seed"][seed]["max@k"]["8"]
    more = {}  # by the other model's name and k: a difference for every seed
    for other in (constant, rival):
        for k in (1, 8, 128):
            more[other[1], k] = differences_between_studies(falling, other, k)
    planned = [(name, k) for name in ("bon_loo1", "grpo, KL 0.2") for k in (1, 8)]
    p_values = [stats.ttest_1samp(more[test], 0).pvalue for test in planned]
    adjusted = dict(zip(planned, adjusted_p_values(p_values), strict=True))
    assert [test for test in planned if adjusted[test] > 0.05] == [("grpo, KL 0.2", 8)]

    def text(name, k, *, sign=1):
        return mean_over_seeds_as_text(sign * np.array(more[name, k]))

    def starred(name, k, *, sign=1):
        return text(name, k, sign=sign).replace(" [", "\\* [")

    assert min(more["bon_loo1", 1]) > 0 > max(more["bon_loo1", 8])
    assert (
        f"it has {starred('bon_loo1', 1)} more at 1, in each of the six seeds, and "
        f"{starred('bon_loo1', 8, sign=-1)} less at 8, in each of them too "
        f"(p {adjusted['bon_loo1', 1]:.3f} and {adjusted['bon_loo1', 8]:.3f} after correction"
    ) in page
    assert (
        f"better first answer**, by {starred('grpo, KL 0.2', 1)} "
        f"(p {adjusted['grpo, KL 0.2', 1]:.3f} after correction), and at 8 no difference is shown: "
        f"{text('grpo, KL 0.2', 8)} more."
    ) in page
    assert max(*more["bon_loo1", 128], *more["grpo, KL 0.2", 128]) < 0
    less = [text(name, 128, sign=-1) for name in ("bon_loo1", "grpo, KL 0.2")]
    assert f"less than both**, by {less[0]} and by {less[1]}, in each of the six seeds." in page
    assert f"[{text('bon_loo1', 1)} more at 1](study-best-settings.md#a-k-that-falls)" in choose
    at_8 = text("bon_loo1", 8, sign=-1)
    assert f"a constant k, {at_8} less at 8 and {less[0]} less at 128;" in choose


def test_what_is_said_of_a_weaker_penalty_is_what_the_fresh_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
    weaker = (fill.load("front_weaker_penalty"), "grpo, KL 0.1")
    falling = (fill.load("front_falling_k"), "bon_loo1, k 8 to 1")
    repeated = fill.load("front_repeated")
    assert weaker[0].seeds == falling[0].seeds == repeated.seeds
    more = {k: differences_between_studies(falling, weaker, k) for k in (1, 8, 128)}
    p_values = [stats.ttest_1samp(more[k], 0).pvalue for k in (1, 8)]
    adjusted = adjusted_p_values(p_values)
    assert 0.05 < adjusted[1] < min(adjusted[0], 0.1)
    assert min(more[8]) > 0 > np.mean(more[1])
    at_8 = mean_over_seeds_as_text(more[8])
    less = {k: mean_over_seeds_as_text(-np.array(more[k])) for k in (1, 128)}
    assert (
        f"has more at 8**, by {at_8}, in each of the six seeds (p {p_values[1]:.3f}, and "
        f"{adjusted[1]:.3f} after correction for the two tests). At 1 it has {less[1]} less."
    ) in page
    assert f"the k that falls has {less[128]} less. This comparison was not planned." in page
    stronger = (repeated, "grpo, KL 0.2")
    traded = {k: np.array(differences_between_studies(weaker, stronger, k)) for k in (1, 8, 128)}
    assert min(traded[1]) > 0 > max(traded[128])
    assert (
        f"Against 0.2 it has {mean_over_seeds_as_text(traded[1])} more at 1 and "
        f"{mean_over_seeds_as_text(-traded[128])} less at 128, each in all six seeds, and "
        f"{mean_over_seeds_as_text(-traded[8])} less at 8."
    ) in page
    constant = (repeated, "bon_loo1")
    lead = distance_between_studies(constant, weaker, 8)
    behind = distance_between_studies(weaker, constant, 1)
    assert (
        f"`bon_loo1` with a constant k has {lead} more at 8 than GRPO with 0.1 and {behind} less "
        "at 1."
    ) in page
    assert f"{at_8} more at 8" in in_one_line("docs/choose.md")
    p_of_readme = f"(p {p_values[1]:.3f}, and {adjusted[1]:.3f} after correction)"
    assert f"k that falls was planned too {p_of_readme}." in in_one_line("README.md")


def test_the_table_of_the_fresh_seeds_has_the_means_of_three_studies(fill):
    page = (ROOT / BEST_SETTINGS).read_text(encoding="utf-8")
    repeated = fill.load("front_repeated")
    models = {
        "base": repeated,
        "bon_loo1": repeated,
        "bon_loo1, k 8 to 1": fill.load("front_falling_k"),
        "grpo, KL 0.2": repeated,
        "grpo, KL 0.1": fill.load("front_weaker_penalty"),
    }
    rows = []
    for name, study in models.items():
        means = [f"{mean_over_seeds(study, name, k):.3f}" for k in (1, 8, 32, 128)]
        rows.append(f"| {' | '.join([name, *means])} |\n")
    assert "".join(rows) in page
