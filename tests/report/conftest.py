import json

import numpy as np
import pytest

from chromium import browser, lone_browser  # noqa: F401
from maxatk.evaluation.build_results import build_results
from maxatk.records import Outcome, Sample, Score

PROBLEMS = 30
IDS = [f"p<{i}>" for i in range(PROBLEMS)]


def make_results(seed, easy, hard, *, samples=128, ids=IDS, entropy=True, unscored=0):
    """Results of a model that solves problem i's samples with chance `easy` or `hard`."""
    draw = np.random.default_rng(seed)
    scores = []
    texts = []
    for number, problem_id in enumerate(ids):
        chance = easy if number % 2 else hard
        for index in range(samples):
            right = bool(draw.random() < chance)
            if right:
                reward = 1.0
            elif draw.random() < 0.3:
                reward = 0.5
            else:
                reward = 0.0
            outcome = Outcome.PASSED if right else Outcome.WRONG_ANSWER
            if number == 0 and index < unscored:
                reward = None
                outcome = Outcome.INFRA_ERROR
            scores.append(Score(problem_id, index, reward, 0, 2, outcome, 0.0))
            nats = float(draw.gamma(2.0)) if entropy else None
            texts.append(Sample(problem_id, index, str(index % 50), tokens=5, entropy=nats))
    manifest = {
        "settings": {
            "model": {"model": f"runs/{seed}"},
            "sampling": {"samples": samples},
            "problems": {"sha256": str(len(ids)), "count": len(ids)},
        },
        "seconds": 1.0,
    }
    results = build_results(ids, texts, scores, manifest=manifest)
    return json.loads(json.dumps(results.to_json()))


@pytest.fixture(scope="session")
def results():
    """The base is even; "sharp" wins at k=1 and loses at k=128; "same" is a second base."""
    return {
        "sharp": make_results(1, 0.5, 0.0),
        "base": make_results(2, 0.05, 0.02),
        "same": make_results(3, 0.05, 0.02),
    }


@pytest.fixture(scope="session")
def make():
    return make_results
