"""The folder of an evaluation: its files, and the settings that identify what it holds."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from maxatk.check import is_whole
from maxatk.environment import environment
from maxatk.errors import DataError, MissingFileError
from maxatk.folders import file_digest, read_json, refuse_other_settings, write_json
from maxatk.records import Problem
from maxatk.settings import masked
from maxatk.writing import Mark, OutFolder, json_mark

SAMPLES = "samples.jsonl"
SCORES = "scores.jsonl"
FAILURES = "failures.jsonl"
PROMPTS = "prompts.jsonl"
MANIFEST = "manifest.json"
RESULTS = "results.json"
_FILES = (SAMPLES, SCORES, FAILURES, PROMPTS, MANIFEST, RESULTS)

_SCORING = ("reward", "verifier")  # the settings that decide scores, and not samples
_HOW_IT_GROWS = (
    "\n  a run can grow by more samples, in a file behind those it has, and by problems that "
    "follow those it has; once scores.jsonl is deleted its samples can be scored by another reward"
)


def run_files(run: Path) -> list[Path]:
    """Return the files of a run, those that may be missing too."""
    return [run / name for name in _FILES]


def refuse_file(field: str, run: str | Path) -> None:
    """Raise MissingFileError for a file in place of a run, such as a table, and say what to do."""
    if Path(run).is_file():
        raise MissingFileError(
            f"{field}: {str(run)!r} is a file, not a folder; of a table of rewards or a log make a "
            f"run first: maxatk score --rewards {shlex.quote(str(run))} --out FOLDER"
        )


def run_mark(inner: str = ".") -> Mark:
    """Return the mark of a folder with a run, or with one in its folder `inner`."""
    return json_mark(
        str(Path(inner) / MANIFEST),
        lambda manifest: isinstance(manifest.get("settings"), dict) and "environment" in manifest,
    )


def out_folder(out: str | Path, *, reads: Mapping[str, Any] = MappingProxyType({})) -> OutFolder:
    """Return the folder of a run, to be written; `reads` are folders that are read, by field."""
    return OutFolder(Path(out), "eval", (run_mark(),), reads=reads)


def write_manifest(out: Path, settings: Mapping[str, Any], *, threshold: float) -> None:
    """Create `out` with its manifest; one that has grown gets a manifest of its new settings.

    The reward from which a sample passes decides no sample and no score, so that it is no setting.
    It stands beside them for whoever reads the run before its results are there.
    """
    path = out / MANIFEST
    as_stored = json.loads(json.dumps(masked(settings)))  # in which a tuple is a list
    manifest_content = {"settings": as_stored, "threshold": threshold}
    before = read_json(path) if path.is_file() else None
    if any(recorded(before, name) != value for name, value in manifest_content.items()):
        write_json(path, {**manifest_content, "environment": environment()})


def check_folder(
    out: Path,
    settings: Mapping[str, Any],
    *,
    may_grow: bool = False,
    problems: Sequence[Problem] = (),
    samples: Path | None = None,
    rewards: Path | None = None,
) -> None:
    """Raise InvalidValueError where `out` holds a run that is not of these settings.

    A folder without samples and scores fits any settings. One that `may_grow` may hold fewer
    samples of a problem, or only the first of `problems`, since a sample depends on seed, problem
    and index alone. The files `samples` and `rewards` may have grown at their ends. Without scores,
    what decides them may be another, and so may the samples that were copied from a file.
    """
    files = [name for name in (SAMPLES, SCORES) if _has_content(out / name)]
    if not files:
        return
    path = out / MANIFEST
    # What may differ is taken over from the new settings; the rest has to be equal.
    before = recorded_settings(path)
    if SCORES not in files and "samples" in before and "samples" in settings:
        return
    before = _with_renamed_model(before, settings)
    if may_grow:
        before = grown(before, settings, problems, samples)
    if rewards is not None:
        before = _with_grown_rewards(before, settings, rewards)
    if SCORES not in files:
        before = rescored(before, settings)
    hint = _HOW_IT_GROWS if may_grow else ""
    refuse_other_settings(out, before, settings, hint=hint)


def _with_renamed_model(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a folder's settings with the model's new name where its weights are the same ones."""
    model = before.get("model")
    if not isinstance(model, Mapping):
        return dict(before)
    renamed = dict(model)
    for name, weights in (("model", "weights"), ("adapter", "adapter_weights")):
        digest = recorded(now, f"model.{weights}")
        if digest is not None and digest == model.get(weights):
            renamed[name] = now["model"][name]
    return {**before, "model": renamed}


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def grown(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    problems: Sequence[Problem],
    samples: Path | None,
) -> dict[str, Any]:
    """Return the settings of a folder with those that have grown as they are now."""
    settings = dict(before)
    # More samples of every problem: a sample depends on seed, problem and index alone.
    if 0 < _count(before, "sampling.samples") < _count(now, "sampling.samples"):
        settings["sampling"] = {**before["sampling"], "samples": now["sampling"]["samples"]}
    # More lines of a samples file, behind those that it had.
    if samples is not None and _begins_as_recorded(samples, before, "samples"):
        settings["samples"] = now["samples"]
    # More problems, behind those that there were.
    count = _count(before, "problems.count")
    if count < len(problems):
        first_problems = problems_content_digest(problems[:count])
        if first_problems == recorded(before, "problems.sha256"):
            settings["problems"] = now["problems"]
    return settings


def _with_grown_rewards(
    before: Mapping[str, Any], now: Mapping[str, Any], rewards: Path
) -> dict[str, Any]:
    """Return the settings of a folder with the rewards as now, if their file has grown at its end.

    Its scores are those of the whole file each time it is read, so that nothing of it is lost.
    """
    has_grown = 0 < _count(before, "rewards.bytes") < _count(now, "rewards.bytes")
    if not has_grown or not _begins_as_recorded(rewards, before, "rewards"):
        return dict(before)
    content = {name: now["rewards"][name] for name in ("sha256", "bytes")}
    return {**before, "rewards": {**before["rewards"], **content}, "problems": now["problems"]}


def _begins_as_recorded(file: Path, before: Mapping[str, Any], name: str) -> bool:
    """Return whether a file begins with the bytes that the settings of a folder name."""
    digest = file_digest(file, first=_count(before, f"{name}.bytes"))
    begins: bool = digest == recorded(before, f"{name}.sha256")
    return begins


def rescored(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a folder without scores with those that decide scores as now."""
    return {**before, **{name: now[name] for name in _SCORING if name in now}}


def recorded(manifest: Any, place: str) -> Any:
    """Return what a manifest has at a place such as "settings.problems.sha256", or None."""
    part = manifest
    for name in place.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


def _count(settings: Mapping[str, Any], place: str) -> int:
    """Return the whole number that settings have at a place; 0 for anything else."""
    number = recorded(settings, place)
    return number if is_whole(number, 0) else 0


def recorded_batch_size(out: Path) -> int | None:
    """Return the batch size of the run in `out`; None without a run, or where it has none."""
    path = out / MANIFEST
    if not path.is_file():
        return None
    return _count(recorded_settings(path), "model.batch_size") or None


def recorded_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a manifest; raises DataError for a file that has none."""
    settings = read_json(path).get("settings")
    if not isinstance(settings, dict):
        raise DataError(f"{path}: must hold an object 'settings', got {settings!r:.60}")
    return settings


def problems_content_digest(problems: Iterable[Problem]) -> str:
    """Return the sha256 of the problems' content, whatever the layout of their file."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(json.dumps(problem.to_json(), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def count_lines(path: Path) -> int:
    """Return how many whole lines a file has; 0 where there is none."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(line.endswith(b"\n") for line in file)
