"""What the hub's pages read, as https://huggingface.co/docs/hub/eval-results says."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from maxatk.check import needing
from maxatk.errors import InvalidValueError, counted
from maxatk.jsonl import write_jsonl
from maxatk.problems.benchmarks import BENCHMARKS
from maxatk.writing import Mark, OutFolder, write_text

_SIGNATURE = "Written by `maxatk export --to hub`."  # by which the folder is known
_CARD = """---
{metadata}---

# Evaluation of {name}

{samples} of {problems} with their rewards, a row each in `samples.jsonl`.
max@k is the expected best reward of k samples, and pass@k the chance that one of k is right. Both
are unbiased. Intervals are 95% over problems.

| metric | mean | interval |
|---|---|---|
{rows}

{signature}
"""

_OF_OTHERS = ("scores.jsonl", "config.json")  # in the folder of a run, and in that of a model

Interval: TypeAlias = tuple[float | None, float | None, float | None]
"""A mean and the ends of its interval, None where there is none."""


def hub_folder(folder: Path) -> OutFolder:
    """Return the folder that `write_hub` writes."""
    card = Mark("README.md", lambda text: _SIGNATURE.encode() in text)
    return OutFolder(folder, "export --to hub", (card,), foreign=_OF_OTHERS)


def write_hub(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Interval],
    *,
    name: str,
    source: str | None,
) -> list[Path]:
    """Write what pages of models and data sets of the hub show, and return the files.

    `rows` are samples with their scores, in samples.jsonl; README.md, the data set's card, has a
    `model-index` of the model `name`; `.eval_results/SOURCE.yaml` of a benchmark pass@1 in percent.

    Raises InvalidValueError for no rows and for a folder of something else,
    MissingDependencyError without huggingface_hub.
    """
    if not rows:
        raise InvalidValueError("run: holds no samples to export")
    with needing("hub: needs the package 'huggingface_hub': pip install 'maxatk[eval]'"):
        texts = {"README.md": _card(rows, metrics, name, source)}
        entry = _entry(len(rows), metrics, source)
    if entry is not None:
        texts[f".eval_results/{source}.yaml"] = entry
    with hub_folder(folder).alone():
        write_jsonl(folder / "samples.jsonl", rows)
        for file, text in texts.items():
            write_text(folder / file, text)
    return [folder / "samples.jsonl", *(folder / file for file in texts)]


def _card(
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Interval],
    name: str,
    source: str | None,
) -> str:
    from huggingface_hub.repocard_data import EvalResult, eval_results_to_model_index

    benchmark = BENCHMARKS.get(source or "")
    results = [
        EvalResult(
            task_type="text-generation",
            dataset_type=benchmark.hub if benchmark else source or "problems",
            dataset_name=source or "problems",
            metric_type=metric.partition("@")[0] + "@k",
            metric_name=metric,
            metric_value=interval[0],
        )
        for metric, interval in metrics.items()
        if interval[0] is not None  # the hub refuses a metric without a value
    ]
    metadata = {"tags": ["maxatk"], "model-index": eval_results_to_model_index(name, results)}
    lines = []
    for metric, interval in metrics.items():
        mean, low, high = interval
        ends = "–" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
        lines.append(f"| {metric} | {'–' if mean is None else f'{mean:.3f}'} | {ends} |")
    return _CARD.format(
        metadata=yaml.safe_dump(metadata, sort_keys=False),
        name=name,
        samples=counted(len(rows), "sample"),
        problems=counted(len({row["problem_id"] for row in rows})),
        rows="\n".join(lines),
        signature=_SIGNATURE,
    )


def _entry(samples: int, metrics: Mapping[str, Interval], source: str | None) -> str | None:
    """Return the file of a benchmark's results, or None where the source is no such benchmark."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    benchmark = BENCHMARKS.get(source or "")
    if benchmark is None or not benchmark.hub:
        return None
    mean, _, _ = metrics.get("pass@1", (None, None, None))
    if mean is None:
        return None
    entry = EvalResultEntry(
        dataset_id=benchmark.hub,
        task_id=benchmark.config or "default",
        value=round(100 * mean, 2),
        dataset_revision=benchmark.revision,
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        notes=f"pass@1 from {counted(samples, 'sample')}; see the model card for pass@k and max@k",
    )
    return yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False)
