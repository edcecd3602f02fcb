"""The command `problems prepare`: problems files of benchmarks, as a recipe says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.check import one_of
from maxatk.cli.flags import MapFlag
from maxatk.cli.output import Output, OutputFormat, emit, refuse_two_outputs, shown
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import DataError, InvalidValueError, MissingFileError, unknown_name
from maxatk.exchange import parse_mapping
from maxatk.problems import (
    BENCHMARKS,
    PrepareSettings,
    prepare,
    read_sets,
    refuse_foreign_outputs,
)
from maxatk.settings import apply_overrides, put, read_recipe

_OTHER_FORMATS = (".json", ".csv", ".parquet", ".gz")  # which `prepare` does not write


def command(
    recipe: Annotated[str, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    *,
    out: Path,
    map: MapFlag = (),
    only: str | None = None,
    file: Path | None = None,
    checkers: Path | None = None,
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Make problems.jsonl of a benchmark, filtered and split as a recipe says, and count the rows.

    Beside X.jsonl lie X.solutions.jsonl, X.left_out.jsonl (with the reasons) and X.manifest.json.
    If interrupted, rerun the same command: it resumes.

    Args:
        recipe: A YAML file with the mapping `sets`, or the name of a benchmark.
        overrides: Settings that win, such as split=train limit=20 options.form=asserts, of a recipe
            sets.mbpp.file=rows.jsonl.
        out: The problems.jsonl to write; a folder for a recipe of several sets.
        only: Prepare this set of the recipe alone.
        file: A local file or folder of the benchmark's schema, instead of the hub.
        checkers: A file with checkers by id, {"id": ..., "checker": ...} a line.
    """
    refuse_two_outputs(format, progress)
    sets = _sets(recipe, overrides, parse_mapping(map), file, only)
    if checkers is not None:
        sets = {
            name: dataclasses.replace(settings, checkers=str(checkers))
            for name, settings in sets.items()
        }
    targets = _targets(sets, out)
    for name, settings in sets.items():  # everything that can be refused is refused before work
        refuse_foreign_outputs(settings, targets[name])
        settings.check()
    counters = {name: _token_counter(settings) for name, settings in sets.items()}
    manifests = {}
    for name, settings in sets.items():
        with progress_of(name, progress) as report:
            manifests[name] = prepare(
                settings, targets[name], count_tokens=counters[name], progress=report
            )
    if progress != "json":
        emit(_prepared(manifests), format)
    for name, manifest in manifests.items():
        if not manifest["counts"]["kept"]:
            raise DataError(f"{name}: no row became a problem; {targets[name]} is empty")


def _sets(
    recipe: str,
    overrides: Sequence[str],
    columns: Mapping[str, str],
    file: Path | None,
    only: str | None,
) -> dict[str, PrepareSettings]:
    """Return the sets of a recipe, or the one of a benchmark, and of them `only` one if given."""
    if Path(recipe).suffix in (".yaml", ".yml"):
        if file is not None:
            raise InvalidValueError("--file: for a recipe write sets.NAME.file=... instead")
        if columns:
            raise InvalidValueError("--map: for a recipe write sets.NAME.options.FIELD=... instead")
        sets = read_sets(read_recipe(Path(recipe), overrides))
    elif recipe in BENCHMARKS:
        settings = {**apply_overrides({}, overrides), "benchmark": recipe}
        for field, column in columns.items():
            _put_column(settings, field, column)
        if file is not None:
            settings["file"] = str(file)
        sets = read_sets({"sets": {recipe: settings}})
    else:
        raise unknown_name("problems", recipe, [*BENCHMARKS, "a recipe ending in .yaml"])
    if only is not None:
        one_of("--only", only, sets)
    return {name: settings for name, settings in sets.items() if only in (None, name)}


def _put_column(settings: dict[str, Any], field: str, column: str) -> None:
    """Put the column of a field into the options: its name as it is, and no YAML."""
    where = f"--map {field}={column}"
    if field.partition(".")[0] in {setting.name for setting in dataclasses.fields(PrepareSettings)}:
        raise InvalidValueError(
            f"{where}: {field!r} is a setting, and what stands behind --map belongs to it; give "
            "settings before --map"
        )
    options = settings.get("options")
    if isinstance(options, Mapping) and field in options:
        raise InvalidValueError(f"{where}: options.{field} is given too, as {options[field]!r}")
    put(settings, f"options.{field}", column, where=where)


def _targets(sets: Mapping[str, PrepareSettings], out: Path) -> dict[str, Path]:
    if out.suffix in _OTHER_FORMATS and not out.is_dir():  # meant as a file, it would be a folder
        allowed = "a file that ends in .jsonl or a folder"
        raise InvalidValueError(f"out: must be {allowed}, got {str(out)!r}")
    if out.suffix != ".jsonl":
        return {name: out / f"{name}.jsonl" for name in sets}
    if len(sets) > 1:
        raise InvalidValueError(
            f"out: the recipe has {len(sets)} sets, name a folder instead of {str(out)!r} or "
            f"one of them with --only: {', '.join(sets)}"
        )
    return dict.fromkeys(sets, out)


def _token_counter(settings: PrepareSettings) -> Callable[[str], int] | None:
    if settings.max_prompt_tokens is None or settings.tokenizer is None:
        return None
    from maxatk.models import load_tokenizer, prompt_ids, refuse_missing_model

    refuse_missing_model(settings.tokenizer)
    try:
        tokenizer = load_tokenizer(settings.tokenizer)
    except (OSError, ValueError) as error:
        text = f"tokenizer: {settings.tokenizer!r} has none that can be loaded: {error}"
        raise MissingFileError(text) from error
    return lambda prompt: len(prompt_ids(tokenizer, prompt))


def _prepared(manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, Output]:
    """Return what became of the rows of each set, and the files that were written."""
    counted = ("rows", "kept", "solutions", "tests", "with_duplicates", "duplicates")
    sets = []
    left_out = []
    files = []
    for name, manifest in manifests.items():
        counts = manifest["counts"]
        sets.append({"set": name, **{key: counts[key] for key in counted}})
        for reason, rows in counts["left_out"].items():
            left_out.append({"set": name, "reason": reason, "rows": rows})
        for file, facts in manifest["files"].items():
            files.append({"set": name, "file": file, **facts})
    return {
        "sets": shown(sets),
        "left_out": shown(left_out, title="rows left out, by reason"),
        "files": shown(files),
    }
