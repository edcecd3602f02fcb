"""Which models the seeds of a study choose, from the values of single problems."""

import numpy as np
import pandas as pd

from maxatk.statistics.significance import over_seeds, variance_of_shared_choices


def chosen(values, names, seeds, *, aim, floor):
    """Return of the models with enough max@1 on some seeds the one with the highest max@aim."""
    means = {}
    for name in names:
        rows = values[name][values[name].seed.isin(seeds)]
        of_seeds = rows.groupby("seed").mean(numeric_only=True)
        means[name] = of_seeds.mean()
    reached = [name for name in names if means[name]["1"] >= floor]
    return max(reached, key=lambda name: means[name][aim])


def held_out(values, names, seeds, *, aim, floor=-np.inf):
    """Return the rows of every seed with the model that the other seeds choose."""
    rows = []
    for seed in seeds:
        other_seeds = [other for other in seeds if other != seed]
        of_model = values[chosen(values, names, other_seeds, aim=aim, floor=floor)]
        rows.append(of_model[of_model.seed == seed])
    return pd.concat(rows).set_index(["seed", "problem"])


def differences_from_the_rivals(fill, *, aim, floor=-np.inf):
    """Return what the models that are no rivals add to the rivals, for every seed and problem."""
    study = fill.load("front")
    values = values_of(fill, "front")
    methods = {name: model["levels"].get("method") for name, model in study.models.items()}
    rivals = [name for name, method in methods.items() if method in study.front.rivals]
    ours = [name for name in methods if name not in (*rivals, "base")]
    return held_out_difference(
        (values, ours), (values, [*rivals, "base"]), study.seeds, aim=aim, floor=floor
    )


def values_of(fill, study):
    """Return max@k of every problem by model, as it is committed."""
    table = pd.read_csv(fill.DOCS / study / "problems.csv")
    return dict(list(table[table.metric == "max@k"].groupby("model")))


def held_out_difference(our, their, seeds, *, aim, floor=-np.inf):
    """Return ours minus theirs in max@aim, for every seed and problem.

    Either side is values by model and the names of some. Each seed is reported by the models that
    the other seeds choose.
    """
    of_ours = held_out(*our, seeds, aim=aim, floor=floor)
    of_theirs = held_out(*their, seeds, aim=aim, floor=floor)
    return of_ours[aim] - of_theirs[aim]


def held_out_test(our, their, seeds, *, aim):
    """Return the test of `held_out_difference`."""
    more = held_out_difference(our, their, seeds, aim=aim)
    by_seed = [more.xs(seed, level="seed").to_numpy()[:, None] for seed in seeds]
    return over_seeds(by_seed, variance_factor=variance_of_shared_choices(len(seeds)))
