"""The folder of an evaluation: its files, and the settings that identify what it holds."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.results import build_results
from maxatk.evaluation.sampling import SamplingSettings
from maxatk.evaluation.store import Store
from maxatk.folders import file_digest, read_json, refuse_other_settings, write_json
from maxatk.jsonl import write_jsonl
from maxatk.masking import masked
from maxatk.records import Problem, Sample, Score
from maxatk.rewards.specification import describe_reward
from maxatk.verifier import Verifier

SAMPLES, SCORES, RESULTS = "samples.jsonl", "scores.jsonl", "results.json"
FAILURES, PROMPTS = "failures.jsonl", "prompts.jsonl"
MANIFEST = "manifest.json"


def open_folder(
    out: Path,
    settings: Mapping[str, Any],
    *,
    grows: Sequence[Problem] | None = None,
    samples: Path | None = None,
) -> None:
    """Create `out` with its manifest, or check that the folder belongs to the same settings.

    A folder that grows gets a manifest of its new settings. Arguments and errors as `check_folder`.
    """
    check_folder(out, settings, grows=grows, samples=samples)
    path = out / MANIFEST
    if not path.is_file() or _recorded_settings(path) != json.loads(json.dumps(masked(settings))):
        out.mkdir(parents=True, exist_ok=True)
        write_json(path, {"settings": masked(settings), "environment": environment()})


def check_folder(
    out: Path,
    settings: Mapping[str, Any],
    *,
    grows: Sequence[Problem] | None = None,
    samples: Path | None = None,
) -> None:
    """Raise InvalidValueError where `out` holds a run that is not of these settings.

    A folder that holds neither a sample nor a score is anybody's, whatever its manifest says. With
    `grows`, which are the problems, the folder may hold fewer samples of a problem, or the
    first of the problems: a sample depends on the seed, the problem and its own index alone. The
    file `samples`, where samples come from one, may have grown at its end. The message lists every
    setting that differs from the folder's manifest, or says that the folder holds samples or scores
    but no manifest. Nothing is written.
    """
    path = out / MANIFEST
    held = [n for n in (SAMPLES, SCORES) if (out / n).is_file() and (out / n).stat().st_size]
    if not held:
        return
    if path.is_file():
        before = _recorded_settings(path)
        if grows is None:
            refuse_other_settings(out, before, settings)
            return
        try:
            refuse_other_settings(out, _grown(before, settings, grows, samples), settings)
        except InvalidValueError as error:
            raise InvalidValueError(
                f"{error}\n  a run can grow by more samples, in a file behind those it has, and by "
                "problems that follow those it has; nothing else of it can change"
            ) from error
        return
    raise InvalidValueError(
        f"{out}: has {held[0]} but no {MANIFEST}, so what it holds is unknown; use another folder"
    )


def _grown(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    problems: Sequence[Problem],
    samples: Path | None,
) -> dict[str, Any]:
    """Return the settings of a folder with those that have grown as they are now."""
    grown = dict(before)
    old, new = before.get("sampling", {}), now.get("sampling", {})
    if 0 < old.get("samples", 0) < new.get("samples", 0):
        grown["sampling"] = {**old, "samples": new["samples"]}
    file = before.get("samples", {})
    known = samples is not None and "bytes" in file
    if known and file_digest(Path(str(samples)), first=file["bytes"]) == file["sha256"]:
        grown["samples"] = now["samples"]
    held = before.get("problems", {})
    count = held.get("count", 0)
    if count < len(problems) and held.get("sha256") == problems_digest(problems[:count]):
        grown["problems"] = now["problems"]
    return grown


def recorded_batch_size(out: Path) -> int | None:
    """Return the batch size of the run in `out`; None without a run, or where it has none."""
    if not (out / MANIFEST).is_file():
        return None
    model = _recorded_settings(out / MANIFEST).get("model")
    size: int | None = model.get("batch_size") if isinstance(model, dict) else None
    return size


def _recorded_settings(path: Path) -> dict[str, Any]:
    settings = read_json(path).get("settings")
    if not isinstance(settings, dict):
        raise DataError(f"{path}: must hold an object 'settings', got {settings!r:.60}")
    return settings


def problems_digest(problems: Sequence[Problem]) -> str:
    """Return the sha256 of the problems' content, whatever the layout of their file."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(json.dumps(problem.to_json(), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def digest_of_texts(texts: Sequence[str]) -> str:
    """Return the sha256 of texts in their order."""
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def verified_settings(
    problems: Mapping[str, Problem], verifier: Verifier, reward: Any
) -> dict[str, Any]:
    """Return what decides a score: the problems, the verifier's limits, and the reward."""
    return {
        "reward": describe_reward(reward),
        "problems": {
            "count": len(problems),
            "sha256": problems_digest(list(problems.values())),
        },
        "verifier": verifier.limits,
    }


def sampled_settings(
    model: Mapping[str, Any],
    sampling: SamplingSettings,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    reward: Any,
) -> dict[str, Any]:
    """Return what decides samples and their verdicts, for the manifest of an evaluation.

    `model` is what the backend says of itself.
    """
    return {
        "model": dict(model),
        "sampling": sampling.to_json(),
        **verified_settings(problems, verifier, reward),
    }


def manifest_of(
    described: Mapping[str, Any], verifier: Verifier, source: str | None, started: float
) -> dict[str, Any]:
    """Return the manifest of a finished run."""
    return {
        "settings": masked(described),
        "environment": environment(),
        **verifier.described(),
        "problems_file": source,
        "seconds": round(time.monotonic() - started, 3),
    }


def check_label(label: str | None) -> None:
    """Raise InvalidValueError for a label that is empty or longer than one line."""
    if label is not None and (not label.strip() or len(label.splitlines()) > 1):
        raise InvalidValueError(f"label: must be one line with a name in it, got {label!r}")


def labelled(label: str | None) -> dict[str, str]:
    """Return what the label of a run adds to its manifest; raises as `check_label`."""
    check_label(label)
    return {} if label is None else {"label": label}


def refuse_strangers(store: Store[Any], problems: Mapping[str, Problem]) -> None:
    """Raise DataError if a file of the folder has a sample of a problem that is not given."""
    for problem_id, sample in store.records:
        if problem_id not in problems:
            raise DataError(f"{store.path}: sample {sample} of an unknown problem {problem_id!r}")


def write_results(
    out: Path,
    problems: Mapping[str, Problem],
    samples: Mapping[Any, Sample],
    scores: Mapping[Any, Score],
    manifest: Mapping[str, Any],
    more_ks: Sequence[int],
    threshold: float,
) -> dict[str, Any]:
    """Compute the results, write them and the prompts to the folder and return them.

    Args:
        out: The folder of the run.
        problems: The problems by id.
        samples: The samples by key.
        scores: The scores by key.
        manifest: What the run was.
        more_ks: Further k, as in `build_results`.
        threshold: The reward from which a sample passes.
    """
    results = build_results(
        list(problems),
        samples.values(),
        scores.values(),
        manifest=manifest,
        more_ks=more_ks,
        threshold=threshold,
        meta=[problem.meta for problem in problems.values()],
    )
    write_jsonl(
        out / PROMPTS,
        ({"problem_id": problem.id, "prompt": problem.prompt} for problem in problems.values()),
    )
    write_json(out / RESULTS, results)
    return results
