"""A study as plain rows, one number a field: for JSON and data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxatk.studies.findings import Study
    from maxatk.studies.seed_tests import SeedTest


def study_rows(study: Study) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of "scores", "differences", "leaders", "pairs" and "training".

    A score has model, metric, k, mean, low, high (95% over the prompts of all seeds) and
    problems. A test has metric, k, first, second, the difference with its ends over seeds (low,
    high) and over prompts, p, adjusted_p, significant and the seeds above. A training has model,
    quantity and its mean. None is a number that does not exist.
    """
    return {
        "scores": [
            {
                "model": name,
                "metric": measure.metric,
                "k": measure.k,
                **{key: found[key] for key in ("mean", "low", "high", "problems")},
            }
            for measure in study.measures
            for name, found in study.comparison.means(measure.metric, measure.k).items()
        ],
        "differences": [_test(test) for test in study.differences],
        "leaders": [_test(test) for test in study.leaders],
        "pairs": [_test(test) for test in study.pairs],
        "training": [
            {"model": name, "quantity": quantity, "mean": mean}
            for name, logged in study.training.items()
            for quantity, mean in logged.items()
        ],
    }


def _test(test: SeedTest) -> dict[str, Any]:
    return {
        "metric": test.measure.metric,
        "k": test.measure.k,
        "first": test.first,
        "second": test.second,
        "difference": test.over_seeds.mean,
        "low": test.over_seeds.low,
        "high": test.over_seeds.high,
        "prompts_low": test.prompts_low,
        "prompts_high": test.prompts_high,
        "p": test.over_seeds.p,
        "adjusted_p": test.adjusted_p,
        "significant": test.significant,
        "seeds": len(test.over_seeds.by_seed),
        "seeds_above": test.over_seeds.above,
    }
