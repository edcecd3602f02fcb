"""What a run is to be: the recipes of `evaluate` and `score`, whose keys are those of commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import as_path, is_finite, require, several, whole
from maxatk.evaluation.scoring import BY_TESTS
from maxatk.evaluation.shards import Shard
from maxatk.python_numbers import use_python_numbers
from maxatk.records import Problem
from maxatk.rewards import read_spec
from maxatk.sampling import ModelSettings, SamplingSettings
from maxatk.verifier import VerifierSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecipe:
    """What every run is told, wherever its samples come from.

    Args:
        problems: A benchmark's name, a problems.jsonl, or problems.
        out: Folder for samples.jsonl, scores.jsonl and results.json.
        limit: Take only the first problems.
        shard: Take the third of sixteen slices of the problems with 3/16, into out/3-of-16; `merge`
            joins them.
        reward: continuous (the share of tests that passed), binary, answer, module:function,
            file.py:function, {model: name}, or a list of such with weights.
        k: Which k to show, from 1 to the samples of a problem; 1, 8, 32 and 128, as far as there
            are samples, if none is given. The results have 1, 2, 4, ... beside them.
        by: A field of the problems' meta: also show the results by its values.
        threshold: The reward from which a sample passes.
        verifier: Its workers and limits.
    """

    problems: str | Path | Sequence[Problem]
    out: str | Path
    limit: int | None = None
    shard: str | None = None
    reward: Any = BY_TESTS
    k: tuple[int, ...] = ()
    by: str | None = None
    threshold: float = 1.0
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)

    def __post_init__(self) -> None:
        use_python_numbers(self, "limit", "k", "threshold", "reward")
        several("k", self.k, "integers")
        is_verifier = isinstance(self.verifier, VerifierSettings)
        require(is_verifier, "verifier", "VerifierSettings", self.verifier)
        read_spec(self.reward)
        require(is_finite(self.threshold), "threshold", "a finite number", self.threshold)
        if self.limit is not None:
            whole("limit", self.limit, 1)
        if self.shard is not None:
            Shard.read(self.shard)

    @property
    def folder(self) -> Path:
        """The folder for the files of the run: `out`, or that of the shard inside it."""
        out = as_path("out", self.out)  # empty text would be the current folder
        return out if self.shard is None else out / Shard.read(self.shard).folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalRecipe(ModelSettings, RunRecipe):
    """A run that draws its samples: the keys of `RunRecipe` and of `ModelSettings`, and three more.

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        sampling: How completions are sampled.
        map: Where the fields of problems are, as prompt=COLUMN tests=path.to.cases, for `problems`
            in a table of any other form; `maxatk problems prepare table` takes the same.
    """

    model: str
    sampling: SamplingSettings = dataclasses.field(default_factory=SamplingSettings)
    map: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        is_sampling = isinstance(self.sampling, SamplingSettings)
        require(is_sampling, "sampling", "SamplingSettings", self.sampling)
        several("map", self.map, "texts such as prompt=COLUMN")
        ModelSettings.__post_init__(self)
        RunRecipe.__post_init__(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreRecipe(RunRecipe):
    """A run whose samples are in a file: the keys of `RunRecipe`, and three more.

    Args:
        samples: The file, ours or another tool's.
        format: Which tool wrote it, as in `read_submissions`.
        map: Where a field is in a row, as in `read_submissions`.
    """

    samples: str | Path
    format: str | None = None
    map: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        as_path("samples", self.samples)
        require(isinstance(self.map, Mapping), "map", "a mapping of fields to paths", self.map)
        RunRecipe.__post_init__(self)
