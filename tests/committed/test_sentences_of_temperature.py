"""What the pages say of sampling temperatures is what the seeds of these studies have."""

import pytest

from committed.front import held_out, held_out_difference, held_out_test, values_of
from committed.results import in_one_line, shown_test
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
    readme = in_one_line("README.md")
    assert (
        f"max@k training adds to that](docs/study.md#small-steps-at-a-low-temperature) {gain} at"
        in readme
    )
    assert f"GRPO adds {shown_test(first)} at 1" in readme
