"""Bring what the studies found into the documents: results, tables, figures, and tables in pages.

    python docs/fill.py [runs/study] [--tables FOLDER]

Draws docs/weighting.svg, copies results.json, problems.csv and the SVG figures of every finished
study to docs/study/NAME, and writes there the tables to which a page links. With --tables every
table of every study goes to FOLDER/NAME too, as Markdown, CSV and LaTeX. Every place of a page that
is marked like this is filled from the results:

    <!-- study: table2/scores -->
    <!-- end of study -->

A place of seeds is filled from the evaluations of single models and seeds, which lie with their
values of every problem in docs/study/NAME/evaluations/MODEL_SEED.json. It names studies of one
design over the same problems. It may name a study whose base.json is the model before training of
every seed, and a study to whose problems the table keeps, or not:

    <!-- seeds: smollm2_hidden_long_2 smollm2_hidden_long_3 -->
    <!-- end of seeds -->
    <!-- seeds: smollm2_128; base: smollm2_base -->
    <!-- end of seeds -->
    <!-- seeds: smollm2_all; problems: not smollm2_hidden_long_2 -->
    <!-- end of seeds -->

A place of the best has each method at the best of several studies of the same problems, which
differ in a setting such as the learning rate, on the seeds that all of them have. That of a seed is
chosen on the other seeds:

    <!-- best: smollm2_all smollm2_all_half_rate -->
    <!-- end of best -->
"""

import argparse
import itertools
import json
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from maxatk.check import require
from maxatk.evaluation.problem_groups import only_problems
from maxatk.evaluation.results import Results, read_results
from maxatk.report import tables
from maxatk.report.figure_style import STYLE
from maxatk.report.figures import plot
from maxatk.report.table_formats import format_table
from maxatk.report.tables import Cell, Table
from maxatk.statistics.intervals import FloatArray, Interval, student_mean
from maxatk.statistics.significance import (
    FEWEST_SEEDS,
    over_seeds_and_problems,
    variance_of_shared_choices,
)
from maxatk.studies.findings import Study
from maxatk.studies.findings_tables import study_tables, write_tables
from maxatk.studies.problem_values import PROBLEM_VALUES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "study"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_STUDY_PLACE = re.compile(
    r"(?P<start><!-- study: (?P<study>\w+)/(?P<table>\w+) -->\n).*?(?P<end><!-- end of study -->)",
    re.DOTALL,
)
_SEEDS_PLACE = re.compile(
    r"(?P<start><!-- seeds: (?P<studies>[\w ]+)(; base: (?P<base>\w+))?"
    r"(; problems: (?P<without>not )?(?P<chosen>\w+))? -->\n).*?(?P<end><!-- end of seeds -->)",
    re.DOTALL,
)
_BEST_PLACE = re.compile(
    r"(?P<start><!-- best: (?P<studies>[\w ]+) -->\n).*?(?P<end><!-- end of best -->)", re.DOTALL
)
_LINK = re.compile(r"\]\((?:docs/)?study/(?P<study>\w+)/(?P<table>\w+)\.md\)")
_WIDTH = 118  # of a line of a page
_SHOWN_KS = (1, 8, 32, 128)
_WITH_INTERVALS = ("scores", "max_at_k", "pass_at_k")  # tables whose means have one
_OF_FRONT = ("front", "beyond")
_WEIGHED = ["rloo", "grpo", "bon_loo1", "bon_mean", "pass_at_k_training"]
_MODELS = ("base", "grpo", "bon_loo1")  # the order of their rows; others follow
Evaluations: TypeAlias = Mapping[str, Mapping[int, Results]]  # by model and seed


def load(name: str) -> Study:
    """Return the committed study of that name."""
    return Study.from_json(json.loads((DOCS / name / "results.json").read_text(encoding="utf-8")))


def load_evaluations(names: Sequence[str]) -> Evaluations:
    """Return the committed evaluations of studies of one design, by model and seed."""
    evaluations: dict[str, dict[int, Results]] = {}
    for name in names:
        for path in sorted((DOCS / name / "evaluations").glob("*.json")):
            model, _, number = path.stem.rpartition("_")
            by_seed = evaluations.setdefault(model, {})
            seed = int(number)
            require(seed not in by_seed, "studies", f"without seed {seed} of {model} twice", names)
            by_seed[seed] = read_results(path)
    first = [model for model in _MODELS if model in evaluations]
    other_models = [model for model in evaluations if model not in _MODELS]
    return {model: evaluations[model] for model in [*first, *other_models]}


def with_base(evaluations: Evaluations, base: Results) -> Evaluations:
    """Return evaluations of trained models beside that of the model before training."""
    seeds = next(iter(evaluations.values()))
    return {"base": dict.fromkeys(seeds, base), **evaluations}


def problems_of(name: str) -> set[str]:
    """Return the ids of the problems on which the models of a study were evaluated."""
    path = next((DOCS / name / "evaluations").glob("*.json"))
    return set(read_results(path).ids)


def filled(text: str) -> str:
    """Return a page with every marked place filled from the committed results."""

    def table_of_study(place: re.Match[str]) -> str:
        study = load(place["study"])
        table = format_table(study_tables(study)[place["table"]], "md")
        return f"{place['start']}{table}\n{caption_of_study(study, place['table'])}\n{place['end']}"

    def seeds(place: re.Match[str]) -> str:
        evaluations = load_evaluations(place["studies"].split())
        if place["base"] is not None:
            evaluations = with_base(evaluations, read_results(DOCS / place["base"] / "base.json"))
        if place["chosen"] is not None:
            inside = place["without"] is None
            evaluations = over_problems(evaluations, problems_of(place["chosen"]), inside=inside)
        table = format_table(table_of_seeds(evaluations), "md")
        return f"{place['start']}{table}\n{caption(evaluations)}\n{place['end']}"

    def best(place: re.Match[str]) -> str:
        studies = place["studies"].split()
        arms = of_shared_seeds({name: load_evaluations([name]) for name in studies})
        table = format_table(table_of_best(arms), "md")
        return f"{place['start']}{table}\n{caption_of_best(arms)}\n{place['end']}"

    text = _STUDY_PLACE.sub(table_of_study, text)
    return _BEST_PLACE.sub(best, _SEEDS_PLACE.sub(seeds, text))


def over_problems(evaluations: Evaluations, problems: set[str], *, inside: bool) -> Evaluations:
    """Return evaluations on those of their problems that are, or are not, among `problems`."""
    return {
        model: {
            seed: only_problems(results, [i for i in results.ids if (i in problems) == inside])
            for seed, results in by_seed.items()
        }
        for model, by_seed in evaluations.items()
    }


def table_of_seeds(evaluations: Evaluations) -> Table:
    """Return max@k of every model over seeds that share their problems, and of every difference.

    Raises InvalidValueError for models of other seeds or problems.
    """
    _require_one_design([evaluations])
    ks = _ks_of(evaluations)
    values = {
        model: np.array([_values(of_seed, ks) for of_seed in by_seed.values()])
        for model, by_seed in evaluations.items()
    }
    return _table_of_values(values, ks)


def _require_one_design(arms: Sequence[Evaluations]) -> None:
    """Refuse other seeds or problems: values are paired by their places in the tables."""
    models = [by_seed for arm in arms for by_seed in arm.values()]
    seeds = {tuple(by_seed) for by_seed in models}
    problems = {results.ids for by_seed in models for results in by_seed.values()}
    require(len(seeds) == 1, "evaluations", "of the same seeds for every model", sorted(seeds))
    require(len(problems) == 1, "evaluations", "over the same problems", f"{len(problems)} sets")


def _ks_of(evaluations: Evaluations) -> list[int]:
    """Return the k that a table shows, which all of the evaluations have."""
    results = [of_seed for by_seed in evaluations.values() for of_seed in by_seed.values()]
    return [k for k in _SHOWN_KS if all(k in of_seed.ks for of_seed in results)]


def _table_of_values(
    values: Mapping[str, FloatArray], ks: Sequence[int], *, variance_factor: float = 1.0
) -> Table:
    """Return a row for each model, of values (S, P, K), and one for each difference of two.

    The intervals take the variance of the seeds times `variance_factor`.
    """
    rows = []
    for model, of_model in values.items():
        cells = _cells(
            interval_of(of_model, variance_factor=variance_factor), tables.three_decimals
        )
        rows.append([model, *cells])
    for second, first in itertools.combinations(values, 2):
        difference = interval_of(values[first] - values[second], variance_factor=variance_factor)
        rows.append([f"{first} − {second}", *_cells(difference, tables.change)])
    return tables.table_of_rows(["model", *(f"max@{k}" for k in ks)], rows)


def of_shared_seeds(arms: Mapping[str, Evaluations]) -> dict[str, Evaluations]:
    """Return the arms with the seeds that every model of every arm has."""
    seeds = [set(by_seed) for arm in arms.values() for by_seed in arm.values()]
    shared = set.intersection(*seeds)
    return {
        name: {
            model: {seed: results for seed, results in by_seed.items() if seed in shared}
            for model, by_seed in arm.items()
        }
        for name, arm in arms.items()
    }


def table_of_best(arms: Mapping[str, Evaluations]) -> Table:
    """Return max@k of each method at the best of several arms, and of their differences.

    The arm of a seed is the one whose mean over the other seeds is highest at this k, so that no
    value has a part in the choice of its own arm; the intervals are those of seeds that choose for
    one another. Raises as `table_of_seeds`, and for a single seed.
    """
    _require_one_design(list(arms.values()))
    first = next(iter(arms.values()))
    seeds = len(next(iter(first.values())))
    ks = _ks_of(first)
    values = {}
    for model in [name for name in first if name != "base"]:
        of_arms = np.array(  # (arms, seeds, problems, ks)
            [[_values(of_seed, ks) for of_seed in arm[model].values()] for arm in arms.values()]
        )
        values[model] = _held_out(of_arms)
    return _table_of_values(values, ks, variance_factor=variance_of_shared_choices(seeds))


def _held_out(of_arms: FloatArray) -> FloatArray:
    """Return for every seed and k the values of the arm that is best on the other seeds.

    of_arms: (arms, S, P, K); the result is (S, P, K).
    """
    _, seeds, _, columns = of_arms.shape
    chosen = np.empty(of_arms.shape[1:])
    for seed in range(seeds):
        of_others = np.delete(of_arms, seed, axis=1)
        means = of_others.mean(axis=(1, 2))  # (arms, K)
        best = means.argmax(axis=0)
        for column in range(columns):
            chosen[seed, :, column] = of_arms[best[column], seed, :, column]
    return chosen


def caption_of_best(arms: Mapping[str, Evaluations]) -> str:
    """Say how the arms were chosen, and over what the intervals are."""
    about = _about(next(iter(arms.values())))
    return _in_lines(
        f"*Each method at its best of {len(arms)} arms, chosen for each seed and k on the "
        f"other seeds. {about}*"
    )


def caption(evaluations: Evaluations) -> str:
    """Say over how many problems and seeds a table is, and of what its intervals speak."""
    return _in_lines(f"*{_about(evaluations)}*")


def _about(evaluations: Evaluations) -> str:
    by_seed = next(iter(evaluations.values()))
    problems = len(next(iter(by_seed.values())).ids)
    if len(by_seed) < FEWEST_SEEDS:
        intervals = (
            "The 95% intervals are Student's t over the problems: they speak of other problems of "
            "this kind and of these trainings, not of other seeds."
        )
    else:
        intervals = (
            "The 95% intervals are those of the crossed t-test: they speak of other seeds and of "
            "other problems of this kind."
        )
    return f"{problems} problems, {_listed(sorted(by_seed))}. {intervals}"


def caption_of_study(study: Study, table: str) -> str:
    """Say over which seeds and problems a study's table is, and of what its intervals speak."""
    problems = study.comparison.baseline.problems
    whose = {"seeds": ", each seed with its own", "seeds and problems": ", the same for each seed"}
    about = f"{problems} problems{whose.get(study.over, '')}, {_listed(study.seeds)}."
    if table in _WITH_INTERVALS:
        about += " An interval beside a mean speaks of other problems and of these trainings."
    if table in _OF_FRONT:
        few = len(study.seeds) < FEWEST_SEEDS
        population = "other problems and of these trainings" if few else "other seeds"
        about += (
            " A seed is reported by the models that the other seeds choose. The 95% intervals "
            f"speak of {population}."
        )
    return _in_lines(f"*{about}*")


def interval_of(values: FloatArray, *, variance_factor: float = 1.0) -> Interval:
    """Return the mean of values (S, P, K) over seeds that share their problems, with its interval.

    From three seeds on it is the crossed one, with the variance of the seeds times
    `variance_factor`; below it is that over problems, of the seeds' means.
    """
    if len(values) < FEWEST_SEEDS:
        return student_mean(values.mean(axis=0))
    return over_seeds_and_problems(values, variance_factor=variance_factor)


def _values(results: Results, ks: Sequence[int]) -> FloatArray:
    """Return max@k of every problem: (P, K)."""
    by_k = results.per_problem.values["max@k"]
    return np.array([by_k[k] for k in ks], dtype=np.float64).T


def _cells(interval: Interval, text: Callable[[float], str]) -> list[Cell]:
    columns = zip(interval.mean, interval.low, interval.high, strict=True)
    return [Cell(text(mean), f"[{text(low)}, {text(high)}]") for mean, low, high in columns]


def _listed(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]} alone"
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    *before, last = map(str, seeds)
    return f"seeds {', '.join(before)} and {last}"


def _in_lines(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def linked_tables() -> dict[str, dict[str, str]]:
    """Return the tables to which a page links, as Markdown, by study and name."""
    links = {
        (link["study"], link["table"])
        for page in PAGES
        for link in _LINK.finditer(page.read_text(encoding="utf-8"))
    }
    linked: dict[str, dict[str, str]] = {}
    for study, table in sorted(links):
        made = study_tables(load(study))[table]
        linked.setdefault(study, {})[table] = format_table(made, "md")
    return linked


def draw_weighting() -> None:
    """Draw the factor that methods put on the gradient of a prompt's success rate."""
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained", facecolor="white")
        plot(_WEIGHED, n=8, k=4, ax=figure.subplots())
        figure.savefig(ROOT / "docs" / "weighting.svg", metadata={"Date": None})


def copy(runs: Path) -> None:
    """Copy results, values of every problem and figures of the finished studies below `runs`."""
    for results in sorted(runs.glob("*/results.json")):
        study = results.parent
        target = DOCS / study.name
        target.mkdir(parents=True, exist_ok=True)
        for file in (results, study / PROBLEM_VALUES, *study.glob("figures/*.svg")):
            shutil.copy(file, target)
        print(f"{target.relative_to(ROOT)}: copied")


def main() -> None:
    """Copy, and write tables and pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs/study"))
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    copy(options.runs)
    draw_weighting()
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    for study, tables_of_study in linked_tables().items():
        for table, text in tables_of_study.items():
            (DOCS / study / f"{table}.md").write_text(text, encoding="utf-8")
    if options.tables is not None:
        for results in DOCS.glob("*/results.json"):
            name = results.parent.name
            write_tables(load(name), options.tables / name)


if __name__ == "__main__":
    main()
