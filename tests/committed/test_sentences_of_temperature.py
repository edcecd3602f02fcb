"""What the pages say of sampling temperatures is what the seeds of these studies have."""

import numpy as np
import pytest

from committed.front import chosen, held_out, held_out_difference, held_out_test, values_of
from committed.results import (
    RECIPES,
    differences_between_studies,
    in_one_line,
    mean_over_seeds,
    mean_over_seeds_as_text,
    shown_test,
)
from maxatk.statistics.tests import adjusted_p_values
from maxatk.studies.recipe import load_study
from maxatk.studies.write import AT_OTHER_TEMPERATURES

SEEDS = [33, 34, 35, 36]


@pytest.fixture(scope="module")
def page():
    return in_one_line("docs/study.md")


def at_temperatures(values, method):
    """Return the names of a method's models, one a temperature."""
    return [name for name in values if name.rpartition(",temperature=")[0] == method]


def p_of(test):
    return f"p {test.p[0]:.3f}"


@pytest.fixture(scope="module")
def against(fill):
    """Return a function: the test of one method against another, each at its best temperature."""
    values = values_of(fill, "front_temperature")

    def test_of(ours, theirs, *, aim):
        our = (values, at_temperatures(values, ours))
        their = (values, at_temperatures(values, theirs))
        return held_out_test(our, their, SEEDS, aim=aim)

    return test_of


def test_what_is_said_of_the_model_before_training_is_what_its_seeds_have(fill, page, against):
    values = values_of(fill, "front_temperature")
    names = at_temperatures(values, "untrained")
    at_1 = values["base"].mean(numeric_only=True)
    assert (
        f"has {at_1['1']:.3f} at 1, {at_1['8']:.3f} at 8 and {at_1['128']:.3f} at 128 where it is"
    ) in page
    best = {aim: held_out(values, names, SEEDS, aim=aim) for aim in ("1", "8", "128")}
    means = [f"{of_aim[aim].mean():.3f}" for aim, of_aim in best.items()]
    assert f"for each it has {means[0]}, {means[1]} and {means[2]}." in page
    rounded = [f"{of_aim[aim].mean():.2f}" for aim, of_aim in best.items()]
    sentence = f"has {rounded[0]} at 1, {rounded[1]} at 8 and {rounded[2]} at 128 on four other"
    assert sentence in AT_OTHER_TEMPERATURES
    readme = in_one_line("README.md")
    assert f"for each, has {means[0]} at 1, {means[1]} at 8 and {means[2]} at 128." in readme
    chosen = {aim: set(of_aim.model) for aim, of_aim in best.items()}
    assert chosen == {
        "1": {"untrained,temperature=0.2"},
        "8": {"untrained,temperature=0.4"},
        "128": {"untrained,temperature=0.6"},
    }
    of_bon = {aim: against("bon_loo1", "untrained", aim=aim) for aim in ("8", "128")}
    assert (
        f"its own best has {shown_test(of_bon['128'], sign=-1)} less than that at 128, and at 8 "
        f"no difference is shown: {shown_test(of_bon['8'], sign=-1)} less."
    ) in page
    of_grpo = {aim: against("grpo", "untrained", aim=aim) for aim in ("8", "128")}
    assert (
        f"GRPO has {shown_test(of_grpo['8'], sign=-1)} less at 8 and "
        f"{shown_test(of_grpo['128'], sign=-1)} less at 128."
    ) in page
    trained = {name.rpartition(",temperature")[0] for name in values} - {"", "untrained"}
    assert len(trained) == 4
    for method in trained:
        for aim in ("1", "8", "128"):
            assert against(method, "untrained", aim=aim).low[0] < 0, "a training is shown above it"


def test_what_is_said_of_grpo_and_temperatures_is_what_their_seeds_have(fill, page, against):
    of_8, of_128 = (against("bon_loo1", "grpo", aim=aim) for aim in ("8", "128"))
    assert f"`bon_loo1` has {shown_test(of_8)} more at 8 ({p_of(of_8)})." in page
    assert f"At 128 it has {shown_test(of_128)} more ({p_of(of_128)})." in page
    values = values_of(fill, "front_temperature")
    best = held_out(values, at_temperatures(values, "grpo"), SEEDS, aim="128")
    assert set(best.model) == {"grpo,temperature=1.2"}
    cold = "rollouts at 0.4"
    of_8, of_128 = (against(f"bon_loo1, {cold}", f"grpo, {cold}", aim=aim) for aim in ("8", "128"))
    assert (
        f"`bon_loo1` has {shown_test(of_8)} more at 8 than GRPO ({p_of(of_8)}) and "
        f"{shown_test(of_128)} more at 128."
    ) in page
    of_8, of_128 = (against(f"bon_loo1, {cold}", "untrained", aim=aim) for aim in ("8", "128"))
    assert (
        f"it has {shown_test(of_8, sign=-1)} less at 8 and "
        f"{shown_test(of_128, sign=-1)} less at 128."
    ) in page


def test_what_is_said_of_small_steps_at_a_low_temperature_is_what_their_seeds_have(fill, page):
    before = values_of(fill, "front_temperature")
    after = values_of(fill, "front_temperature_longer")
    untrained = (before, at_temperatures(before, "untrained"))
    cold = (after, at_temperatures(after, "bon_loo1, rollouts at 0.4"))
    warm = (after, at_temperatures(after, "bon_loo1"))
    grpo = (after, at_temperatures(after, "grpo, KL 0.2, rollouts at 0.4"))
    assert {len(names) for _, names in (cold, warm, grpo)} == {3}
    of_8 = {
        "cold": held_out_test(cold, untrained, SEEDS, aim="8"),
        "warm": held_out_test(warm, untrained, SEEDS, aim="8"),
        "against GRPO": held_out_test(cold, grpo, SEEDS, aim="8"),
    }
    text = {name: f"{shown_test(test)} more" for name, test in of_8.items()}
    p = {name: p_of(test) for name, test in of_8.items()}
    assert f"{text['cold']} than the model before training ({p['cold']}), in each of the" in page
    assert f"With rollouts at 1 it has {text['warm']} ({p['warm']}), in each of them too." in page
    assert f"{text['against GRPO']} ({p['against GRPO']}), in three of the four" in page
    for trained, rival, above in ((cold, untrained, 4), (warm, untrained, 4), (cold, grpo, 3)):
        leads = held_out_difference(trained, rival, SEEDS, aim="8").groupby("seed").mean()
        assert (leads > 0).sum() == above
    at_128 = [held_out_test(model, untrained, SEEDS, aim="128") for model in (cold, grpo, warm)]
    assert (
        f"with rollouts at 0.4 has {shown_test(at_128[0])} more, GRPO "
        f"{shown_test(at_128[1])} more, and `bon_loo1` with rollouts at 1 "
        f"{shown_test(at_128[2], sign=-1)} less."
    ) in page
    first = held_out_test(grpo, untrained, SEEDS, aim="1")
    first_against_ours = held_out_test(grpo, cold, SEEDS, aim="1")
    assert (
        f"{shown_test(first)} more than the model before training and "
        f"{shown_test(first_against_ours)} more than `bon_loo1` with rollouts at 0.4."
    ) in page
    gain = shown_test(of_8["cold"])
    assert f"of max@k training add {gain} to that at 8" in page


def test_what_a_seed_chose_is_what_the_fresh_seeds_were_trained_with(fill, page):
    values = values_of(fill, "front_rollouts")
    (seed,) = fill.load("front_rollouts").seeds
    best = {}
    for method in ("bon_loo1", "grpo", "untrained"):
        names = [name for name in values if name.startswith(method)]
        best[method] = chosen(values, names, [seed], aim="8", floor=-np.inf)
    assert best == {
        "bon_loo1": "bon_loo1, rollouts at 0.6,temperature=0.4",
        "grpo": "grpo, KL 0.4, rollouts at 0.4,temperature=0.4",
        "untrained": "untrained,temperature=0.4",
    }
    at_8 = {method: f"{values[name]['8'].mean():.3f}" for method, name in best.items()}
    assert (
        f"rollouts at 0.6 for `bon_loo1`, {at_8['bon_loo1']}, and with a penalty of 0.4 and "
        f"rollouts at 0.4 for GRPO, {at_8['grpo']}, both sampled at 0.4. The model before training "
        f"has {at_8['untrained']} there."
    ) in page
    choosing = {model.name: model for model in load_study(RECIPES["front_rollouts"]).variants}
    fresh = load_study(RECIPES["front_tuned_temperature"])
    assert seed not in {*fresh.seeds, *SEEDS}
    models = {model.name: model for model in fresh.variants}
    for method, name in (
        ("bon_loo1", "bon_loo1,temperature=0.4"),
        ("grpo", "grpo, KL 0.4,temperature=0.4"),
    ):
        assert models[name].train == choosing[best[method]].train
        assert models[name].sampling == choosing[best[method]].sampling
    assert fresh.eval["sampling"]["temperature"] == 0.4  # of `base`


def test_what_is_said_of_each_at_its_best_temperatures_is_what_the_fresh_seeds_have(fill, page):
    name = "front_tuned_temperature"
    study = fill.load(name)
    bon, grpo = ("bon_loo1,temperature=0.4", "grpo, KL 0.4,temperature=0.4")
    warmer = {model: model.replace("=0.4", "=0.6") for model in (bon, grpo)}

    def more(first, second, k):
        """Return by how much the first of two models is above the second."""
        difference = differences_between_studies((study, first), (study, second), k)
        return mean_over_seeds_as_text(difference)

    (of_two,) = [test for test in study.pairs if test.measure.k == 8]
    against_base = {
        test.first: test
        for test in study.differences
        if (test.measure.metric, test.measure.k) == ("max@k", 8)
    }
    of_bon = against_base[bon]
    of_grpo = against_base[grpo]
    assert of_two.above == of_bon.above == len(study.seeds) == 5
    assert (
        f"at 8 than GRPO**: {more(bon, grpo, 8)} (p {of_two.p:.3f}), in each of the five seeds."
    ) in page
    p_values = [of_two.p, of_bon.p, of_grpo.p]
    corrected = [f"{p:.3f}" for p in adjusted_p_values(p_values)]
    assert (
        f"than the model before training**: {more(bon, 'base', 8)} (p {of_bon.p:.3f}), in each of "
        f"them too. GRPO has {more(grpo, 'base', 8)} more (p {of_grpo.p:.3f}). Corrected for the "
        "three tests p is {}, {} and {}.".format(*corrected)
    ) in page
    assert (
        f"`bon_loo1` has {more(grpo, bon, 1)} less at 1 and {more(grpo, bon, 32)} less at 32."
    ) in page
    untrained = "untrained,temperature=0.6"
    assert (
        f"Sampled at 0.4 `bon_loo1` has {more('base', bon, 128)} less than the model before "
        f"training and GRPO {more('base', grpo, 128)} less. Where all are sampled at 0.6, "
        f"`bon_loo1` has {more(untrained, warmer[bon], 128)} less and GRPO "
        f"{more(warmer[grpo], untrained, 128)} more."
    ) in page
    better = warmer[grpo]
    at_8 = {model: f"{mean_over_seeds(study, model, 8):.3f}" for model in (better, grpo)}
    lead_of_better = more(bon, better, 8)
    leads = differences_between_studies((study, bon), (study, better), 8)
    assert sum(lead > 0 for lead in leads) == 4
    assert (
        f"these five have more: {at_8[better]} at 8, and {at_8[grpo]} at 0.4. Against GRPO at 0.6 "
        f"`bon_loo1` at 0.4 has {lead_of_better} more, in four of the five seeds. The model before "
        f"training, at 0.4, has {more(better, 'base', 8)} less than that GRPO."
    ) in page
    lead = more(bon, grpo, 8)
    assert (
        f"`bon_loo1` has {lead} more at 8 than GRPO, on five fresh seeds, and {lead_of_better} "
        "where these seeds choose how GRPO is sampled."
    ) in page
    choose = in_one_line("docs/choose.md")
    assert f"ahead of GRPO there by {lead} [where another" in choose
    assert (
        "and no lead is shown at the temperature of the samples that was better for GRPO: "
        f"{lead_of_better}."
    ) in choose
    readme = in_one_line("README.md")
    assert (
        f"it has {more(bon, 'base', 8)} more at 8 than the model before training and {lead} more "
        "than GRPO. Where GRPO is sampled at 0.6, which suits it better on these seeds, the lead "
        f"is {lead_of_better}."
    ) in readme
    assert f"was planned (p {of_two.p:.3f})." in readme
