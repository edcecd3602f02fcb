"""The recipe of a study: where its models come from, and how they are trained and evaluated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from maxatk.errors import InvalidValueError
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.mini import MiniSettings
from maxatk.settings import apply_overrides, from_mapping, read_extended
from maxatk.studies.grids import BASE, Variant, paired_names, variants

FigureName = Literal["metric", "entropy", "drift", "heat_map"]
_FILLED_IN = ("model", "out")  # of the recipes of `train` and `eval`


@dataclasses.dataclass(frozen=True)
class StageCosts:
    """Seconds of the parts of a study, for the estimate of a plan before any has finished.

    `rollout_batch` and `optimizer_step` are those of one of a training, `start` what every training
    takes besides, `evaluation` those of one model. The defaults are those of the built-in model on
    two cores at 2.5 GHz with three stages at once.
    """

    warm_start: float = 120.0
    start: float = 15.0
    rollout_batch: float = 0.6
    optimizer_step: float = 0.17
    evaluation: float = 130.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise InvalidValueError(f"costs.{name}: must be positive, got {value!r}")


@dataclasses.dataclass(frozen=True)
class StudyRecipe:
    """The keys of a study's recipe.

    Args:
        title: Of the page.
        out: The folder that gets tables, figures and the page.
        seeds: Each changes the seeds of training and sampling, and the built-in model with its
            problems.
        train: The recipe of `maxatk train` without `model` and `out`.
        eval: The recipe of `maxatk eval` without `model` and `out`.
        grids: Lists of models. Each grid maps axes to levels, and a level to the keys of `train`
            that it changes; its models are all combinations of levels.
        model: The model that is trained: a local folder or a hub name. `train` and `eval` name
            their `problems`.
        mini: In place of `model`: the settings of the built-in model, which brings its problems.
        work: The folder of recipes, models and evaluations, which studies share where their
            settings are the same; the folder `work` in `out` if not given.
        baseline: The model that the others are compared to.
        pairs: Two levels each, of one axis, that are tested against each other wherever all other
            levels are the same.
        figures: The figures that are drawn.
        costs: Seconds, for the estimate of the time; known by itself for the built-in model.
    """

    title: str
    out: str
    seeds: list[int]
    train: dict[str, Any]
    eval: dict[str, Any]
    grids: list[dict[str, Any]]
    model: str | None = None
    mini: MiniSettings | None = None
    work: str | None = None
    baseline: str = BASE
    pairs: list[list[str]] = dataclasses.field(default_factory=list)
    figures: list[FigureName] = dataclasses.field(default_factory=lambda: ["metric", "entropy"])
    costs: StageCosts | None = None

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InvalidValueError(f"seeds: must be different numbers, got {self.seeds!r}")
        if (self.model is None) == (self.mini is None):
            raise InvalidValueError("recipe: must have either 'model' or 'mini'")
        self._check_section(self.eval, "eval")
        self._check_section(self.train, "train")
        models = self.variants
        for model in models:
            if model.train is not None:
                self._check_section(model.train, model.name)
        self.eval_recipe(model="", out="", seed=0)
        names = [model.name for model in models]
        if self.baseline not in names:
            raise InvalidValueError(
                f"baseline: must be one of {', '.join(names)}; got {self.baseline!r}"
            )
        paired_names(models, self.pairs)

    @property
    def variants(self) -> list[Variant]:
        """The models, the base first."""
        return variants(self.train, self.grids)

    @property
    def work_folder(self) -> Path:
        """The folder of recipes, models and evaluations."""
        return Path(self.out) / "work" if self.work is None else Path(self.work)

    @property
    def known_costs(self) -> StageCosts | None:
        """The costs, None where nobody knows them: of a model that is not the built-in one."""
        return StageCosts() if self.costs is None and self.mini is not None else self.costs

    def train_recipe(
        self, model: Variant, *, start: str, out: str, seed: int, mini: Path | None = None
    ) -> dict[str, Any]:
        """Return the recipe of `maxatk train` for a model that is trained.

        `start` is the model before the training, `mini` the folder of the built-in problems.
        """
        section = dict(model.train or {})
        problems = section.pop("problems", None) if mini is None else str(mini / "train.jsonl")
        trainer = {**section.pop("trainer", {}), "seed": seed}
        return {"model": start, "problems": problems, "out": out, **section, "trainer": trainer}

    def eval_recipe(
        self, *, model: str, out: str, seed: int, mini: Path | None = None
    ) -> EvalRecipe:
        """Return the recipe of `maxatk eval` for a model.

        Raises InvalidValueError for settings that are not allowed.
        """
        problems = {} if self.mini is None else {"problems": str((mini or Path()) / "test.jsonl")}
        filled = {**self.eval, **problems, "model": model, "out": out}
        found = from_mapping(EvalRecipe, filled, where="recipe.eval")
        return dataclasses.replace(found, sampling=dataclasses.replace(found.sampling, seed=seed))

    def _check_section(self, section: Mapping[str, Any], where: str) -> None:
        filled_in = _FILLED_IN if self.mini is None else (*_FILLED_IN, "problems")
        for key in filled_in:
            if key in section:
                raise InvalidValueError(f"{where}.{key}: is set by the study itself; leave it out")
        for name in ("trainer", "sampling"):
            inner = section.get(name, {})
            if not isinstance(inner, Mapping):
                raise InvalidValueError(f"{where}.{name}: must be a mapping, got {inner!r}")
            if "seed" in inner:
                raise InvalidValueError(f"{where}.{name}.seed: is that of 'seeds'; leave it out")
        if self.mini is None and "problems" not in section:
            raise InvalidValueError(f"{where}: the key 'problems' is required beside 'model'")


def load_study(path: Path, overrides: Sequence[str] = ()) -> StudyRecipe:
    """Return the study of a recipe file, laid over the recipe it extends.

    Raises InvalidValueError for a recipe that extends itself, and as `read_recipe` and
    `from_mapping`.
    """
    settings = apply_overrides(read_extended(path), overrides)
    return from_mapping(StudyRecipe, settings, where="recipe")
