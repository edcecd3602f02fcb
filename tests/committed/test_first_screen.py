"""What the first screen of the README says is what the studies have."""

from committed.results import ROOT, in_one_line, interval_over_seeds, row_of


def test_the_numbers_of_the_first_screen_are_those_of_the_studies(fill):
    text = in_one_line("README.md")
    demo = "demo_seeds"
    for k, first, second in (
        (8, "bon_loo1", "grpo"),
        (128, "bon_loo1", "grpo"),
        (1, "grpo", "bon_loo1"),
        (128, "base", "grpo"),
    ):
        mean, low, high = interval_over_seeds(fill, demo, first, second, k)
        assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in text, (k, first, second)
    low_rate = "learning_rate"
    for k in (1, 128):
        models = ("grpo,rate=1.5e-4", "bon_loo1,rate=3e-4")
        mean, low, high = interval_over_seeds(fill, low_rate, *models, k)
        assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in text, k
    everything = fill.table_of_seeds(fill.load_evaluations(["smollm2_all"]))
    cell = row_of(everything, "bon_loo1 − grpo")[-1]
    assert f"{cell.text} {cell.detail}".replace("+", "").replace("−", "-") in text


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
