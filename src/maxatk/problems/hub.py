"""Rows of data sets on the hub, streamed: nothing but the row at hand is held.

This is the only module of the package that needs a network; every failure of it names the data set
and the way around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maxatk.errors import DataError, MissingDependencyError
from maxatk.hub import why_missing
from maxatk.problems.benchmarks.base import Benchmark, Row, RowOptions


def resolve_revision(benchmark: Benchmark, revision: str | None) -> str:
    """Return the commit that is read: the one asked for, the benchmark's own, or the newest.

    Only the newest one needs the network. Raises DataError where the hub does not answer.
    """
    known = revision or benchmark.revision
    if known is not None:
        return known
    _need_datasets()
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(benchmark.hub).sha)
    except Exception as error:  # the libraries below raise errors of several trees
        raise _unreachable(benchmark, error) from error


def hub_rows(
    benchmark: Benchmark,
    split: str,
    *,
    revision: str,
    options: RowOptions,
    start: int = 0,
    only: Sequence[str] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a split, one mapping of column to value each.

    Args:
        benchmark: Where the data set is.
        split: A split of it.
        revision: A commit of the hub.
        options: The benchmark's, which may choose its files.
        start: The number of the first row, from 0.
        only: The columns that are read of parquet files; all if not given.

    Raises MissingDependencyError without the package `datasets`, DataError where the data set
    cannot be loaded, also in the middle of it.
    """
    _need_datasets()
    reason = why_missing(benchmark.hub, kind="dataset", revision=revision)
    if reason is not None:  # soon: the loader below would ask for half a minute
        raise _unreachable(benchmark, reason)
    try:
        yield from _stream(benchmark, split, revision, options, only).skip(start)
    except Exception as error:  # the libraries below raise errors of several trees
        raise _unreachable(benchmark, error) from error


def _stream(
    benchmark: Benchmark,
    split: str,
    revision: str,
    options: RowOptions,
    only: Sequence[str] | None,
) -> Any:
    from datasets import load_dataset

    if benchmark.data_files is None:
        columns = {"columns": list(only)} if only is not None else {}
        return load_dataset(
            benchmark.hub,
            benchmark.config,
            split=split,
            revision=revision,
            streaming=True,
            **columns,
        )
    files = [
        f"hf://datasets/{benchmark.hub}@{revision}/{name}"
        for name in benchmark.data_files(split, options)
    ]
    return load_dataset("json", data_files=files, split="train", streaming=True)


def _need_datasets() -> None:
    try:
        import datasets  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "loading a benchmark from the hub needs the package 'datasets': "
            "pip install 'maxatk[train]', or give a local file"
        ) from error


def _unreachable(benchmark: Benchmark, error: Exception | str) -> DataError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return DataError(
        f"{benchmark.hub}: cannot be loaded from the hub ({reason:.200}); without a network, "
        "make problems.jsonl of a local file or folder of the same schema: maxatk problems prepare "
        "NAME --file FILE --out problems.jsonl"
    )
