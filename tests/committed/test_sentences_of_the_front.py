"""What the pages say of each method at its best is what its seeds have."""

import functools
import re

import yaml

from committed.front import (
    differences_from_the_rivals,
    held_out,
    held_out_difference,
    held_out_test,
    values_of,
)
from committed.results import (
    BEST_SETTINGS,
    RECIPES,
    STUDY,
    distance_between_studies,
    distance_over_seeds,
    in_one_line,
    shown_test,
)


def test_the_seeds_of_the_page_are_those_of_its_studies(fill):
    page = in_one_line(BEST_SETTINGS)
    rows = {
        "front": "11 to 14",
        "front_confirmed": "21 to 26",
        "front_penalties": "31 and 32",
        "front_repeated": "33 to 38",
    }
    for name, row in rows.items():
        first, last = map(int, re.findall(r"\d+", row))
        assert list(fill.load(name).seeds) == list(range(first, last + 1))
        assert f"| {row} | [" in page


def test_what_is_said_of_each_method_at_its_best_is_what_the_front_says(fill):
    page = in_one_line(BEST_SETTINGS)
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
    assert "it reaches {grpo}, and `bon_loo1` {bon_loo1}.".format(**firsts) in readme
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
    page = in_one_line(BEST_SETTINGS)
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
    of_study = in_one_line(STUDY)
    assert f"has {starred['KL penalty', 8]} more at 8 than with a KL penalty of 0.04" in of_study
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
    assert f"which chose nothing, p is {planned.p:.3f} against it." in readme


def test_what_is_said_of_rivals_at_half_the_rate_is_what_their_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
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
    page = in_one_line(BEST_SETTINGS)
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


def test_what_is_said_of_dr_grpo_is_what_its_seeds_have(fill):
    page = in_one_line(BEST_SETTINGS)
    theirs = values_of(fill, "front_dr_grpo")
    ours = values_of(fill, "front")
    of_bon = [name for name in ours if name.startswith("bon_loo1,")]
    of_dr = [name for name in theirs if name.startswith("dr_grpo,")]
    assert (
        theirs["base"][["seed", "8"]]
        .reset_index(drop=True)
        .equals(ours["base"][["seed", "8"]].reset_index(drop=True))
    )
    seeds = [11, 12, 13, 14]
    text = {}
    tests = {}
    for aim in ("1", "8", "32", "128"):
        sides = [(ours, of_bon), (theirs, of_dr)]
        ahead, behind = reversed(sides) if aim == "1" else sides
        tests[aim] = held_out_test(ahead, behind, seeds, aim=aim)
        text[aim] = shown_test(tests[aim])
        if aim in ("1", "8"):
            leads = held_out_difference(ahead, behind, seeds, aim=aim).groupby("seed").mean()
            assert min(leads) > 0
    assert f"has more**, by {text['8']}, p {tests['8'].p[0]:.3f}, in each of the four" in page
    assert f"better first answer**, by {text['1']}," in page
    assert f"`bon_loo1` has {text['32']} and {text['128']} more." in page
    for aim, k in (("8", "8"), ("1", "128")):
        of_seeds = held_out(theirs, of_dr, seeds, aim=aim).groupby("seed")[k].mean()
        assert f"{of_seeds.mean():.3f}" in page
