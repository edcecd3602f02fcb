"""What a training can gain: by enumeration of groups, and by summing the gradient exactly."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from maxatk.diagnose.prospects import METHODS_COMPARED, prospects, signal_chances
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.load import results_of_folder
from maxatk.objectives import advantages
from maxatk.records import Outcome, Score
from maxatk.statistics.power import pairs_needed, problems_needed
from runs import write_run

STUDIES = Path(__file__).parents[2] / "docs" / "study"
REWARDS = np.array(
    [
        [0.0, 0.5, 0.5, 1.0, 1.0, 0.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
        [0.0, 0.25, 0.5, 0.75, 1.0, np.nan, np.nan],
    ]
)


def run(folder, rewards):
    """The folder of a run with these rewards, (P, N)."""
    folder.mkdir()
    write_run(
        folder,
        [
            Score(f"p{p}", s, None if np.isnan(r) else float(r), 0, 1, Outcome.SCORED, 0.0)
            for p, row in enumerate(rewards)
            for s, r in enumerate(row)
        ],
    )
    return folder


def solved(chances, samples):
    """Rewards of 0 and 1 of which each problem has this share of ones."""
    return [[float(s < round(p * samples)) for s in range(samples)] for p in chances]


def share_with_signal(row, n, k, method):
    groups = itertools.combinations(row[~np.isnan(row)], n)
    return np.mean([np.abs(advantages([group], method, k)).max() > 1e-12 for group in groups])


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_chance_of_a_signal_is_that_of_all_groups_of_the_samples(n):
    for k in range(1, n + 1):
        expected = [share_with_signal(row, n, k, "bon_loo1") for row in REWARDS]
        np.testing.assert_allclose(signal_chances(REWARDS, n, k), expected, atol=1e-12)


@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_the_chance_for_k_of_1_is_that_of_the_methods_without_k(method):
    expected = [share_with_signal(row, 4, 1, method) for row in REWARDS]
    np.testing.assert_allclose(signal_chances(REWARDS, 4, 1), expected, atol=1e-12)


def test_what_max_at_k_can_gain_is_what_the_best_sample_has_above_it(tmp_path):
    tables = prospects(run(tmp_path / "run", REWARDS), ns=[4], ks=[1, 2, 3])
    assert tables["problems"] == [{"problems": 5, "samples": 7}]
    assert [row["k"] for row in tables["gain"]] == [1, 2, 3, 4, 7]
    for row in tables["gain"]:
        scored = [
            rewards[~np.isnan(rewards)]
            for rewards in REWARDS
            if (~np.isnan(rewards)).sum() >= row["k"]
        ]
        means = [
            np.mean([max(s) for s in itertools.combinations(rewards, row["k"])])
            for rewards in scored
        ]
        best = np.array([rewards.max() for rewards in scored])
        assert row["problems"] == len(scored) == (4 if row["k"] == 7 else 5)
        assert row["max@k"] == pytest.approx(np.mean(means))
        assert row["missing"] == pytest.approx(np.mean(best - means))
        assert row["rise"] == sum(best - means > 1e-9)
        assert row["beyond"] == pytest.approx(np.mean(1 - best))


def test_a_problem_that_lost_its_rewards_limits_no_other(tmp_path):
    whole = np.array(solved([0.25, 0.5, 0.75], 40))
    lost = np.full((1, 40), np.nan)
    lost[0, 0] = 1.0
    folder = run(tmp_path / "run", np.concatenate([whole, lost]))
    tables = prospects(folder)
    alone = prospects(run(tmp_path / "alone", whole))
    assert tables["problems"] == [{"problems": 4, "samples": 40}]
    assert tables["signal"] == alone["signal"]
    assert {row["problems"] for row in tables["signal"]} == {3}
    assert tables["suggestion"] == alone["suggestion"]
    by_k = results_of_folder(folder, ks=[1, 2, 4, 8, 16, 20, 32, 40]).metrics["max@k"]
    assert [row["k"] for row in tables["gain"]] == list(by_k)
    for row in tables["gain"]:
        mean = by_k[row["k"]]
        assert (row["max@k"], row["problems"]) == (
            pytest.approx(mean.mean, abs=1e-6),
            mean.problems,
        )


def test_rewards_above_1_have_no_ceiling(tmp_path):
    tables = prospects(run(tmp_path / "run", 2 * REWARDS), ns=[4])
    assert {row["beyond"] for row in tables["gain"]} == {None}


def test_the_weights_are_shares_of_the_expected_update_of_the_log_odds(tmp_path):
    """A policy that is right with chance p: the gradient of log pi by its log odds is r - p."""
    chances = [0.0, 0.1, 0.4, 0.75, 0.9, 1.0]
    tables = prospects(run(tmp_path / "run", solved(chances, 20)), ns=[4], best_of=2)
    assert [(row["n"], row["k"]) for row in tables["suggestion"]] == [(4, 2)]
    outcomes = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
    for method in METHODS_COMPARED:
        credit = advantages(outcomes, method, 2)
        updates = []
        for p in chances:
            likely = np.prod(np.where(outcomes > 0, p, 1 - p), axis=1)
            updates.append((likely * (credit * (outcomes - p)).sum(axis=1)).sum())
        rows = [row for row in tables["weights"] if row["method"] == method]
        assert [row["problems"] for row in rows] == [1] * 6
        shares = [row["share"] for row in rows]
        np.testing.assert_allclose(shares, np.array(updates) / sum(updates), atol=1e-9)


def test_the_numbers_needed_are_those_of_the_tests_power(tmp_path):
    chances = [0.1, 0.25, 0.5, 0.75]
    tables = prospects(
        run(tmp_path / "run", solved(chances, 20)), ns=[4], ks=[1, 8], differences=[0.05, 0.9]
    )
    assert [(row["difference"], row["k"]) for row in tables["needed"]] == [
        *((0.05, 1), (0.05, 8)),
        *((0.9, 1), (0.9, 8)),
    ]
    for row, spread in zip(tables["needed"], (0.011, 0.023), strict=False):
        expected = problems_needed(0.05, k=row["k"], samples=20, chances=chances)
        assert (row["problems"], row["seeds"]) == (expected, pairs_needed(0.05, spread))
    assert [row["problems"] for row in tables["needed"][2:]] == [None, None]


def differences_of_planned_pairs(study, k):
    """Yield by how much the first of two models is above the second at k, in every seed."""
    pairs = {(pair["first"], pair["second"]) for pair in study["pairs"]}
    for names in sorted(pairs):
        first, second = (study["models"][name]["by_seed"].values() for name in names)
        yield [a["max@k"][str(k)] - b["max@k"][str(k)] for a, b in zip(first, second, strict=True)]


def test_the_seeds_needed_are_those_of_the_spread_in_the_committed_studies(tmp_path):
    # Without the front, whose models are checkpoints, and studies of the models of front_confirmed.
    names = ("demo_seeds", "table2", "confirm", "objectives", "learning_rate", "k_against_n")
    names += ("distillation", "top_two", "unsolved", "front_confirmed", "reuse", "selection")
    paths = [STUDIES / name / "results.json" for name in names]
    studies = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    ks = (1, 2, 4, 8, 16, 32, 128)
    folder = run(tmp_path / "run", solved([0.1, 0.25, 0.5, 0.75], 128))
    needed = prospects(folder, ks=ks, differences=[0.02])["needed"]
    for row in needed:
        spreads = [
            np.std(differences, ddof=1)
            for study in studies
            for differences in differences_of_planned_pairs(study, row["k"])
        ]
        assert row["seeds"] == pytest.approx(pairs_needed(0.02, np.median(spreads)), abs=2)
    assert needed[0]["seeds"] < needed[-1]["seeds"] / 2


def test_the_suggestion_follows_what_the_studies_found(tmp_path):
    draw = np.random.default_rng(0)
    hard = draw.random((60, 64)) < draw.beta(0.4, 1.6, (60, 1))  # as the built-in model
    folder = run(tmp_path / "hard", hard.astype(float))
    assert [
        (row["n"], row["k"], row["method"])
        for best_of in (1, 4, 8, 128)
        for row in prospects(folder, best_of=best_of)["suggestion"]
    ] == [(8, 1, "grpo"), (16, 4, "bon_loo1"), (16, 8, "bon_loo1"), (16, 8, "bon_loo1")]


def test_a_k_that_would_leave_no_signal_is_not_suggested(tmp_path):
    folder = run(tmp_path / "easy", solved([0.9] * 5, 40))
    (easy,) = prospects(folder, best_of=32)["suggestion"]
    assert 1 < easy["k"] < 8
    assert "keeps half of the signal" in easy["reason"]
    assert "at the best of two or three learning rates of each" in easy["reason"]
    never = prospects(run(tmp_path / "never", solved([0.0] * 5, 40)), best_of=32)
    assert "choose other problems" in never["suggestion"][0]["reason"]
    assert {row["share"] for row in never["weights"]} == {None}
    assert {row["share"] for row in never["signal"]} == {0.0}


@pytest.mark.parametrize("n", [2, 3])
def test_groups_too_small_for_the_best_of_several_are_said_to_be_so(tmp_path, n):
    folder = run(tmp_path / "hard", solved([0.2] * 20, 40))
    (row,) = prospects(folder, ns=(n,), best_of=64)["suggestion"]
    assert f"groups of {n} are too small for k = 2, which needs n = 4 or more" in row["reason"]
    assert "for one answer" not in row["reason"]
    (row,) = prospects(folder, ns=(n,), best_of=1)["suggestion"]
    assert "for one answer" in row["reason"]


@pytest.mark.parametrize("samples", [2, 3])
def test_a_run_with_fewer_samples_than_a_usual_group_is_one_group(tmp_path, samples):
    rewards = np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])[:, :samples]
    tables = prospects(run(tmp_path / "run", rewards))
    expected = np.mean([share_with_signal(row, samples, 1, "rloo") for row in rewards])
    (signal,) = tables["signal"]
    assert signal == {"n": samples, "k": 1, "share": pytest.approx(expected), "problems": 3}
    (row,) = tables["suggestion"]
    assert (row["n"], row["k"], row["method"]) == (samples, 1, "grpo")
    assert f"groups of {samples} are too small for k = 2" in row["reason"]
    assert f"{samples} samples a problem say nothing of larger groups" in row["reason"]
    assert "for one answer" not in row["reason"]
    four = prospects(run(tmp_path / "four", [[0.0, 0.0, 0.5, 1.0]]))
    assert {row["n"] for row in four["signal"]} == {4}
    assert "say nothing" not in four["suggestion"][0]["reason"]


def test_what_is_not_allowed_is_refused(tmp_path):
    folder = run(tmp_path / "run", REWARDS)
    for settings, message in {
        (
            "ns",
            (8, 16),
        ): "^n: must be at most the 7 samples of a problem",
        ("ns", (1,)): "^n: must be an integer of 2 or more, got 1",
        ("ks", (8,)): "^k: must be an integer from 1 to the 7 samples",
        ("best_of", 0): "^best_of: must be an integer of 1 or more, got 0",
        ("differences", (0.0,)): "^difference: must be positive, got 0.0",
        ("differences", (1e-200,)): "^difference: must be .* or more in size, .*got 1e-200",
    }.items():
        with pytest.raises(InvalidValueError, match=message):
            prospects(folder, **dict([settings]))
    unscored = [[np.nan] * 8]
    single = [[1.0]]
    for name, rewards, has in (("unscored", unscored, "0 samples"), ("single", single, "1 sample")):
        with pytest.raises(DataError, match=f"a problem has {has} with a reward"):
            prospects(run(tmp_path / name, rewards))
    with pytest.raises(MissingFileError):
        prospects(tmp_path)
    (tmp_path / "scores.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"scores\.jsonl:1"):
        prospects(tmp_path)
