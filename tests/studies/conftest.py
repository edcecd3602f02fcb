"""The results that the tests of the report use, and small studies made of them."""

import itertools

import pytest
import yaml

from cli.test_demo import RECIPE as DEMO
from maxatk.evaluation.folder import RESULTS
from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.studies.findings import build_study, pooled_models
from maxatk.studies.schedule import SeededModel
from maxatk.studies.variants import Variant
from report.conftest import make, make_results, results
from tiny import save_tiny_model

__all__ = ["UNTRAINED", "build", "make", "of_a_llama", "recipe", "results", "seeded", "studied"]

# A model that is as the base: no trainer is asked, which takes seconds.
UNTRAINED = [{"method": {"as it is": {"trainer.max_steps": 0}}}]
STEADY = [{"grad_norm": norm} for norm in (1.0, 1.0, 1.0, 1.0)]
SPIKED = [{"grad_norm": norm, "ratio/mean_abs_delta": 0.5} for norm in (1.0, 2.0, 2.0, 9.0)]
CHANCES = {"base": (0.05, 0.02), "better": (0.15, 0.1), "same": (0.05, 0.02)}


@pytest.fixture
def studied(tmp_path, results):
    """Return one model of a study over two seeds, with the log of each training."""

    def write(*histories, levels):
        variant = Variant(levels, {})
        all_models = []
        for seed, history in itertools.zip_longest((1, 2), histories):
            evaluation = tmp_path / f"eval-{variant.name}-{seed}"
            training = tmp_path / f"train-{variant.name}-{seed}"
            evaluation.mkdir()
            write_json(evaluation / RESULTS, results["base"])
            if history is not None:
                training.mkdir()
                write_json(training / TRAIN_RECORD, {"log_history": history, "seconds": 2.0})
            all_models.append(SeededModel(variant, seed, evaluation, training if history else None))
        return all_models

    return write


@pytest.fixture(scope="session")
def seeded(tmp_path_factory):
    """Return the models of a study over so many seeds: a base, a better one and a like one."""

    def write(seeds, *, problems=8):
        folder = tmp_path_factory.mktemp("seeded")
        all_models = []
        for place, (name, chances) in enumerate(CHANCES.items()):
            variant = Variant({} if name == "base" else {"method": name}, {})
            for seed in seeds:
                evaluation = folder / f"eval-{name}-{seed}"
                training = folder / f"train-{name}-{seed}"
                evaluation.mkdir()
                training.mkdir()
                ids = [f"{seed}-{i}" for i in range(problems)]
                scores = make_results(10 * seed + place, *chances, ids=ids, samples=16)
                write_json(evaluation / RESULTS, scores)
                record = {"log_history": SPIKED, "seconds": 2.0}
                write_json(training / TRAIN_RECORD, record)
                all_models.append(
                    SeededModel(variant, seed, evaluation, None if name == "base" else training)
                )
        return all_models

    return write


@pytest.fixture(scope="session")
def build():
    """Return a function: the study of models."""

    def built(all_models, **options):
        comparison = pooled_models(all_models, baseline="base")
        return build_study(all_models, comparison, title="A study", **options)

    return built


RECIPE = {
    "title": "A small study",
    "seeds": [1, 2],
    **{key: DEMO[key] for key in ("mini", "train", "eval")},
    "grids": [
        {"method": {"grpo": {"trainer.method": "grpo"}}},
        {
            "method": {"loo": {"trainer.method": "bon_loo1"}},
            "updates": {1: {"trainer.num_iterations": 1}, 2: {"trainer.num_iterations": 2}},
        },
    ],
}


@pytest.fixture
def recipe(tmp_path):
    def write(name="study.yaml", **changes):
        path = tmp_path / name
        folders = {"out": str(tmp_path / "out"), "work": str(tmp_path / "work")}
        path.write_text(yaml.safe_dump({**RECIPE, **folders, **changes}, sort_keys=False))
        return path

    return write


@pytest.fixture
def of_a_llama(tmp_path):
    """Return the keys of a study that trains a model folder of another architecture than ours."""
    model = save_tiny_model(tmp_path / "llama", architecture="Llama")
    tests = tuple(TestCase(input="", output=f"{n}\n") for n in (1, 1, 2))
    for name, count in (("train", 8), ("test", 3)):
        problems = (Problem(f"{name}-{i}", "print(1)\n" * (i + 1), tests) for i in range(count))
        write_jsonl(tmp_path / f"{name}.jsonl", (problem.to_json() for problem in problems))
    trainer = {**RECIPE["train"]["trainer"], "max_completion_length": 4}
    adapter = {"peft": {"r": 2, "target_modules": ["q_proj"]}}
    return {
        "mini": None,
        "model": str(model),
        "train": {
            **RECIPE["train"],
            "problems": str(tmp_path / "train.jsonl"),
            "trainer": trainer,
        },
        "eval": {
            "problems": str(tmp_path / "test.jsonl"),
            "limit": 2,
            "batch_size": 8,
            "sampling": {"samples": 8, "max_new_tokens": 4},
            "verifier": {"workers": 1},
        },
        "grids": [
            {
                "method": {
                    "grpo": {"trainer.method": "grpo"},
                    "low rank": {"trainer.method": "bon_loo1", **adapter},
                }
            }
        ],
    }
