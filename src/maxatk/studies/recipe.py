"""The recipe of a study: which models it has, and how they are trained and evaluated."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import is_whole, require
from maxatk.errors import InvalidValueError
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.mini import MiniSettings
from maxatk.python_numbers import use_python_numbers
from maxatk.report.comparison import BASE, DEFAULT_KS
from maxatk.settings import apply_overrides, from_mapping, located, read_extended
from maxatk.statistics.intervals import check_ks
from maxatk.studies.variants import Variant, pairs_of, variants_of

TRAININGS = ("train", "distill")  # the commands that train, in their order
WORK = "work"  # the folder of the stages in that of the results, where no other is named
_SEEDS_BELOW = 1 << 32  # NumPy's generators, by which the trainer is seeded, take no larger one
_SEED_IN_PATHS = "{seed}"
# Keys of the recipes of commands that the study fills in: where the problems are those of the
# built-in model, the last one too.
_FILLED_IN = ("model", "out")
_FILLED_IN_WITH_PROBLEMS = (*_FILLED_IN, "problems")


@dataclasses.dataclass(frozen=True)
class FrontSettings:
    """How the front of a study is made: see `maxatk.studies.front`.

    Args:
        rivals: The levels of the first axis against whose front that of the other levels is held.
        ks: The N of max@N; those that the samples allow are taken.
        choose: Keys of `eval` that are others in the evaluation by which rate and checkpoint are
            chosen, such as `problems`. Without it they are chosen on the other seeds alone.
    """

    rivals: list[str]
    ks: list[int] = dataclasses.field(default_factory=lambda: [8, 32, 128])
    choose: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self)
        _check_ks("front.ks", self.ks, least=2)


@dataclasses.dataclass(frozen=True)
class StudyRecipe:
    """The keys of a study's recipe.

    Args:
        title: Of the page.
        out: The folder that gets tables, figures and the page.
        seeds: Of training and sampling, and of the built-in model with its problems.
        eval: The recipe of `maxatk eval` without `model` and `out`.
        grids: Each maps axes to levels, of which all combinations are models, and a level to the
            keys of `train` that it changes. A key such as `eval.sampling.temperature` changes how a
            model is sampled; models that differ by such keys alone share one training.
        train: The recipe of `maxatk train` without `model` and `out`. Its key `distill` is the
            recipe of `maxatk distill` without `model`, `problems` and `out`: a model whose
            `distill.k` is set is distilled after its training, or in place of one with
            `trainer.max_steps` 0. Without it nothing is trained, and levels change the sampling.
        model: A local folder or a hub name; then `train` and `eval` name their `problems`. `{seed}`
            in any of these paths stands for the seed, so that each has a model or problems of its
            own.
        mini: In place of `model`: the settings of the built-in model, which brings its problems.
        work: The folder of recipes, models and evaluations, which studies share where their
            settings are the same; the folder `work` in `out` if not given.
        baseline: The model that the others are compared to.
        pairs: Two levels each, tested against each other where all other levels are the same; or
            the names of two models.
        ks: The k at which models are tested; the largest that the samples allow in place of a
            larger one.
        checkpoints: The optimizer steps after which every training is evaluated, which makes them
            the axis `steps`. The last is the end of the training.
        front: How the best rate and checkpoint of every method are chosen and compared.
    """

    title: str
    out: str
    seeds: list[int]
    eval: dict[str, Any]
    grids: list[dict[str, Any]]
    train: dict[str, Any] | None = None
    model: str | None = None
    mini: MiniSettings | None = None
    work: str | None = None
    baseline: str = BASE
    pairs: list[list[str]] = dataclasses.field(default_factory=list)
    ks: list[int] = dataclasses.field(default_factory=lambda: list(DEFAULT_KS))
    checkpoints: list[int] = dataclasses.field(default_factory=list)
    front: FrontSettings | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self)
        if (self.model is None) == (self.mini is None):
            raise InvalidValueError("recipe: must have either 'model' or 'mini'")
        self._check_numbers()
        self._check_folders()
        self._check_sections()
        self._check_front()
        self._check_names()

    def _check_numbers(self) -> None:
        ascending = all(is_whole(step, 1) for step in self.checkpoints)
        ascending = ascending and sorted(set(self.checkpoints)) == self.checkpoints
        require(ascending, "checkpoints", "optimizer steps in ascending order", self.checkpoints)
        if self.checkpoints and self.train is None:
            raise InvalidValueError("checkpoints: the recipe has no section 'train'")
        different = 0 < len(self.seeds) == len(set(self.seeds))
        in_range = all(0 <= seed < _SEEDS_BELOW for seed in self.seeds)
        allowed = f"different whole numbers from 0, below {_SEEDS_BELOW}"
        require(different and in_range, "seeds", allowed, self.seeds)
        if self.mini is not None and self.mini.seed != MiniSettings.seed:
            raise InvalidValueError("mini.seed: is that of 'seeds'; leave it out")
        _check_ks("ks", self.ks, least=1)

    def _check_folders(self) -> None:
        out = Path(self.out).resolve()
        if self.work is not None and Path(self.work).resolve() in (out, *out.parents):
            raise InvalidValueError(
                f"work: must not be 'out', {self.out!r}, nor hold it, got {self.work!r}"
            )

    def _check_sections(self) -> None:
        self._check_section(self.eval, "eval")
        self.eval_recipe(seed=0)
        if self.train is not None:
            self._check_section(self.train, "train")
        for model in self.variants[1:]:
            if model.train is not None:
                self._check_section(model.train, model.name)
            self.eval_recipe(seed=0, sampling=model.sampling)

    def _check_names(self) -> None:
        names = [model.name for model in self.variants]
        if len(names) < 2:
            raise InvalidValueError("grids: must hold a model beside the base, got none")
        require(self.baseline in names, "baseline", f"one of {', '.join(names)}", self.baseline)
        self.paired_names()

    @functools.cached_property
    def variants(self) -> list[Variant]:
        """The models, the base first; raises as `variants_of`."""
        return variants_of(self.grids, self.train, self.checkpoints)

    def paired_names(self) -> list[tuple[str, str]]:
        """Return the names of the models of `pairs`; raises InvalidValueError for one of none."""
        return pairs_of(self.pairs, self.variants)

    @property
    def work_folder(self) -> Path:
        """The folder of recipes, models and evaluations."""
        return Path(self.out) / WORK if self.work is None else Path(self.work)

    def model_of(self, seed: int) -> str:
        """Return the model from which the trainings of a seed start, where it is named."""
        assert self.model is not None
        return str(_of_seed(self.model, seed))

    def trainings(self, model: Variant, *, seed: int) -> dict[str, dict[str, Any]]:
        """Return the recipes of the commands that make a model; what is filled in is empty."""
        if model.train is None:
            return {}
        section = dict(model.train)
        problems = _of_seed(section.pop("problems", None), seed)
        distill = dict(section.pop("distill", {}))
        recipes: dict[str, dict[str, Any]] = {}
        if section.get("trainer", {}).get("max_steps") != 0:
            recipes["train"] = section
        if "k" in distill:
            samples = _seeded(distill.get("eval", {}), "sampling", seed)
            recipes["distill"] = {**distill, "eval": samples}
        if self.checkpoints:
            if not recipes:
                raise InvalidValueError(f"checkpoints: the model {model.name!r} is not trained")
            *_, command = recipes  # the last, whose steps the checkpoints count
            recipes[command] = self._saving(recipes[command])
        return {
            command: _seeded(
                {"model": "", "problems": problems, "out": "", **recipe}, "trainer", seed
            )
            for command, recipe in recipes.items()
        }

    def _saving(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recipe of a training that ends at the last checkpoint and keeps all of them.

        Raises InvalidValueError where it has other steps.
        """
        trainer = recipe.get("trainer", {})
        last = self.checkpoints[-1]
        steps = trainer.get("max_steps", last)
        require(steps == last, "trainer.max_steps", f"{last}, the last of checkpoints", steps)
        saved = {
            "max_steps": last,
            "save_strategy": "steps",
            "save_steps": math.gcd(*self.checkpoints),
            "save_total_limit": None,
        }
        return {**recipe, "trainer": {**trainer, **saved}}

    def eval_recipe(
        self, *, seed: int, choosing: bool = False, sampling: Mapping[str, Any] | None = None
    ) -> EvalRecipe:
        """Return the recipe of `maxatk eval`, model and folder empty; raises as `from_mapping`.

        With `choosing` it is that of the evaluation by which the front is chosen. `sampling` are
        keys of `sampling` that are others, those of a Variant.
        """
        section = copy.deepcopy(self.eval)
        where = "recipe.eval"
        if choosing:
            assert self.front is not None
            section.update(self.front.choose or {})
            where = "recipe.front.choose"
        problems = _of_seed(section["problems"], seed) if self.mini is None else "test.jsonl"
        if sampling:
            section["sampling"] = {**section.get("sampling", {}), **sampling}
        filled = _seeded(section, "sampling", seed)
        filled.update(problems=problems, model="", out="")
        recipe = from_mapping(EvalRecipe, filled, where=where)
        try:
            check_ks(recipe.k, recipe.sampling.samples)
        except InvalidValueError as error:
            raise located(error, where=where, fields=("k",)) from error
        require(recipe.shard is None, f"{where}.shard", "left out of a study", recipe.shard)
        return recipe

    @property
    def chooses_on_problems(self) -> bool:
        """Whether the models of the front are chosen by an evaluation of their own."""
        return self.front is not None and self.front.choose is not None

    def _check_front(self) -> None:
        if self.front is None:
            return
        firsts = [model.method for model in self.variants[1:]]
        for rival in self.front.rivals:
            require(
                rival in firsts, "front.rivals", f"of {', '.join(dict.fromkeys(firsts))}", rival
            )
        allowed = "the levels of some methods, and not of all"
        leaves_methods = 0 < len(set(self.front.rivals)) < len(set(firsts))
        require(leaves_methods, "front.rivals", allowed, self.front.rivals)
        if self.front.choose is None:
            return
        if self.mini is not None:
            raise InvalidValueError(
                "front.choose: goes with 'model'; each seed of 'mini' has problems of its own"
            )
        _refuse_filled_in(self.front.choose, _FILLED_IN, "front.choose")
        _check_problems({**self.eval, **self.front.choose}["problems"], "front.choose")
        self.eval_recipe(seed=0, choosing=True)

    def _check_section(self, section: Mapping[str, Any], where: str) -> None:
        """Refuse keys that the study fills in, and seeds, in the section of a command."""
        if self.mini is None:
            if "problems" not in section:
                raise InvalidValueError(f"{where}: the key 'problems' is required beside 'model'")
            _check_problems(section["problems"], where)
        distill = section.get("distill", {})
        require(isinstance(distill, Mapping), f"{where}.distill", "a mapping", distill)
        # The problems of another model than the built-in one are the section's own.
        filled_in = _FILLED_IN if self.mini is None else _FILLED_IN_WITH_PROBLEMS
        _refuse_filled_in(section, filled_in, where)
        _refuse_filled_in(distill, _FILLED_IN_WITH_PROBLEMS, f"{where}.distill")
        samples = distill.get("eval", {})
        require(isinstance(samples, Mapping), f"{where}.distill.eval", "a mapping", samples)
        _refuse_filled_in(samples, (), f"{where}.distill.eval")


def _check_ks(field: str, ks: Sequence[int], *, least: int) -> None:
    fits = len(ks) > 0 and all(is_whole(k, least) for k in ks)
    # A test that is made twice would count twice in the correction for all tests.
    different = fits and len(set(ks)) == len(ks)
    require(different, field, f"different whole numbers from {least}", ks)


def _check_problems(problems: object, where: str) -> None:
    is_name = isinstance(problems, str) and problems != ""
    require(is_name, f"{where}.problems", "a benchmark's name or the path of a file", problems)


def _refuse_filled_in(section: Mapping[str, Any], filled_in: Sequence[str], where: str) -> None:
    for key in filled_in:
        if key in section:
            raise InvalidValueError(f"{where}.{key}: is set by the study itself; leave it out")
    for name in ("trainer", "sampling"):
        settings = section.get(name, {})
        require(isinstance(settings, Mapping), f"{where}.{name}", "a mapping", settings)
        if "seed" in settings:
            raise InvalidValueError(f"{where}.{name}.seed: is that of 'seeds'; leave it out")


def _seeded(recipe: Mapping[str, Any], section: str, seed: int) -> dict[str, Any]:
    return {**recipe, section: {**recipe.get(section, {}), "seed": seed}}


def _of_seed(path: Any, seed: int) -> Any:
    """Return a path of the recipe for one of its seeds; what is no text is refused elsewhere."""
    return path.replace(_SEED_IN_PATHS, str(seed)) if isinstance(path, str) else path


def load_study(path: Path, overrides: Sequence[str] = ()) -> StudyRecipe:
    """Return the study of a recipe file; raises as `read_extended` and `from_mapping`."""
    settings = apply_overrides(read_extended(path), overrides)
    return from_mapping(StudyRecipe, settings, where="recipe")
