"""The recipe of the command `eval`: the one description of an evaluation run."""

from __future__ import annotations

import dataclasses
from typing import Any

from maxatk.evaluation import ModelSettings, SamplingSettings
from maxatk.evaluation.failures import STORED, check_stored
from maxatk.evaluation.folder import check_label
from maxatk.evaluation.statistics.intervals import check_threshold
from maxatk.rewards import read_spec
from maxatk.verifier import VerifierSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalRecipe(ModelSettings):
    """What `maxatk eval` needs: the keys of its recipe, those of `ModelSettings` included.

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for samples.jsonl, scores.jsonl and results.json.
        label: The name of the run in tables and reports; that of its folder if none is given.
        limit: Take only the first problems.
        reward: continuous (the share of tests that passed), binary, answer, module:function,
            file.py:function, {model: name}, or a list of such with weights.
        threshold: The reward from which a sample passes.
        store_failures: Of how many failed samples of a problem the failed test, what it expected
            and what came are kept for the report's page; 0 to 1,000.
        sampling: How completions are sampled.
        verifier: Its workers and limits.
    """

    model: str
    problems: str
    out: str
    label: str | None = None
    limit: int | None = None
    reward: Any = "continuous"
    threshold: float = 1.0
    store_failures: int = STORED
    sampling: SamplingSettings = dataclasses.field(default_factory=SamplingSettings)
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        read_spec(self.reward)
        check_label(self.label)
        check_threshold(self.threshold)
        check_stored(self.store_failures)

    @property
    def model_settings(self) -> ModelSettings:
        """Return how the model is run."""
        fields = dataclasses.fields(ModelSettings)
        return ModelSettings(**{field.name: getattr(self, field.name) for field in fields})

    def to_mapping(self) -> dict[str, Any]:
        """Return the recipe as a mapping of all its keys, those without a default first."""
        settings = dataclasses.asdict(self)
        required = ("model", "problems", "out")
        return {**{name: settings[name] for name in required}, **settings}
