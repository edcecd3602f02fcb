"""Join the shards of a run: the files and results that one machine would have given."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maxatk.bounded import lines_of
from maxatk.check import as_path, function_or_none, several
from maxatk.errors import DataError, InvalidValueError, MissingFileError, counted
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.failures import FailedTest
from maxatk.evaluation.folder import (
    FAILURES,
    MANIFEST,
    PROMPTS,
    RESULTS,
    SAMPLES,
    SCORES,
    count_lines,
    recorded_settings,
    run_files,
    run_mark,
)
from maxatk.evaluation.results import Results, read_results
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.evaluation.shard_settings import SHARD, refuse_differences
from maxatk.evaluation.shards import Shard, ShardPlan, shard_folders
from maxatk.evaluation.store import Key, KeyedRecord, key_of
from maxatk.folders import read_json, write_json
from maxatk.jsonl import read_typed
from maxatk.records import Sample, Score
from maxatk.writing import OutFolder, atomic_write

RowT = TypeVar("RowT")
RecordT = TypeVar("RecordT", bound=KeyedRecord)
Progress = Callable[[int, int], object]
"""Called with the number of scores read so far and the number of all."""

_RECORDS = (SAMPLES, SCORES)  # files that have a line a sample
_MOST_NAMED = 20  # shards that lack something, in the message
_EVERY = 1000  # scores between two reports of progress


@dataclasses.dataclass(frozen=True)
class _Part:
    """A finished shard: its folder, what it had to do, its manifest, settings and results."""

    folder: Path
    plan: ShardPlan
    manifest: dict[str, Any]
    settings: dict[str, Any]
    results: Results


def merge(run: str | Path, *, ks: Sequence[int] = (), progress: Progress | None = None) -> Results:
    """Join the shards of a run in its folder, and return the results of all of them.

    The results have `ks` beside those that the shards were asked for.
    The folder gets the files of `evaluate` or `score` on one machine, byte for byte but for
    measured times, and can grow as such a run. A second call does the same again. Everything is
    checked before anything is written.

    Raises MissingFileError without a shard; DataError where a shard has not finished, which names
    what it lacks, or has a corrupt line; InvalidValueError where shards have other settings, where
    the folder holds samples or scores that the shards have not, and for a k above the samples of a
    problem.
    """
    out = as_path("run", run)
    several("k", ks, "integers")
    function_or_none("progress", progress)
    parts = _finished_parts(out)
    for part in parts[1:]:
        refuse_differences(parts[0].folder, parts[0].settings, part.settings)
    _refuse_gaps(out, parts)
    folder = OutFolder(out, "merge", tuple(run_mark(part.folder.name) for part in parts))
    folder.check()
    _refuse_foreign(out)
    results = _results(out, parts, ks, progress or (lambda _done, _total: None))
    for name in _RECORDS:
        _refuse_loss(out / name, _lines(parts, name))
    with folder.alone():
        _write(out, parts, results)
    return results


def _write(out: Path, parts: Sequence[_Part], results: Results) -> None:
    """Write the files of the run, whose shards are `parts`."""
    write_json(out / MANIFEST, {**parts[0].manifest, "settings": _settings_of_run(parts[0])})
    for name in _RECORDS:
        _write_lines(out / name, _lines(parts, name))
    _write_lines(out / FAILURES, _failure_lines(parts))
    prompts = [_lines_of_file(part.folder / PROMPTS) for part in parts]
    _write_lines(out / PROMPTS, itertools.chain.from_iterable(prompts))
    write_json(out / RESULTS, results.to_json())


def _finished_parts(out: Path) -> list[_Part]:
    """Return all shards in order; raises DataError naming those that have not finished."""
    folders = shard_folders(out)
    if not folders:
        raise MissingFileError(
            f"{out}: holds no shard, such as the folder 1-of-16 of `maxatk eval --shard 1/16`"
        )
    numbers = sorted({shard.of for shard in folders})
    if len(numbers) > 1:
        raise InvalidValueError(
            f"{out}: has shards of {' and of '.join(map(str, numbers))}; remove those of one run"
        )
    parts = []
    lacking = []
    for number in range(1, numbers[0] + 1):
        shard = Shard(numbers[0], number)
        try:
            parts.append(_finished_part(out / shard.folder))
        except _UnfinishedShardError as error:
            lacking.append(f"{shard}: {error}")
    if lacking:
        listed = "\n  ".join(lacking[:_MOST_NAMED])
        more = f"\n  and {len(lacking) - _MOST_NAMED} more" if len(lacking) > _MOST_NAMED else ""
        raise DataError(
            f"{out}: {len(lacking)} of {counted(numbers[0], 'shard')} not finished; start their "
            f"commands again:\n  {listed}{more}"
        )
    return parts


class _UnfinishedShardError(Exception):
    """What a shard lacks."""


def _finished_part(folder: Path) -> _Part:
    """Return a shard; raises _UnfinishedShardError for one that has not finished."""
    plan = ShardPlan.read(folder) if folder.is_dir() else None
    if plan is None:
        raise _UnfinishedShardError("not begun")
    scores = count_lines(folder / SCORES)
    if scores < plan.total:
        raise _UnfinishedShardError(
            f"{plan.total - scores:,} of {counted(plan.total, 'sample')} without a score"
        )
    results = read_results(folder / RESULTS) if (folder / RESULTS).is_file() else None
    if results is None or results.counts.samples != plan.total:
        raise _UnfinishedShardError("the results are not written")
    settings = recorded_settings(folder / MANIFEST)
    return _Part(folder, plan, read_json(folder / MANIFEST), settings, results)


def _refuse_gaps(out: Path, parts: Sequence[_Part]) -> None:
    """Raise DataError unless the places of the shards are those of one run, each once."""
    ranges = sorted(places for part in parts for places in part.plan.ranges)
    end = 0
    for first, count in ranges:
        if first != end:
            raise DataError(
                f"{out}: the shards do not fit together at sample {min(first, end)} of the run; "
                "start their commands again"
            )
        end = first + count


def _results(out: Path, parts: Sequence[_Part], ks: Sequence[int], progress: Progress) -> Results:
    """Return the results of all samples and scores, as one machine would have computed them."""
    total = sum(part.plan.total for part in parts)
    tally = ScoreTally()
    for done, score in enumerate(_records(parts, SCORES, Score), start=1):
        tally.add(score)
        if done % _EVERY == 0 or done == total:
            progress(done, total)
    results = build_results(
        [problem_id for part in parts for problem_id in part.results.ids],
        _records(parts, SAMPLES, Sample),
        tally,
        manifest=_results_manifest(parts),
        ks=[*parts[0].plan.k, *ks],
        threshold=_threshold(parts),
        meta=[fields for part in parts for fields in _meta(part.results)],
    )
    if results.counts.unscored == total:
        raise DataError(f"{out}: nothing can be shown: {results.counts.lacking}")
    return results


def _meta(results: Results) -> Sequence[Mapping[str, Any]]:
    return results.per_problem.meta or ({},) * len(results.ids)


def _threshold(parts: Sequence[_Part]) -> float:
    thresholds = {part.results.passes_from for part in parts}
    if len(thresholds) > 1:
        listed = ", ".join(map(repr, sorted(thresholds)))
        raise InvalidValueError(f"threshold: must be the same in all shards, got {listed}")
    return thresholds.pop()


def _results_manifest(parts: Sequence[_Part]) -> dict[str, Any]:
    """Return what the results say of the run: that of the first shard, with sums over all."""
    manifests = [part.results.manifest for part in parts]
    sums = {
        name: sum(manifest[name] for manifest in manifests)
        for name in ("seconds", "samples_found")
        if all(name in manifest for manifest in manifests)
    }
    sums["seconds"] = round(sums["seconds"], 3)
    return {**manifests[0], "settings": _settings_of_run(parts[0]), **sums}


def _settings_of_run(part: _Part) -> dict[str, Any]:
    return {name: value for name, value in part.settings.items() if name != SHARD}


def _records(parts: Sequence[_Part], name: str, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of all shards in the order of the run."""
    return _in_order([_placed(part, read_typed(part.folder / name, kind)) for part in parts])


def _lines(parts: Sequence[_Part], name: str) -> Iterator[bytes]:
    """Yield the lines of all shards in the order of the run."""
    return _in_order([_placed(part, _lines_of_file(part.folder / name)) for part in parts])


def _lines_of_file(path: Path) -> Iterator[bytes]:
    return (line for _, line in lines_of(path))


def _placed(part: _Part, records: Iterator[RowT]) -> Iterator[tuple[int, RowT]]:
    """Yield records with their places in the run; raises DataError unless there is one for each."""
    # The shorter of the two ends in None, which is neither a place nor a record.
    for place, record in itertools.zip_longest(part.plan.places(), records):
        if place is None or record is None:
            raise DataError(
                f"{part.folder}: must hold {counted(part.plan.total, 'sample')} and as many scores"
            )
        yield place, record


def _in_order(streams: Sequence[Iterator[tuple[int, RowT]]]) -> Iterator[RowT]:
    return (row for _, row in heapq.merge(*streams, key=operator.itemgetter(0)))


def _failure_lines(parts: Sequence[_Part]) -> Iterator[bytes]:
    """Yield the failures of all shards, each at the place of its sample."""
    return _in_order([_placed_failures(part) for part in parts])


def _placed_failures(part: _Part) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a shard's failures, of which only some samples have one."""
    path = part.folder / FAILURES
    line_of_sample: dict[Key, bytes] = {}
    for failure, (_, line) in zip(read_typed(path, FailedTest), lines_of(path), strict=True):
        line_of_sample[key_of(failure)] = line
    for place, score in _placed(part, read_typed(part.folder / SCORES, Score)):
        line_of_failure = line_of_sample.get(key_of(score))
        if line_of_failure is not None:
            yield place, line_of_failure


def _refuse_foreign(out: Path) -> None:
    """Raise InvalidValueError where others have files with the names of a run's."""
    names = ", ".join(file.name for file in run_files(out) if file.exists())
    if names and not run_mark().is_in(out):
        raise InvalidValueError(
            f"out: the folder {str(out)!r} has {names} beside the shards, which `maxatk merge` "
            "did not write and would write over; move what is yours to another folder"
        )


def _refuse_loss(path: Path, lines: Iterable[bytes]) -> None:
    """Raise InvalidValueError where a file has lines that are not among those that replace it."""
    if not path.is_file():
        return
    # Their hashes alone: a run may have millions of long lines.
    lost = {hash(line) for _, line in lines_of(path)}
    for line in lines:
        lost.discard(hash(line))
    if lost:
        raise InvalidValueError(
            f"{path}: has {counted(len(lost), 'line')} that the shards have not, which would be "
            "lost; move the file away to merge again"
        )


def _write_lines(path: Path, lines: Iterable[bytes]) -> None:
    with atomic_write(path) as partial, partial.open("wb") as file:
        file.writelines(lines)
