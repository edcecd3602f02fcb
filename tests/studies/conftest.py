"""The results that the tests of the report use, and small studies made of them."""

import pytest

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.studies.findings import StudiedModel, build_study, pooled
from report.conftest import make, make_results, results

__all__ = ["build", "make", "results", "seeded", "studied"]

STEADY = [{"grad_norm": norm} for norm in (1.0, 1.0, 1.0, 1.0)]
SPIKED = [{"grad_norm": norm, "ratio/mean_abs_delta": 0.5} for norm in (1.0, 2.0, 2.0, 9.0)]
CHANCES = {"base": (0.05, 0.02), "better": (0.15, 0.1), "same": (0.05, 0.02)}


@pytest.fixture
def studied(tmp_path, results):
    """Return the model of a study over two seeds, with the log of each training."""

    def write(name, *histories, levels):
        evaluations, trainings = {}, {}
        for seed in (1, 2):
            evaluations[seed] = tmp_path / f"eval-{name}-{seed}"
            evaluations[seed].mkdir()
            write_json(evaluations[seed] / RESULTS, results["base"])
        for seed, history in enumerate(histories, start=1):
            trainings[seed] = tmp_path / f"train-{name}-{seed}"
            trainings[seed].mkdir()
            write_json(trainings[seed] / TRAIN_RECORD, {"log_history": history, "seconds": 2.0})
        return StudiedModel(name, levels, evaluations, trainings)

    return write


@pytest.fixture(scope="session")
def seeded(tmp_path_factory):
    """Return the models of a study over so many seeds: a base, a better one and a like one."""

    def write(seeds, *, problems=8):
        folder = tmp_path_factory.mktemp("seeded")
        models = []
        for place, (name, chances) in enumerate(CHANCES.items()):
            evaluations, trainings = {}, {}
            for seed in seeds:
                evaluations[seed], trainings[seed] = (
                    folder / f"{kind}-{name}-{seed}" for kind in ("eval", "train")
                )
                evaluations[seed].mkdir()
                trainings[seed].mkdir()
                ids = [f"{seed}-{i}" for i in range(problems)]
                found = make_results(10 * seed + place, *chances, ids=ids, samples=16)
                write_json(evaluations[seed] / RESULTS, found)
                record = {"log_history": SPIKED, "seconds": 2.0}
                write_json(trainings[seed] / TRAIN_RECORD, record)
            levels = {} if name == "base" else {"method": name}
            models.append(
                StudiedModel(name, levels, evaluations, {} if name == "base" else trainings)
            )
        return models

    return write


@pytest.fixture(scope="session")
def build():
    """Return a function: the study of models."""

    def built(models, **options):
        return build_study(models, pooled(models), title="A study", baseline="base", **options)

    return built
