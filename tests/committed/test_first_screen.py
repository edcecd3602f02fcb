"""What the first screen of the README says is what the studies have."""

from committed.results import (
    ROOT,
    differences_between_studies,
    distance_over_seeds,
    in_one_line,
    mean_over_seeds_as_text,
    row_of,
    with_plain_signs,
)


def test_the_numbers_below_the_table_are_those_of_the_studies(fill):
    text = in_one_line("README.md")
    loss = distance_over_seeds(fill, "demo_seeds", "base", "grpo", 128)
    assert f"below the model before training at 128, by {loss}" in text
    everything = fill.table_of_seeds(fill.load_evaluations(["smollm2_all"]))
    cell = row_of(everything, "bon_loo1 − grpo")[-1]
    assert with_plain_signs(f"{cell.text} {cell.detail}") in text


def comparisons(fill):
    """Return by the beginning of a row's name the pairs of models whose differences it has."""
    repeated = fill.load("front_repeated")
    confirmed = fill.load("front_confirmed")
    tuned = fill.load("front_tuned")
    demo = fill.load("demo_seeds")
    rates = fill.load("learning_rate")
    falling = (fill.load("front_falling_k"), "bon_loo1, k 8 to 1")
    names = ("front_tuned_temperature", "front_tuned_temperature_again")
    at_low_temperature = [fill.load(name) for name in names]
    weaker = (fill.load("front_weaker_penalty"), "grpo, KL 0.1")
    names = ("front_temperature_penalties_again", "front_temperature_penalties_fresh")
    with_penalties = [fill.load(name) for name in names]
    distilled = (fill.load("front_distillation_again"), "distillation,temperature=0.8")
    return {
        "GRPO, both at 3e-4": [((demo, "bon_loo1"), (demo, "grpo"))],
        "GRPO, both at 1.5e-4": [((rates, "bon_loo1,rate=1.5e-4"), (rates, "grpo,rate=1.5e-4"))],
        "GRPO at its best for 8": [((confirmed, "bon_loo1"), (confirmed, "grpo"))],
        "GRPO with a KL penalty of 0.04": [((confirmed, "bon_loo1"), (confirmed, "KL penalty"))],
        "GRPO with a penalty of 0.2": [
            ((repeated, "bon_loo1"), (repeated, "grpo, KL 0.2")),
            ((confirmed, "bon_loo1"), (tuned, "grpo, KL 0.2")),
        ],
        "the same, `bon_loo1` with one of 0.04": [
            ((tuned, "bon_loo1, KL 0.04"), (tuned, "grpo, KL 0.2"))
        ],
        "GRPO with a penalty of 0.1, k falls": [(falling, weaker)],
        "GRPO with a penalty of 0.4, both sampled at 0.4": [
            ((study, "bon_loo1,temperature=0.4"), (study, "grpo, KL 0.4,temperature=0.4"))
            for study in at_low_temperature
        ],
        "the same, both sampled at 0.6": [
            ((study, "bon_loo1,temperature=0.6"), (study, "grpo, KL 0.4,temperature=0.6"))
            for study in at_low_temperature
        ],
        "GRPO with a penalty of 0.4, `bon_loo1` with one of 0.05": [
            ((study, "bon_loo1, KL 0.05"), (study, "grpo, KL 0.4, rollouts at 0.6"))
            for study in with_penalties
        ],
        "best-of-8 distillation at 0.8": [
            ((at_low_temperature[1], "bon_loo1,temperature=0.4"), distilled)
        ],
    }


def test_the_table_of_the_rivals_has_the_differences_of_the_studies(fill):
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| `bon_loo1` against | seeds | at 1 | at 8 | at 128 |") + 2
    pairs_by_row = comparisons(fill)
    for line, (name, pairs) in zip(lines[start:], pairs_by_row.items(), strict=False):
        rival, seeds, *cells = line.strip("| ").split(" | ")
        assert rival.startswith(f"[{name}")
        for k, cell in zip((1, 8, 128), cells, strict=True):
            differences = [
                difference
                for ours, theirs in pairs
                for difference in differences_between_studies(ours, theirs, k)
            ]
            assert len(differences) == int(seeds)
            assert with_plain_signs(cell) == mean_over_seeds_as_text(differences), (name, k)
    assert not lines[start + len(pairs_by_row)].startswith("|")


def test_the_table_of_the_first_screen_has_the_means_of_the_study(fill):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    models = fill.load("learning_rate").models
    rows = {
        "| none | |": "base",
        "| GRPO | 3e-4 |": "grpo,rate=3e-4",
        "| max@k (`bon_loo1`) | 3e-4 |": "bon_loo1,rate=3e-4",
        "| GRPO | 1.5e-4 |": "grpo,rate=1.5e-4",
        "| max@k (`bon_loo1`) | 1.5e-4 |": "bon_loo1,rate=1.5e-4",
    }
    for start, model in rows.items():
        means = models[model]["metrics"]["max@k"]
        numbers = " | ".join(f"{means[k]['mean']:.3f}" for k in ("1", "8", "128"))
        assert f"{start} {numbers} |" in text, model
