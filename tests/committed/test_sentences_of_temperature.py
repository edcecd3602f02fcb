"""What the pages say of sampling temperatures is what the seeds of these studies have."""

import functools

import numpy as np
import pytest
from scipy import stats

from committed.front import chosen, held_out, held_out_difference, held_out_test, values_of
from committed.results import (
    RECIPES,
    SHOWN,
    STUDY,
    TEMPERATURE,
    differences_between_studies,
    in_one_line,
    mean_over_seeds,
    mean_over_seeds_as_text,
    shown_test,
)
from maxatk.statistics.significance import adjusted_p_values
from maxatk.studies.demo_conclusion import AT_OTHER_TEMPERATURES
from maxatk.studies.recipe import load_study

SEEDS = [33, 34, 35, 36]


@pytest.fixture(scope="module")
def page():
    return in_one_line(TEMPERATURE)


@pytest.fixture(scope="module")
def of_study():
    return in_one_line(STUDY)


def at_temperatures(values, method):
    """Return the names of a method's models, one a temperature."""
    return [name for name in values if name.rpartition(",temperature=")[0] == method]


def lead_over_seeds(studies, one, other, k):
    """Return as text by how much one model is above another, over the seeds of some studies."""
    differences = []
    for study in studies:
        differences += differences_between_studies((study, one), (study, other), k)
    return mean_over_seeds_as_text(differences)


def compared_with_base_at_8(study):
    """Return the tests in max@8 against the model before training, by the name of the model."""
    return {
        test.first: test
        for test in study.differences
        if (test.measure.metric, test.measure.k) == ("max@k", 8)
    }


def planned_tests(study, bon, grpo):
    """Return the three tests in max@8 that were planned.

    They are of the two trained models, then of either against the model before training.
    """
    (of_two,) = [
        test for test in study.pairs if (test.first, test.second, test.measure.k) == (bon, grpo, 8)
    ]
    against_base = compared_with_base_at_8(study)
    return of_two, against_base[bon], against_base[grpo]


def corrected(tests):
    """Return what the page says of three tests once each is corrected for all of them."""
    p_values = [f"{p:.3f}" for p in adjusted_p_values([test.p for test in tests])]
    return "Corrected for the three tests p is {}, {} and {}.".format(*p_values)


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


def test_what_is_said_of_the_model_before_training_is_what_its_seeds_have(
    fill, page, of_study, against
):
    values = values_of(fill, "front_temperature")
    names = at_temperatures(values, "untrained")
    at_1 = values["base"].mean(numeric_only=True)
    assert (
        f"has {at_1['1']:.3f} at 1, {at_1['8']:.3f} at 8 and {at_1['128']:.3f} at 128 where it is"
    ) in page
    best = {aim: held_out(values, names, SEEDS, aim=aim) for aim in ("1", "8", "128")}
    means = [f"{of_aim[aim].mean():.3f}" for aim, of_aim in best.items()]
    assert f"for each it has {means[0]}, {means[1]} and {means[2]}." in page
    sentence = f"has {means[0]} at 1, {means[1]} at 8 and {means[2]} at 128"
    assert f"for each N, {sentence}, and" in page
    assert f"for each the model before training {sentence}." in of_study
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
    of_8 = against("bon_loo1", "grpo", aim="8")
    of_128 = against("bon_loo1", "grpo", aim="128")
    assert f"`bon_loo1` has {shown_test(of_8)} more at 8 ({p_of(of_8)})." in page
    assert f"At 128 it has {shown_test(of_128)} more ({p_of(of_128)})." in page
    values = values_of(fill, "front_temperature")
    best = held_out(values, at_temperatures(values, "grpo"), SEEDS, aim="128")
    assert set(best.model) == {"grpo,temperature=1.2"}
    cold = "rollouts at 0.4"
    of_8 = against(f"bon_loo1, {cold}", f"grpo, {cold}", aim="8")
    of_128 = against(f"bon_loo1, {cold}", f"grpo, {cold}", aim="128")
    assert (
        f"`bon_loo1` has {shown_test(of_8)} more at 8 than GRPO ({p_of(of_8)}) and "
        f"{shown_test(of_128)} more at 128."
    ) in page
    of_8 = against(f"bon_loo1, {cold}", "untrained", aim="8")
    of_128 = against(f"bon_loo1, {cold}", "untrained", aim="128")
    assert (
        f"it has {shown_test(of_8, sign=-1)} less at 8 and "
        f"{shown_test(of_128, sign=-1)} less at 128."
    ) in page


def test_what_is_said_of_small_steps_at_a_low_temperature_is_what_their_seeds_have(
    fill, page, of_study
):
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
    assert f"of max@k training add to it at 8**: {gain}." in page
    assert f"at 0.4 `bon_loo1` has {gain} more than the model before training." in of_study


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
    bon = "bon_loo1,temperature=0.4"
    grpo = "grpo, KL 0.4,temperature=0.4"
    warmer = {model: model.replace("=0.4", "=0.6") for model in (bon, grpo)}

    more = functools.partial(lead_over_seeds, [study])
    planned = planned_tests(study, bon, grpo)
    of_two, of_bon, of_grpo = planned
    assert of_two.above == of_bon.above == len(study.seeds) == 5
    assert (
        f"at 8 than GRPO on these seeds**, and not on [seven "
        f"more](#at-temperatures-that-six-seeds-chose): {more(bon, grpo, 8)} (p {of_two.p:.3f}), "
        "in each of the five seeds."
    ) in page
    assert (
        f"than the model before training**: {more(bon, 'base', 8)} (p {of_bon.p:.3f}), in each of "
        f"them too. GRPO has {more(grpo, 'base', 8)} more (p {of_grpo.p:.3f}). {corrected(planned)}"
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
    readme = in_one_line("README.md")
    assert f"a lead that was planned, {more(bon, grpo, 8)} at 8 (p {of_two.p:.3f})." in readme


@pytest.fixture(scope="module")
def first(fill):
    """Return the study of the five seeds that chose how the models of the next are sampled."""
    return fill.load("front_tuned_temperature")


@pytest.fixture(scope="module")
def again(fill):
    return fill.load("front_tuned_temperature_again")


BON = "bon_loo1,temperature=0.4"
GRPO = "grpo, KL 0.4,temperature=0.6"
COLD_GRPO = "grpo, KL 0.4,temperature=0.4"
WARM_BON = "bon_loo1,temperature=0.6"
WARM_UNTRAINED = "untrained,temperature=0.6"


def test_the_temperatures_of_the_next_seeds_are_those_that_six_seeds_chose(fill, first, again):
    choosing = fill.load("front_rollouts")
    name_there = {
        "bon_loo1": "bon_loo1, rollouts at 0.6",
        "grpo, KL 0.4": "grpo, KL 0.4, rollouts at 0.4",
        "untrained": "untrained",
    }
    best = {}
    for method, name in name_there.items():
        at_8 = {}
        for temperature in ("0.4", "0.6"):
            model = f"{method},temperature={temperature}"
            model = "base" if model == "untrained,temperature=0.4" else model
            means = first.models[model]["by_seed"].values()
            of_five = [of_seed["max@k"]["8"] for of_seed in means]
            of_one = mean_over_seeds(choosing, f"{name},temperature={temperature}", 8)
            at_8[temperature] = np.mean([*of_five, of_one])
        best[method] = max(at_8, key=at_8.get)
    assert best == {"bon_loo1": "0.4", "grpo, KL 0.4": "0.6", "untrained": "0.4"}
    before = load_study(RECIPES["front_tuned_temperature"])
    fresh = load_study(RECIPES["front_tuned_temperature_again"])
    assert not {*before.seeds, *choosing.seeds} & {*fresh.seeds}
    assert fresh.eval["sampling"]["temperature"] == 0.4  # of `base`
    assert [model.train for model in before.variants] == [model.train for model in fresh.variants]


def test_what_is_said_of_the_planned_tests_is_what_the_next_seeds_have(again, page, of_study):
    more = functools.partial(lead_over_seeds, [again])
    planned = planned_tests(again, BON, GRPO)
    of_two, of_bon, of_grpo = planned
    assert of_two.above == 4
    assert of_bon.above == of_grpo.above == len(again.seeds) == 7
    between = more(BON, GRPO, 8)
    assert (
        f"`bon_loo1` has {between} more (p {of_two.p:.3f}), and more in four of the seven seeds."
    ) in page
    assert of_two.high < 0.02
    assert (
        f"`bon_loo1` {more(BON, 'base', 8)} (p {of_bon.p:.3f}) and GRPO "
        f"{more(GRPO, 'base', 8)} (p {of_grpo.p:.3f}). {corrected(planned)}"
    ) in page
    assert (
        f"it has {more(GRPO, WARM_BON, 32)} more at 32 and {more(GRPO, WARM_BON, 128)} more at "
        f"128. At 32 it has {more(GRPO, WARM_UNTRAINED, 32)} more than the model before training, "
        f"and at 128 {more(GRPO, WARM_UNTRAINED, 128)}, where neither is shown to add anything."
    ) in page
    warm_at_128 = differences_between_studies((again, WARM_BON), (again, WARM_UNTRAINED), 128)
    assert np.mean(warm_at_128) < 0  # so that neither is shown to add anything
    assert (
        f"`bon_loo1` has {more(BON, 'base', 8)} more at 8 than the model before training and GRPO "
        f"{more(GRPO, 'base', 8)}. Between the two no difference is shown: {between}."
    ) in of_study
    for trained in (BON, GRPO):
        above_base = differences_between_studies((again, trained), (again, "base"), 8)
        assert f"{np.mean(above_base):.2f}" == "0.03"
    assert "Both have about 0.03 more at 8 than the model before training" in page
    readme = in_one_line("README.md")
    assert f"it better, has {between} (p {of_two.p:.3f})." in readme
    assert f"`bon_loo1` has {between} more." in in_one_line("docs/choose.md")


def test_what_is_said_of_all_twelve_seeds_is_what_they_have(first, again, page):
    assert len({*first.seeds, *again.seeds}) == 12
    more = functools.partial(lead_over_seeds, [first, again])
    at_8 = more(BON, GRPO, 8)
    assert f"at 0.4 has {at_8} more at 8 than GRPO at 0.6, a temperature in whose" in page
    assert (
        f"it has {more(WARM_BON, GRPO, 8)} more at 8, {more(GRPO, WARM_BON, 32)} less at 32 and "
        f"{more(GRPO, WARM_BON, 128)} less at 128. Where both are sampled at 0.4, it has "
        f"{more(BON, COLD_GRPO, 8)} more at 8 and {more(COLD_GRPO, BON, 128)} less at 128."
    ) in page
    assert f"Over all twelve it is {at_8}." in in_one_line("README.md")
    assert f"by {more(GRPO, WARM_BON, 32)} at 32 too" in in_one_line("docs/choose.md")


def test_what_is_said_of_distillation_is_what_its_seeds_have(fill, again, page):
    choosing = fill.load("front_distillation")
    at_8 = {model: mean_over_seeds(choosing, model, 8) for model in choosing.models}
    best = max(at_8, key=at_8.get)
    assert best == "4 rounds,rollouts=1,rate=1.5e-4,temperature=0.8"
    assert f"rollouts at 1 and samples at 0.8: {at_8[best]:.3f}." in page
    cold = max(at_8[model] for model in at_8 if "rollouts=0.6" in model)
    rollouts = fill.load("front_rollouts")
    untrained = mean_over_seeds(rollouts, "untrained,temperature=0.4", 8)
    bon = mean_over_seeds(rollouts, "bon_loo1, rollouts at 0.6,temperature=0.4", 8)
    assert (
        f"the most at 8 is {cold:.3f} at any rate and temperature, on the seed that chose. The "
        f"model before training has {untrained:.3f} there, and `bon_loo1` with rollouts at 0.6 has "
        f"{bon:.3f}."
    ) in page

    study = fill.load("front_distillation_again")
    distilled = (study, "distillation,temperature=0.8")
    assert not {*study.seeds} & {*choosing.seeds}
    assert {*study.seeds} < {*again.seeds}
    before_training = differences_between_studies((study, "base"), (again, "base"), 8)
    assert np.max(np.abs(before_training)) < SHOWN  # both studies begin with the same models

    def less(than, k):
        return differences_between_studies((again, than), distilled, k)

    against_base = compared_with_base_at_8(study)["distillation,temperature=0.8"]
    assert (against_base.above, len(study.seeds)) == (4, 5)
    p_values = [stats.ttest_1samp(less(than, 8), 0).pvalue for than in (BON, GRPO)]
    p_values.append(against_base.p)
    corrected = [f"{p:.3f}" for p in adjusted_p_values(p_values)]
    assert (
        f"The distilled model has {mean_over_seeds_as_text(less(BON, 8))} less than `bon_loo1` "
        f"(p {p_values[0]:.3f}) and {mean_over_seeds_as_text(less(GRPO, 8))} less than GRPO "
        f"(p {p_values[1]:.3f})."
    ) in page
    more_than_base = lead_over_seeds([study], distilled[1], "base", 8)
    assert (
        f"in four of the five seeds**: {more_than_base} (p {p_values[2]:.3f}). Corrected for the "
        "three tests p is {}, {} and {}.".format(*corrected)
    ) in page
    at_128 = mean_over_seeds_as_text(less(GRPO, 128))
    more_than_bon = mean_over_seeds_as_text([-difference for difference in less(BON, 128)])
    assert (
        f"**GRPO has more at 32 and at 128**: {mean_over_seeds_as_text(less(GRPO, 32))} and "
        f"{at_128}. Against `bon_loo1` the distilled model has "
        f"{mean_over_seeds_as_text(less(BON, 1))} less at 1 and {more_than_bon} more at 128."
    ) in page
    assert f"and `grpo` has {at_128} more at 128 |" in in_one_line("docs/choose.md")


PENALISED_BON = "bon_loo1, KL 0.05"
PENALISED_GRPO = "grpo, KL 0.4, rollouts at 0.6"


def test_the_penalties_of_the_last_seeds_are_those_that_two_seeds_chose(fill, first, page):
    choosing = fill.load("front_temperature_penalties")
    assert {*choosing.seeds} == {39, 40} < {*first.seeds}

    def over_the_two(study, model):
        by_seed = study.models[model]["by_seed"]
        return np.mean([by_seed[str(seed)]["max@k"]["8"] for seed in choosing.seeds])

    at_8 = {"bon_loo1": {}, "grpo": {}}
    for study in (choosing, first):
        for model in study.models:
            for method, means in at_8.items():
                if model.startswith(method):
                    means[model] = over_the_two(study, model)
    best = {method: max(values, key=values.get) for method, values in at_8.items()}
    assert best == {
        "bon_loo1": f"{PENALISED_BON},temperature=0.6",
        "grpo": f"{PENALISED_GRPO},temperature=0.6",
    }
    assert [len(values) for values in at_8.values()] == [6, 6]
    before = {
        "bon_loo1": max(at_8["bon_loo1"][model] for model in (BON, WARM_BON)),
        "grpo": max(at_8["grpo"][model] for model in (GRPO, COLD_GRPO)),
    }
    assert (
        f"{at_8['bon_loo1'][best['bon_loo1']]:.3f} at 8, where it has {before['bon_loo1']:.3f} "
        "without a penalty"
    ) in page
    assert (
        f"{at_8['grpo'][best['grpo']]:.3f}, where it has {before['grpo']:.3f} with rollouts at 0.4"
    ) in page
    settings = {
        model.name: model for model in load_study(RECIPES["front_temperature_penalties"]).variants
    }
    reported = load_study(RECIPES["front_temperature_penalties_again"])
    assert not {*reported.seeds} & {*first.seeds}
    assert reported.eval["sampling"]["temperature"] == 0.4  # of `base`
    for model in reported.variants[1:]:  # the first is the model before training
        choice = settings[f"{model.name},temperature=0.6"]
        assert model.train == choice.train
        assert model.sampling == choice.sampling


@pytest.fixture(scope="module")
def four_seeds(fill):
    return fill.load("front_temperature_penalties_again")


@pytest.fixture(scope="module")
def fresh(fill):
    return fill.load("front_temperature_penalties_fresh")


def test_the_seeds_with_a_penalty_for_both_are_trained_alike_and_begin_as_others_do(
    again, four_seeds, fresh
):
    assert {*four_seeds.seeds} < {*again.seeds}
    assert len({*four_seeds.seeds, *fresh.seeds}) == 10
    for study in (four_seeds, fresh):
        before_training = differences_between_studies((study, "base"), (again, "base"), 8)
        assert len(before_training) > 0
        assert np.max(np.abs(before_training)) < SHOWN
    of_four = load_study(RECIPES["front_temperature_penalties_again"])
    of_six = load_study(RECIPES["front_temperature_penalties_fresh"])
    assert of_four.variants == of_six.variants
    assert of_four.eval == of_six.eval


def test_what_is_said_of_the_planned_tests_with_a_penalty_for_both_is_what_they_have(
    four_seeds, fresh, page, of_study
):
    bon = PENALISED_BON
    grpo = PENALISED_GRPO
    more = functools.partial(lead_over_seeds, [fresh])
    planned = planned_tests(fresh, bon, grpo)
    of_two, of_bon, of_grpo = planned
    lead = more(bon, grpo, 8)
    assert (
        f"`bon_loo1` has {lead} more at 8 than GRPO (p {of_two.p:.3f}), {more(bon, 'base', 8)} "
        f"more than the model before training (p {of_bon.p:.3f}), and GRPO has "
        f"{more(grpo, 'base', 8)} more than that (p {of_grpo.p:.3f}). {corrected(planned)}"
    ) in page
    assert [test.above for test in planned] == [5, 6, 6]
    of_four = planned_tests(four_seeds, bon, grpo)[0]
    lead_of_four = lead_over_seeds([four_seeds], bon, grpo, 8)
    assert (
        f"There `bon_loo1` has {lead_of_four} more at 8 than GRPO (p {of_four.p:.3f}), in each "
        "of the four seeds"
    ) in page
    assert of_four.above == len(four_seeds.seeds)
    assert f"The planned test on six seeds has {lead}." in page
    assert f"The planned test on six further seeds has {lead} (p {of_two.p:.3f})." in of_study
    readme = in_one_line("README.md")
    assert f"planned test of the difference, on six of these seeds, has {lead}." in readme
    assert (
        f"With a penalty of 0.05 four seeds had {lead_of_four}, and the same test on six further "
        f"ones has {lead} (p {of_two.p:.3f})."
    ) in readme


def test_what_is_said_of_all_ten_seeds_with_a_penalty_for_both_is_what_they_have(
    four_seeds, fresh, page, of_study
):
    more = functools.partial(lead_over_seeds, [four_seeds, fresh])
    bon = PENALISED_BON
    grpo = PENALISED_GRPO
    assert (
        f"`bon_loo1` has {more(bon, grpo, 8)} more at 8 than GRPO and {more(bon, grpo, 32)} more "
        f"at 32, {more(grpo, bon, 1)} less at 1 and {more(grpo, bon, 128)} less at 128. Against "
        f"the model before training it has {more(bon, 'base', 8)} more at 8, "
        f"{more(bon, 'base', 32)} more at 32 and {more(bon, 'base', 128)} more at 128, and GRPO "
        f"{more(grpo, 'base', 8)}, {more(grpo, 'base', 32)} and {more(grpo, 'base', 128)}."
    ) in page
    assert (
        f"Over ten seeds `bon_loo1` has {more(bon, 'base', 8)} more there than the model before "
        f"training and GRPO {more(grpo, 'base', 8)}."
    ) in page
    assert (
        f"Small steps add to it at 8: {more(bon, 'base', 8)} with max@k training and "
        f"{more(grpo, 'base', 8)} with a tuned GRPO"
    ) in of_study
    assert f"Over ten seeds GRPO has {more(grpo, bon, 1)} more at 1" in of_study
    assert (
        f"max@k training has {more(bon, 'base', 8)} more at 8 than the model before training and "
        f"GRPO {more(grpo, 'base', 8)}."
    ) in in_one_line("README.md")
    choose = in_one_line("docs/choose.md")
    lead = more(bon, grpo, 8)
    assert f"rollouts at 0.6 it has {lead} more over ten seeds." in choose
    assert f"at 8 by {lead} over ten seeds, {more(grpo, bon, 1)} below it at 1" in choose


def test_what_a_penalty_gives_is_what_the_seven_seeds_with_and_without_it_have(
    again, four_seeds, fresh, page
):
    def more(model, other, k):
        differences = [
            difference
            for study in (four_seeds, fresh)
            for difference in differences_between_studies((study, model), (again, other), k)
        ]
        assert len(differences) == 7
        return mean_over_seeds_as_text(differences)

    at_8, at_32, at_128 = (more(PENALISED_BON, WARM_BON, k) for k in (8, 32, 128))
    assert (
        f"it has {at_8} more at 8, {at_32} more at 32 and {at_128} more at 128 with the penalty. "
        f"Rollouts at 0.6 in place of 0.4 give GRPO {more(PENALISED_GRPO, GRPO, 1)} more at 1 and "
        f"{more(PENALISED_GRPO, GRPO, 8)} more at 8."
    ) in page
