"""The command `score` for one file of rewards, which are taken as they are."""

from __future__ import annotations

from pathlib import Path

from maxatk.cli import output
from maxatk.cli.output import Output
from maxatk.cli.results_output import metric_rows
from maxatk.cli.score_flags import ScoreFlags
from maxatk.errors import InvalidValueError
from maxatk.evaluation.budgets import read_budget, turns_of
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.evaluation.load import results_of_folder
from maxatk.evaluation.problem_groups import check_by
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import BY_TESTS
from maxatk.exchange import parse_mapping
from maxatk.problems import load_problems, problems_by_id
from maxatk.report.run_tables import KS, groups_table
from maxatk.report.tables import TidyRow


def score_one_file(flags: ScoreFlags) -> None:
    """Score a file, and print its results."""
    flags.print_results(scored_rewards(flags, flags.rewards[0], flags.out))


def score_budgets(flags: ScoreFlags) -> None:
    """Score a file, and print max@k of the reward reached within each budget."""
    assert flags.budget is not None
    budgets = read_budget(flags.budget)
    scored_rewards(flags, flags.rewards[0], flags.out)
    by_budget = {
        column: results_of_folder(flags.out, ks=flags.k, threshold=flags.threshold, column=column)
        for column in budgets
    }
    rows: list[TidyRow] = []
    for column, results in by_budget.items():
        rows += metric_rows(results, (), {"turns": turns_of(column)})
    groups = {str(turns_of(column)): results for column, results in by_budget.items()}
    table = groups_table(groups, heading="within turns", ks=flags.k or KS)
    note = "the reward reached within so many turns; 95% intervals over problems"
    output.emit({"budgets": Output(rows, table, note)}, flags.output_format)


def scored_rewards(flags: ScoreFlags, file: Path, out: Path) -> Results:
    """Score a file into a folder, and return its results; flags of `--samples` are refused."""
    if flags.limit is not None or flags.shard is not None or flags.dry_run:
        raise InvalidValueError("score: --limit, --shard and --dry-run are for --samples")
    if flags.reward != BY_TESTS:
        raise InvalidValueError(
            "score: --reward is for --samples; the rewards of --rewards are taken as they are"
        )
    if flags.by is not None and flags.problems is None:
        raise InvalidValueError("score: --by needs --problems, whose meta has the field")
    problems = None
    if flags.problems is not None:
        loaded = load_problems(flags.problems)
        check_by((problem.meta for problem in loaded), flags.by)
        problems = problems_by_id(loaded, source=str(flags.problems))
    return score_rewards(
        file,
        out,
        log_format=flags.format,
        mapping=parse_mapping(flags.map),
        problems=problems,
        more_ks=flags.k,
        threshold=flags.threshold,
        column=flags.column,
    )
