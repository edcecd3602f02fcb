"""The command `score` for a file of samples, whose programs are verified."""

from __future__ import annotations

import dataclasses

from maxatk.cli import output
from maxatk.cli.output import say_aside
from maxatk.cli.progress import progress_of
from maxatk.cli.score_flags import ScoreFlags
from maxatk.errors import InvalidValueError, counted
from maxatk.evaluation import ScoreRecipe, plan, score
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.scoring import BY_TESTS
from maxatk.evaluation.submissions import problems_of_log
from maxatk.exchange import parse_mapping


def score_samples(flags: ScoreFlags) -> None:
    """Verify the samples of a file, or say what that would be, and print the results."""
    recipe = _recipe(flags)
    if flags.dry_run:
        output.emit_plan(plan(recipe), flags.output_format)
        return
    with progress_of("score", flags.progress) as report:
        results = score(recipe, progress=lambda done, total, _: report(done, total))
    if results.counts.outcomes.keys() == {"compile_error"}:
        say_aside(
            "warning: no program of the file compiles; do the samples have the form that was "
            "named (see --format)?"
        )
    part = report.parts[""]
    before = part.done_at_start or 0  # verdicts of a run that was interrupted
    text = counted(part.done - before, "verdict")
    if before:
        text += f", {before:,} found from before"
    flags.print_results(results, text)


def _recipe(flags: ScoreFlags) -> ScoreRecipe:
    assert flags.samples is not None
    if flags.column is not None:
        raise InvalidValueError("score: --column is for --rewards")
    mapping = parse_mapping(flags.map)
    keys = {field.name: getattr(flags, field.name) for field in dataclasses.fields(RunRecipe)}
    if flags.problems is None:
        # The log has prompts and answers: its samples are scored by the answers.
        keys["problems"] = problems_of_log(flags.samples, log_format=flags.format, mapping=mapping)
        if flags.reward == BY_TESTS:
            keys["reward"] = "answer"
    return ScoreRecipe(**keys, samples=flags.samples, format=flags.format, map=mapping)
