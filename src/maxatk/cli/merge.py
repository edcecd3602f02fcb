"""The command `merge`: one run out of the shards that several machines have evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.output import OutputFormat, refuse_two_outputs
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.cli.results_output import print_results
from maxatk.evaluation.merge import merge
from maxatk.evaluation.recipe import RunRecipe


def command(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    k: tuple[int, ...] = (),
    by: str | None = None,
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Join the shards of a run, which eval or score took with --shard, and print its metrics.

    The folder gets the files that one machine would have written. Shards that have not finished are
    named, and nothing is written until the same commands have finished them.

    Example: maxatk merge runs/eval/base

    Args:
        run: The folder that was given as --out, which holds 1-of-16 and its like.
        k: Which k to show, as in eval.
        by: A field of the problems' meta: also show the results by its values.
    """
    refuse_two_outputs(format, progress)
    with progress_of("merge", progress) as report:
        results = merge(run, ks=k, progress=report)
    if progress != "json":
        print_results(RunRecipe(problems=(), out=run, k=k, by=by), results, format)
