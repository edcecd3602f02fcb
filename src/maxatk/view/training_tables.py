"""Tables about trainings, as markup of the page: their steps, and groups of samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.errors import counted
from maxatk.folders import known
from maxatk.report.problem_details import rewards_text
from maxatk.report.tables import Cell, table_of_rows, three_decimals
from maxatk.view.markup import markup_of
from maxatk.view.watched_training import WatchedTraining

# Columns of the steps beside max@k, with their units; figures have the rest.
_STEP_COLUMNS = {"reward": "reward", "entropy": "nats a token", "step_time": "seconds a step"}


def steps_of(trainings: Mapping[int, WatchedTraining]) -> list[tuple[int, int]]:
    """Return the steps of all trainings with the places of their runs, the last step first."""
    # A copy of the keys: another request may refresh the run meanwhile.
    steps = [(step, run) for run, watched in trainings.items() for step in [*watched.groups]]
    return sorted(steps, key=lambda step_and_run: (-step_and_run[0], step_and_run[1]))


def steps_markup(
    trainings: Mapping[int, WatchedTraining],
    names: Mapping[int, str],
    quantities: Sequence[str],
    *,
    most: int,
) -> str:
    """Return the last steps of trainings, by the places of their runs, with what was logged.

    `names` are those of the trainings in front of a step, "" for none; of the `quantities` that
    their logs have the table shows some.
    """
    keys = [key for key in quantities if key in _STEP_COLUMNS or "@" in key]
    logged: dict[tuple[int, int], dict[str, Any]] = defaultdict(dict)
    for run, training in trainings.items():
        for row in training.log:
            logged[row["step"], run].update(row)
    steps = steps_of(trainings)
    rows: list[list[Cell | str]] = []
    # A row of the log has means over the steps since the row before it. From the last step
    # backwards, each step has the row that covers it: the next one logged.
    covering: dict[int, dict[str, Any]] = {}
    for step, run in steps[:most]:
        covering[run] = logged.get((step, run)) or covering.get(run, {})
        values = trainings[run].values_of(step)
        cells = [three_decimals(values.get(key, known(covering[run], key))) for key in keys]
        name = Cell(step_name(names[run], step), link=f"#step/{run}/{step}")
        rows.append([name, *cells])
    caption = (
        f"{counted(len(steps), 'step')}, the last first. Reward and max@k are means over the "
        "groups that were kept of the step, the others over the steps since the log's row before. "
        "A step opens its prompts, and so does a click into a figure."
    )
    headings = [_STEP_COLUMNS.get(key, key) for key in keys]
    return markup_of(table_of_rows(("step", *headings), rows), caption, "steps")


def step_name(run: str, step: int) -> str:
    """Return how a step is called: behind the name of its run, if that is given."""
    return f"{run}, {step}" if run else str(step)


def groups_markup(
    groups: Sequence[tuple[Mapping[str, Any], str]], caption: str, *, steps: Sequence[str] = ()
) -> str:
    """Return groups, each with its address on the page, and with the names of their `steps`."""
    headings = ["prompt", "rewards", "mean", "best", "signal"]
    rows = [_group_cells(group, link=address) for group, address in groups]
    if steps:
        headings.append("step")
        for row, step in zip(rows, steps, strict=True):
            row.append(step)
    return markup_of(table_of_rows(headings, rows), caption, "groups")


def _group_cells(group: Mapping[str, Any], *, link: str) -> list[Cell | str]:
    """Return a group as cells: its prompt, rewards, their mean and best, and if it has a signal."""
    rewards = [sample["reward"] for sample in group["samples"]]
    scored = [reward for reward in rewards if reward is not None]
    title = ": ".join(text for text in (group["id"], group["prompt"][:80]) if text)
    advantages = [s["advantage"] for s in group["samples"] if "advantage" in s]
    # Of an evaluation, or a training that recorded no advantages, different rewards are a signal.
    signal = any(advantages) if advantages else len(set(scored)) > 1
    return [
        Cell(title or "–", link=link),
        rewards_text(rewards),
        three_decimals(sum(scored) / len(scored) if scored else None),
        three_decimals(max(scored, default=None)),
        "yes" if signal else "none",
    ]
