"""Numbers that NumPy computed are settings like those of Python, and are stored as such."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from maxatk import Method, OrderWeights, Problem, Sample, TestCase, Verifier
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.mini.settings import MiniSettings, WarmStart
from maxatk.objectives import method_of
from maxatk.objectives.objective import Objective
from maxatk.rewards import read_spec
from maxatk.rewards.answers import AnswerReward
from maxatk.sampling import ModelSettings, SamplingSettings
from maxatk.sampling.settings import ServerSettings
from maxatk.serve.settings import ServeSettings
from maxatk.settings import from_mapping
from maxatk.statistics.power import problems_needed
from maxatk.verifier import Job, Limits
from maxatk.verifier.settings import VerifierSettings

ECHO = TestCase(input="1", output="1")
OF_A_RUN = {"model": "a", "problems": "b", "out": "c"}

# Settings with Python's numbers; each is also made with NumPy's in their place.
SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    (Limits, {"time_limit": 0.5, "memory_limit": 1 << 28, "output_limit": 1 << 20}),
    (Limits, {"time_limit": 2, "stop_after_timeouts": 3, "repair_truncated": False}),
    (VerifierSettings, {"workers": 2, "memory_limit_mb": 4096, "time_limit": 0.5}),
    (Job, {"program": "", "tests": (ECHO,), "time_limit": 0.5, "memory_limit": 1 << 28}),
    (Problem, {"id": "a", "prompt": "b", "time_limit_s": 0.5, "memory_limit_mb": 256}),
    (Problem, {"id": "a", "prompt": "b", "answer": 42}),
    (Problem, {"id": "a", "prompt": "b", "answer": 0.5, "tolerance": 0.125}),
    (Sample, {"problem_id": "a", "sample": 1, "completion": "b", "tokens": 3, "logprob": -0.5}),
    (SamplingSettings, {"temperature": 0.5, "top_p": 0.25, "top_k": 3, "seed": 4, "samples": 8}),
    (SamplingSettings, {"min_p": 0.5, "max_new_tokens": 16, "stop_at_fence": True}),
    (ModelSettings, {"batch_size": 8, "engine": {"max_model_len": 4096}}),
    (ServerSettings, {"concurrency": 2, "retries": 3, "timeout_s": 0.5}),
    (ServeSettings, {"port": 8080, "queue": 4}),
    (EvalRecipe, {**OF_A_RUN, "k": (2, 4), "limit": 3, "threshold": 0.5}),
    (MiniSettings, {"train_problems": 3, "seed": 4}),
    (WarmStart, {"problems": 3, "learning_rate": 0.5}),
    (Objective, {"method": "bon_loo1", "k": 4, "max_weight": 0.5, "delta_clamp": 0.25}),
    (Objective, {"method": "bon_loo1", "k": 4, "k_final": 2, "k_schedule": "linear"}),
    (Method, {"credit": "entropic", "baseline": "mean", "inverse_temperature": 0.5}),
]


def of_numpy(value: Any) -> Any:
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        return np.int64(value)
    if isinstance(value, float):
        return np.float32(value)
    if isinstance(value, dict):
        return {name: of_numpy(inner) for name, inner in value.items()}
    return tuple(map(of_numpy, value)) if isinstance(value, tuple) else value


def types_in(settings: Any) -> list[type]:
    return [type(getattr(settings, field.name)) for field in dataclasses.fields(settings)]


@pytest.mark.parametrize(("kind", "fields"), SETTINGS)
def test_settings_of_numpy_are_those_of_python(kind: Any, fields: dict[str, Any]) -> None:
    expected = kind(**fields)

    settings = kind(**of_numpy(fields))

    assert settings == expected
    assert types_in(settings) == types_in(expected)


def test_what_files_hold_of_them_is_json() -> None:
    limits = Limits(time_limit=np.float32(2), memory_limit=np.int32(1 << 28))
    problem = Problem("a", "b", time_limit_s=np.float32(2), memory_limit_mb=np.int64(256))
    sampling = SamplingSettings(temperature=np.float32(0.5), seed=np.uint64(3))
    sample = Sample("a", np.int64(1), "b", logprob=np.float32(-0.5))

    for record in (limits.described(), problem.to_json(), sampling.to_json(), sample.to_json()):
        assert json.loads(json.dumps(record)) == record


def test_recipes_take_them_at_any_depth() -> None:
    recipe = {**OF_A_RUN, "sampling": {"samples": np.int64(8), "top_p": np.float64(0.5)}}
    recipe["k"] = np.array([1, 2])

    settings = from_mapping(EvalRecipe, recipe, where="recipe")

    assert settings.sampling.samples == 8
    assert settings.k == (1, 2)


def test_mebibytes_of_32_bits_do_not_overflow() -> None:
    assert VerifierSettings(memory_limit_mb=np.int32(4096)).limits().memory_limit == 1 << 32


def test_a_verifier_takes_them() -> None:
    with Verifier(workers=np.int64(1), memory_limit=np.int64(1 << 29)) as verifier:
        limits = {"time_limit": np.float32(2), "memory_limit": np.int64(1 << 28)}
        assert verifier.verify("print(input())", [ECHO], **limits).reward == 1.0
        (output,) = verifier.run(["print(123)"], [""], most_characters=np.int64(2))[0]
        assert output.printed == "12"
        verdicts = verifier.verify_stream([("print(input())", [ECHO])], at_once=np.int64(1))
        assert [verdict.reward for _, verdict in verdicts] == [1.0]


def test_rewards_take_them() -> None:
    weights = [{"reward": "binary", "weight": np.float32(0.5)}, {"reward": "a:b", "timeout_s": 2}]
    assert [spec.weight for spec in read_spec(weights)] == [0.5, 1.0]

    reward = AnswerReward(workers=np.int64(1), timeout_s=np.float32(3))
    assert reward([], [r"\boxed{42}"], [np.int64(42)]) == [1.0]


def test_order_statistics_compute_with_doubles() -> None:
    quarter = np.float32(0.25)
    assert OrderWeights.quantile(quarter, of=np.int64(4)) == OrderWeights.quantile(0.25, of=4)
    assert OrderWeights.cvar(quarter, of=np.int64(8)) == OrderWeights.cvar(0.25, of=8)
    assert OrderWeights.harrell_davis(quarter, of=3) == OrderWeights.harrell_davis(0.25, of=3)
    assert OrderWeights.l_moment(np.int64(40)) == OrderWeights.l_moment(40)
    setting = {"credit": {"cvar": quarter, "of": np.int64(8)}, "baseline": "replace_one"}
    assert method_of(setting).credit == OrderWeights.cvar(0.25, of=8)


def test_the_power_of_a_test_takes_them() -> None:
    chances = np.array([0.25, 0.5, 0.75])
    expected = problems_needed(0.05, k=2, samples=8, chances=chances)
    needed = problems_needed(np.float64(0.05), k=np.int64(2), samples=np.int64(8), chances=chances)
    assert needed == expected


@pytest.mark.parametrize("value", [np.bool_(True), np.float64(2.0), np.complex128(2), np.int64(0)])
def test_a_number_that_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="stop_after_timeouts: must be an integer of 1 or more"):
        Limits(stop_after_timeouts=value)


def test_a_truth_value_is_no_number() -> None:
    with pytest.raises(ValueError, match="temperature: must be a number"):
        SamplingSettings(temperature=np.bool_(True))
