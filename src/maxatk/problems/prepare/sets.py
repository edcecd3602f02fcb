"""Settings of prepared problem files, as recipes and command lines give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.problems.benchmarks.base import DuplicateTests
from maxatk.problems.source import BadRows, Source, open_source
from maxatk.settings import from_mapping

_PARTS = 2  # a random split has at least so many


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Another data set whose problems are left out: its name, and where to read it.

    `splits` are those of the hub or of a folder (empty: all); `file` as in `PrepareSettings`, or
    a prepared problems.jsonl.
    """

    benchmark: str = "code_contests"
    file: str | None = None
    splits: list[str] = dataclasses.field(default_factory=list)
    revision: str | None = None

    def __post_init__(self) -> None:
        if self.benchmark != "code_contests":
            raise unknown_name("benchmark", self.benchmark, ["code_contests"])

    def sources(self) -> list[Source]:
        """Return what is read, one source a split."""
        if self.file is not None and not Path(self.file).is_dir():
            return [open_source(self.benchmark, file=self.file)]
        found = open_source(self.benchmark, file=self.file, revision=self.revision)
        splits = self.splits or found.benchmark.splits
        return [
            open_source(self.benchmark, split=name, file=self.file, revision=self.revision)
            for name in splits
        ]


@dataclasses.dataclass(frozen=True)
class PrepareSettings:
    """How one problems file is made of one benchmark.

    `benchmark`, `split`, `file`, `revision`, `options` and `limit` are those of `load_problems`.
    `max_prompt_tokens` leaves out longer prompts, counted by `tokenizer` (a model's folder or hub
    name) in its chat template. `max_solution_length` leaves out problems whose reference solution
    has more characters, or that have none: a rough measure of difficulty. `overlap` leaves out the
    problems another data set holds.
    `duplicate_tests` "drop" keeps each test of a problem once. `bad_rows` "leave_out" leaves out
    rows without the schema instead of stopping. `parts` (name -> weight) splits the problems at
    random by `seed`, in proportion to the weights.
    """

    benchmark: str
    split: str | None = None
    file: str | None = None
    revision: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    limit: int | None = None
    tokenizer: str | None = None
    max_prompt_tokens: int | None = None
    max_solution_length: int | None = None
    overlap: Overlap | None = None
    duplicate_tests: DuplicateTests = "drop"
    bad_rows: BadRows = "stop"
    parts: dict[str, int] = dataclasses.field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("limit", "max_prompt_tokens", "max_solution_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValueError(f"{name}: must be at least 1, got {value}")
        if self.max_prompt_tokens is not None and self.tokenizer is None:
            raise InvalidValueError(
                "tokenizer: is needed to count max_prompt_tokens; name the policy's model"
            )
        if self.overlap is not None and self.benchmark != "codeforces":
            raise InvalidValueError(
                f"overlap: is for codeforces, whose ids other data sets share; got benchmark="
                f"{self.benchmark!r}"
            )
        _check_parts(self.parts)

    def source(self) -> Source:
        """Return the benchmark's source; the errors are those of `open_source`."""
        return open_source(
            self.benchmark,
            split=self.split,
            file=self.file,
            revision=self.revision,
            options=self.options,
        )


def read_sets(recipe: Mapping[str, Any]) -> dict[str, PrepareSettings]:
    """Return the settings of every set of a recipe: a mapping with the key `sets`.

    `tokenizer` and `seed` beside `sets` hold for the sets that have none of their own. Raises
    InvalidValueError naming the key, the value and what is allowed.
    """
    shared = from_mapping(_DataRecipe, recipe, where="recipe")
    if not shared.sets:
        raise InvalidValueError("recipe.sets: must name at least one set")
    found = {}
    for name, settings in shared.sets.items():
        where = f"recipe.sets.{name}"
        if not isinstance(settings, Mapping):
            raise InvalidValueError(f"{where}: must be a mapping of settings, got {settings!r}")
        given = {"tokenizer": shared.tokenizer, "seed": shared.seed, **settings}
        found[str(name)] = from_mapping(PrepareSettings, given, where=where)
    return found


@dataclasses.dataclass(frozen=True)
class _DataRecipe:
    sets: dict[str, Any]
    tokenizer: str | None = None
    seed: int = 0


def _check_parts(parts: Mapping[str, Any]) -> None:
    if parts and len(parts) < _PARTS:
        raise InvalidValueError(f"parts: must be two or more, got {sorted(parts)}")
    for name, weight in parts.items():
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise InvalidValueError(f"parts.{name}: must be a positive number, got {weight!r}")
        if not str(name).replace("_", "").replace("-", "").isalnum():
            raise InvalidValueError(f"parts: {name!r} must be a word, it names a file")
