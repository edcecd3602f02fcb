"""The flags of the command `score`, beside those of every run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from maxatk.cli.flags import MapFlag, RewardFlag
from maxatk.cli.output import OutputFormat
from maxatk.cli.progress import ProgressMode
from maxatk.cli.results_output import print_results
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import BY_TESTS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreFlags(RunRecipe):
    """What is scored, how it is read, and how it is printed.

    Args:
        samples: A file of samples whose programs are verified.
        rewards: Files of rewards (.csv, .tsv, .jsonl, .parquet) that are taken as they are.
        problems: A benchmark's name or a problems.jsonl; for --samples without prompts and answers.
        format: Which tool wrote the file: lm-eval, livecodebench, openai-batch, inspect, evalplus,
            human-eval, trl, verl, verifiers (and prime-rl), slime, rllm or tinker; table or samples
            of this tool; as its first row says, if none is given.
        column: A further column of --rewards to take for the reward.
        budget: Budgets of turns, such as turns=1,2,4: max@k of the reward reached within each.
        dry_run: Check everything, call a reward function of your own with three completions, print
            how much there is to verify, and write nothing.
    """

    out: Path
    problems: str | None = None  # type: ignore[assignment]  # not needed for --rewards
    samples: Path | None = None
    rewards: tuple[Path, ...] = ()
    format: str | None = None
    map: MapFlag = ()
    column: str | None = None
    budget: str | None = None
    reward: RewardFlag = BY_TESTS
    dry_run: bool = False
    output_format: OutputFormat = "text"
    progress: ProgressMode = "auto"

    def print_results(self, results: Results, text: str = "") -> None:
        """Print the tables of one run."""
        if self.progress != "json":
            verified = self.samples is not None
            print_results(self, results, self.output_format, with_outcomes=verified, text=text)
