"""The front of a study: chosen on some seeds and reported on others, against a plain loop."""

import json

import msgspec
import numpy as np
import pytest
from scipy import stats

from maxatk.cli.main import main
from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_json, write_json
from maxatk.records import Outcome, Score
from maxatk.statistics.significance import over_seeds_and_problems
from maxatk.studies.findings import Study, build_study, pooled_models
from maxatk.studies.findings_tables import study_rows, study_tables
from maxatk.studies.front import FLOORS, front_of
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import SeededModel, planned, seeded_models
from maxatk.studies.variants import Variant
from maxatk.studies.write import front_sentences
from report.conftest import make_results
from runs import write_run
from studies.conftest import RECIPE

SEEDS = (1, 2, 3, 4)
MODELS = {  # chances of a right and of a half right sample
    "base": (0.05, 0.05),
    "grpo,rate=1": (0.3, 0.05),
    "grpo,rate=2": (0.25, 0.1),
    "loo,rate=1": (0.2, 0.3),
    "loo,rate=2": (0.15, 0.35),
}
METHODS = {name: name.partition(",")[0] for name in MODELS if name != "base"}


@pytest.fixture(scope="module")
def all_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    written = []
    for number, (name, chances) in enumerate(MODELS.items()):
        method, _, rate = name.partition(",rate=")
        levels = {"method": method, "rate": rate} if rate else {}
        for seed in SEEDS:
            evaluation = folder / f"{name}-{seed}"
            evaluation.mkdir()
            ids = [f"{seed}-{i}" for i in range(12)]
            results = make_results(10 * seed + number, *chances, ids=ids, samples=16)
            write_json(evaluation / RESULTS, results)
            written.append(SeededModel(Variant(levels, {}), seed, evaluation, None))
    return written


@pytest.fixture(scope="module")
def comparison(all_models):
    return pooled_models(all_models, baseline="base")


@pytest.fixture(scope="module")
def front(comparison):
    return front_of(comparison, METHODS, rivals=["grpo"], ks=[8, 128])


def values_of(all_models, name, seed, k):
    (seeded_model,) = [
        seeded_model
        for seeded_model in all_models
        if seeded_model.variant.name == name and seeded_model.seed == seed
    ]
    column = read_json(seeded_model.evaluation / RESULTS)["per_problem"]["max@k"][str(k)]
    return np.array(column, dtype=float)


def mean_of(all_models, name, seeds, k):
    return np.mean([values_of(all_models, name, seed, k).mean() for seed in seeds])


def chosen_by_hand(all_models, names, aim, floor, seeds):
    best = -np.inf
    model = None
    for name in names:
        if mean_of(all_models, name, seeds, 1) < floor:
            continue
        if mean_of(all_models, name, seeds, aim) > best:
            best = mean_of(all_models, name, seeds, aim)
            model = name
    return model


def test_ks_beyond_the_samples_are_left_out(front):
    assert {best.aim for best in front.best} == {1, 8}
    assert {point.aim for point in front.curves} == {8}


def test_every_seed_is_reported_by_what_the_others_choose(all_models, front):
    for best in front.best:
        names = [name for name, method in METHODS.items() if method == best.method]
        assert best.model == chosen_by_hand(all_models, names, best.aim, -np.inf, SEEDS)
        held_out = []
        for seed, model in zip(SEEDS, best.by_seed, strict=True):
            other_seeds = [other for other in SEEDS if other != seed]
            assert model == chosen_by_hand(all_models, names, best.aim, -np.inf, other_seeds)
            held_out.append(values_of(all_models, model, seed, best.aim).mean())
        (estimate,) = [estimate for estimate in best.estimates if estimate.k == best.aim]
        assert estimate.mean == pytest.approx(np.mean(held_out))
        half = stats.t.ppf(0.975, 3) * stats.sem(held_out) * np.sqrt(1 + 4 / 3)
        assert estimate.low == pytest.approx(np.mean(held_out) - half)
        assert estimate.high == pytest.approx(np.mean(held_out) + half)


def test_beyond_is_the_difference_of_both_sides_above_each_floor(all_models, front):
    ours = [name for name, method in METHODS.items() if method == "loo"]
    theirs = ["base", *(name for name, method in METHODS.items() if method == "grpo")]
    firsts = [mean_of(all_models, name, SEEDS, 1) for name in MODELS]
    floors = np.linspace(mean_of(all_models, "base", SEEDS, 1), max(firsts), FLOORS)
    assert 0 < len(front.beyond) < FLOORS  # the highest are not reached by both
    for test in front.beyond:
        assert np.isclose(floors, test.floor).any()
        moved = []
        firsts = []
        for seed in SEEDS:
            other_seeds = [other for other in SEEDS if other != seed]
            our, their = (
                chosen_by_hand(all_models, names, 8, test.floor, other_seeds)
                for names in (ours, theirs)
            )
            moved.append(
                (values_of(all_models, our, seed, 8) - values_of(all_models, their, seed, 8)).mean()
            )
            firsts.append([values_of(all_models, name, seed, 1).mean() for name in (our, their)])
        assert (test.first, test.rival_first) == pytest.approx(tuple(np.mean(firsts, axis=0)))
        assert test.difference == pytest.approx(np.mean(moved))
        # The seeds choose for one another: Nadeau and Bengio's variance.
        error = stats.sem(moved) * np.sqrt(1 + 4 / 3)
        assert test.p == pytest.approx(2 * stats.t.sf(abs(np.mean(moved)) / error, 3))
        assert test.adjusted_p >= test.p


def test_floors_at_which_nothing_else_is_chosen_are_one_test(all_models, front):
    ours = [name for name, method in METHODS.items() if method == "loo"]
    theirs = [name for name, method in METHODS.items() if method == "grpo"]
    firsts = [mean_of(all_models, name, SEEDS, 1) for name in MODELS]
    choices = []
    for floor in np.linspace(mean_of(all_models, "base", SEEDS, 1), max(firsts), FLOORS):
        choice = []
        for seed in SEEDS:
            other_seeds = [other for other in SEEDS if other != seed]
            for names in (ours, ["base", *theirs]):
                choice.append(chosen_by_hand(all_models, names, 8, floor, other_seeds))
        if None not in choice:
            choices.append(tuple(choice))
    assert len(front.beyond) == len(set(choices)) < len(choices)
    adjusted = stats.false_discovery_control([test.p for test in front.beyond])
    assert [test.adjusted_p for test in front.beyond] == pytest.approx(list(adjusted))


@pytest.fixture
def with_unscored(tmp_path):
    """Return the front for 8 of 16 samples where of one seed of some models few were scored."""

    def front(*lacking, scored):
        written = []
        for number, (name, chances) in enumerate(MODELS.items()):
            method, _, rate = name.partition(",rate=")
            levels = {"method": method, "rate": rate} if rate else {}
            for seed in SEEDS:
                draw = np.random.default_rng(10 * seed + number)
                fewer = name in lacking and seed == 1
                scores = []
                for problem in range(6):
                    for sample in range(16):
                        reward = float(draw.choice([1.0, 0.5, 0.0], p=[*chances, 1 - sum(chances)]))
                        outcome = Outcome.SCORED
                        if fewer and sample >= scored:
                            reward = None
                            outcome = Outcome.INFRA_ERROR
                        score = Score(f"{seed}-{problem}", sample, reward, 0, 1, outcome, 0.0)
                        scores.append(score)
                folder = tmp_path / f"{name}-{seed}"
                folder.mkdir()
                write_run(folder, scores)
                written.append(SeededModel(Variant(levels, {}), seed, folder, None))
        comparison = pooled_models(written, baseline="base")
        return front_of(comparison, METHODS, rivals=["grpo"], ks=[8])

    return front


@pytest.mark.parametrize("lacking", ["loo,rate=1", "loo,rate=2"])
def test_a_model_without_a_value_in_some_seed_is_not_chosen_for_it(with_unscored, lacking):
    (other,) = {"loo,rate=1", "loo,rate=2"} - {lacking}
    front = with_unscored(lacking, scored=7)
    (best,) = [best for best in front.best if (best.method, best.aim) == ("loo", 8)]
    assert best.by_seed == (other,) * len(SEEDS)
    assert best.model == other
    assert all(estimate.low is not None for estimate in best.estimates)


@pytest.mark.parametrize("scored", [0, 7])
def test_a_method_without_a_value_is_left_out_for_that_n(with_unscored, scored):
    front = with_unscored("loo,rate=1", "loo,rate=2", scored=scored)
    places = {(best.method, best.aim) for best in front.best}
    of_first = set() if scored == 0 else {("loo", 1)}
    assert places == {("grpo", 1), ("grpo", 8)} | of_first
    assert front.beyond == ()
    json.dumps(msgspec.to_builtins(front), allow_nan=False)


def test_there_is_no_front_of_models_without_values(with_unscored):
    assert with_unscored(*METHODS, scored=0) is None


def test_one_seed_cannot_choose_by_itself(all_models):
    one = [seeded_model for seeded_model in all_models if seeded_model.seed == 1]
    comparison = pooled_models(one, baseline="base")
    assert front_of(comparison, METHODS, rivals=["grpo"], ks=[8]) is None
    other = [seeded_model for seeded_model in all_models if seeded_model.seed == 2]
    choice = pooled_models(other, baseline="base")
    front = front_of(comparison, METHODS, rivals=["grpo"], ks=[8], choice=choice)
    assert front.chosen_on == "other problems"
    for best in front.best:
        names = [name for name, method in METHODS.items() if method == best.method]
        assert best.by_seed == (chosen_by_hand(all_models, names, best.aim, -np.inf, [2]),)


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_an_interval_ends_where_no_mean_can_be_and_nowhere_for_rewards_below_0(tmp_path, least):
    written = []
    rewards = {"base": (0.0, 0.0, 0.0), "grpo": (0.0, 0.0, 0.0), "loo": (1.0, 1.0, 0.7)}
    for name, of_seeds in rewards.items():
        levels = {} if name == "base" else {"method": name}
        for seed, reward in enumerate(of_seeds):
            # One of four samples is worse: the best of two is the same, and lies in [0, 1].
            scores = [
                Score(f"{seed}-{problem}", sample, value, 0, 1, Outcome.SCORED, 0.0)
                for problem in range(2)
                for sample, value in enumerate([reward, reward, reward, min(reward, least)])
            ]
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir()
            write_run(folder, scores)
            written.append(SeededModel(Variant(levels, {}), seed, folder, None))
    comparison = pooled_models(written, baseline="base")
    front = front_of(comparison, {"grpo": "grpo", "loo": "loo"}, rivals=["grpo"], ks=[2])
    half = stats.t.ppf(0.975, 2) * stats.sem([1.0, 1.0, 0.7]) * np.sqrt(1 + 3 / 2)
    assert half > 0.3  # Student's interval alone passes 1
    highest = 1.0 if least == 0 else pytest.approx(0.9 + half)
    lowest = front.beyond[0]
    assert lowest.difference == pytest.approx(0.9)
    assert (lowest.low, lowest.high) == (pytest.approx(0.9 - half), highest)
    (best,) = [best for best in front.best if (best.method, best.aim) == ("loo", 2)]
    assert (best.estimates[1].mean, best.estimates[1].high) == (pytest.approx(0.9), highest)


def test_a_difference_without_spread_is_said_without_an_interval(tmp_path):
    evaluations = {"results": [], "choice": []}
    for name, reward in (("base", 0.0), ("grpo", 0.0), ("loo", 1.0)):
        levels = {} if name == "base" else {"method": name}
        for kind, written in evaluations.items():
            scores = [
                Score(f"{kind}-{problem}", sample, reward, 0, 1, Outcome.SCORED, 0.0)
                for problem in range(8)
                for sample in range(2)
            ]
            folder = tmp_path / f"{name}-{kind}"
            folder.mkdir()
            write_run(folder, scores)
            written.append(SeededModel(Variant(levels, {}), 1, folder, None))
    comparison, choice = (
        pooled_models(written, baseline="base") for written in evaluations.values()
    )
    methods = {name: name.removeprefix("method=") for name in comparison.names[1:]}
    front = front_of(comparison, methods, rivals=["grpo"], ks=[2], choice=choice)
    (sentence,) = front_sentences(front)
    assert "; most by +1.000 (the same everywhere), " in sentence


def test_seeds_that_share_their_problems_have_the_crossed_interval(tmp_path):
    shared = []
    for number, (name, chances) in enumerate(MODELS.items()):
        method, _, rate = name.partition(",rate=")
        levels = {"method": method, "rate": rate} if rate else {}
        for seed in SEEDS:
            evaluation = tmp_path / f"{name}-{seed}"
            evaluation.mkdir()
            ids = [f"problem-{i}" for i in range(12)]
            results = make_results(10 * seed + number, *chances, ids=ids, samples=16)
            results["manifest"] = {"settings": {"problems": {"count": 12, "sha256": "same"}}}
            write_json(evaluation / RESULTS, results)
            shared.append(SeededModel(Variant(levels, {}), seed, evaluation, None))
    comparison = pooled_models(shared, baseline="base")
    front = front_of(comparison, METHODS, rivals=["grpo"], ks=[8])
    for best in front.best:
        rows = [
            values_of(shared, model, seed, best.aim)
            for seed, model in zip(SEEDS, best.by_seed, strict=True)
        ]
        interval = over_seeds_and_problems(np.array(rows)[..., None], variance_factor=1 + 4 / 3)
        (estimate,) = [estimate for estimate in best.estimates if estimate.k == best.aim]
        assert (estimate.low, estimate.high) == pytest.approx((interval.low[0], interval.high[0]))


def test_a_study_keeps_its_front_and_has_its_tables(all_models, comparison, front):
    study = build_study(all_models, comparison, title="Front", front=front)
    again = Study.from_json(json.loads(json.dumps(study.to_json(), allow_nan=False)))
    assert again.front == front
    tables = study_tables(again)
    assert tables["front"].header == ("method", "best for N", "model", "max@1", "max@8")
    assert len(tables["beyond"].rows) == len(front.beyond)
    assert study_rows(again)["beyond"][0]["floor"] == front.beyond[0].floor


def test_checkpoints_are_an_axis_that_shares_the_training(recipe):
    trainer = {**RECIPE["train"]["trainer"], "max_steps": 6}
    train = {**RECIPE["train"], "trainer": trainer}
    study = load_study(recipe(train=train, checkpoints=[2, 6], seeds=[1]))
    all_models = seeded_models(study)
    names = [seeded_model.variant.name for seeded_model in all_models]
    assert names[1:3] == ["grpo,steps=2", "grpo,steps=6"]
    early, late = all_models[1:3]
    assert early.chain["train"] == late.chain["train"]
    recipes = {
        stage.name: settings
        for stage, settings in planned(study, all_models, cores=2, jobs=2).items()
    }
    saved = recipes[early.chain["train"]]["trainer"]
    assert (saved["save_steps"], saved["save_strategy"]) == (2, "steps")
    assert saved["save_total_limit"] is None
    assert recipes[early.chain["eval"]]["model"] == f"{early.training}/checkpoint-2"
    assert recipes[late.chain["eval"]]["model"] == str(late.training)
    assert early.evaluation != late.evaluation


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkpoints": [6, 2]}, "checkpoints: must be optimizer steps in ascending order"),
        ({"checkpoints": [1, 3]}, "trainer.max_steps: must be 3, the last of checkpoints, got 2"),
        ({"front": {"rivals": ["loop"]}}, "front.rivals: must be of grpo, loo, got 'loop'"),
        ({"front": {"rivals": ["grpo", "loo"]}}, "front.rivals: must be the levels of some"),
        (
            {"front": {"rivals": ["grpo"], "ks": [1]}},
            "front.ks: must be different whole numbers from 2",
        ),
        (
            {"front": {"rivals": ["grpo"], "choose": {"problems": "other.jsonl"}}},
            "front.choose: goes with 'model'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(recipe, tmp_path, capsys, change, message):
    assert main(["study", str(recipe(**change)), "--dry-run"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


@pytest.mark.long
def test_checkpoints_of_whole_models_and_of_adapters_are_evaluated(
    recipe, of_a_llama, tmp_path, maxatk
):
    trainer = {**of_a_llama["train"]["trainer"], "max_steps": 2}
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "train.jsonl").read_text())
    changes = {
        **of_a_llama,
        "train": {**of_a_llama["train"], "trainer": trainer},
        "seeds": [1],
        "checkpoints": [1, 2],
        "front": {"rivals": ["grpo"], "ks": [8], "choose": {"problems": str(other)}},
    }
    path = recipe(**changes)
    done = maxatk("study", path)
    assert done.returncode == 0, done.stderr
    assert "Best of 8: beyond the rivals' front in" in done.stdout
    study = load_study(path)
    evaluated = {seeded_model.variant.name: seeded_model for seeded_model in seeded_models(study)}
    for name in ("grpo,steps=1", "low rank,steps=1"):
        manifest = read_json(evaluated[name].evaluation / RESULTS)["manifest"]
        model = manifest["settings"]["model"]
        checkpoint = f"{evaluated[name].training}/checkpoint-1"
        low_rank = name.startswith("low rank")
        assert model["model"] == (str(of_a_llama["model"]) if low_rank else checkpoint)
        assert model.get("adapter") == (checkpoint if low_rank else None)
        assert read_json(evaluated[name].choice / RESULTS)["per_problem"]["ids"][0] == "train-0"
    results = Study.from_json(read_json(tmp_path / "out" / RESULTS))
    assert results.front.chosen_on == "other problems"
    assert {best.method for best in results.front.best} == {"grpo", "low rank"}
    for file in ("figures/front.svg", "tables/front.md", "tables/beyond.csv", "report.html"):
        assert (tmp_path / "out" / file).is_file()
