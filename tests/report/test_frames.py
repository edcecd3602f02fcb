import numpy as np

from maxatk.report import problem_frame


def test_the_frame_holds_every_value(results):
    frame = problem_frame(results)
    assert len(frame) == 3 * 30 * 2 * 8
    assert list(frame) == ["model", "problem", "samples", "scored", "metric", "k", "value"]
    means = frame.groupby(["model", "metric", "k"])["value"].mean()
    for model, found in results.items():
        for metric, columns in found["metrics"].items():
            for k, column in columns.items():
                assert abs(means[model, metric, int(k)] - column["mean"]) < 2e-6


def test_a_missing_value_is_nan(make):
    lost = make(4, 0.1, 0.1, ids=["a", "b"], samples=4, unscored=2)
    frame = problem_frame({"base": lost})
    row = frame[(frame.problem == "a") & (frame.metric == "max@k") & (frame.k == 4)].iloc[0]
    assert np.isnan(row["value"])
    assert (row["samples"], row["scored"]) == (4, 2)
