"""Rewards that somebody else computed: a table, a log or a data frame, as a run of ours."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxatk.bounded import json_value, placed, read_whole
from maxatk.check import require
from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError, counted, unknown_name
from maxatk.evaluation import folder
from maxatk.evaluation.budgets import budget_columns
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.results import Results
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.exchange import LogRow, log_rows
from maxatk.exchange.open_log import open_log
from maxatk.exchange.recognition import is_named_as_log
from maxatk.folders import file_digest, write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Problem, Sample, Score
from maxatk.table_files import refuse_repeated

if TYPE_CHECKING:
    import pandas as pd


_log = logging.getLogger(__name__)

_SMALLEST_SCALE = 1e-3  # of rewards, below which the rounding of results leaves little of them


class OutsideRewards:
    """The scores of rows, their samples where all have a completion, and what identifies them."""

    def __init__(
        self,
        rows: Sequence[LogRow],
        problem_ids: Sequence[str],
        source: Mapping[str, Any],
        meta: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.problem_ids = problem_ids
        self._meta = meta
        digest = hashlib.sha256(json.dumps(problem_ids).encode()).hexdigest()
        self.settings = {
            "rewards": source,
            "problems": {"count": len(problem_ids), "sha256": digest},
        }
        self.prompts = {row.problem_id: row.prompt for row in rows if row.prompt is not None}
        self.scores = [_score_of(row) for row in rows]
        self.samples: list[Sample] | None = None
        if all(row.completion is not None for row in rows):
            self.samples = [
                Sample(score.problem_id, score.sample, str(row.transcript or row.completion))
                for row, score in zip(rows, self.scores, strict=True)
            ]

    def results(
        self, *, ks: Sequence[int] = (), threshold: float = 1.0, column: str | None = None
    ) -> Results:
        """Return the results of the scores, of which `column` stands in for the reward."""
        return build_results(
            self.problem_ids,
            self.samples,
            ScoreTally(self.scores, column=column),
            manifest={"settings": self.settings, "environment": environment()},
            ks=ks,
            threshold=threshold,
            meta=self._meta,
        )


def _score_of(row: LogRow) -> Score:
    assert row.sample is not None  # `read_log` numbers the samples of a log
    return Score(
        row.problem_id,
        row.sample,
        row.reward,
        passed=0,
        total=0,
        outcome=Outcome.NO_REWARD if row.reward is None else Outcome.SCORED,
        seconds=0.0,
        columns={**row.columns, **budget_columns(row.reached)},
    )


def score_rewards(
    path: str | Path,
    out: str | Path,
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    problems: Mapping[str, Problem] | None = None,
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
    column: str | None = None,
) -> Results:
    """Return the results of rewards that are there already, and write them as a run to `out`.

    `out` gets the files of `score`; samples.jsonl and prompts.jsonl where the file holds them.
    `log_format` and `mapping` are as in `read_log`; `more_ks` are beside 1, 2, 4, ...; `column`
    stands in for the reward. The file must have all `problems`, whose `meta` is kept, and no other.
    One that has grown at its end since makes the run in `out` anew.

    Raises MissingFileError, DataError (every bad line; no reward at all) or InvalidValueError (k,
    column, a folder of other settings), all before anything is written.
    """
    rewards = read_rewards(
        path, log_format=log_format, mapping=mapping, problems=problems, column=column
    )
    results = rewards.results(ks=more_ks, threshold=threshold, column=column)
    out = Path(out)
    written = folder.out_folder(out)
    written.check()
    folder.check_folder(out, rewards.settings, rewards=Path(path))
    with written.alone():
        _write_run(rewards, results, out)
    return results


def _write_run(rewards: OutsideRewards, results: Results, out: Path) -> None:
    folder.write_manifest(out, rewards.settings, threshold=results.passes_from)
    # A file that has grown may lack what all of its rows had before.
    if rewards.samples is not None:
        write_jsonl(out / folder.SAMPLES, (sample.to_json() for sample in rewards.samples))
    else:
        (out / folder.SAMPLES).unlink(missing_ok=True)
    write_jsonl(out / folder.SCORES, (score.to_json() for score in rewards.scores))
    if rewards.prompts:
        prompts = [
            {"problem_id": problem_id, "prompt": prompt}
            for problem_id, prompt in rewards.prompts.items()
        ]
        write_jsonl(out / folder.PROMPTS, prompts)
    write_json(out / folder.RESULTS, results.to_json())


def frame(
    data: pd.DataFrame,
    *,
    problem: str = "problem_id",
    reward: str = "reward",
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
) -> Results:
    """Return the results of a long data frame: one row a sample, as `evaluate` computes them.

    `problem` and `reward` are columns; NaN is a sample without a reward. `more_ks` are beside 1,
    2, 4, ..., and `threshold` is the reward from which a sample passes. A further column `sample`
    has the number of each sample of a problem; rows are counted where there is none.

    Raises InvalidValueError (no such column, a k above the samples), DataError (no number, no row,
    no reward, two columns of one name, a sample that occurs twice, a column `rollout` or `turn`
    that says that several rows are one sample).
    """
    pandas = sys.modules.get("pandas")  # who has a frame has imported it
    is_frame = pandas is not None and isinstance(data, pandas.DataFrame)
    require(is_frame, "data", "a data frame of pandas", data)
    refuse_repeated(data.columns, "data")
    for field, column in (("problem", problem), ("reward", reward)):
        if not isinstance(column, str) or column not in data.columns:
            raise unknown_name(field, column, map(str, data.columns))
    if not len(data):
        raise DataError("data: holds no rows")
    paths = {"problem_id": problem, "reward": reward}
    if "sample" in data.columns and "sample" not in (problem, reward):
        paths["sample"] = "sample"
    rows = []
    for number, row in enumerate(data.to_dict("records")):
        with placed(f"data, row {number}"):
            rows.append(log_rows.sample_at(row, paths))
    _refuse_parts(data.drop(columns=[problem, reward]), [row.problem_id for row in rows])
    _number(rows)
    if all(row.reward is None for row in rows):
        raise DataError(f"data: column {reward!r} holds no rewards")
    source = {"frame": {"problem": problem, "reward": reward}}
    ids = _ids_in_order(rows)
    return OutsideRewards(rows, ids, source).results(ks=more_ks, threshold=threshold)


def _number(rows: Sequence[LogRow]) -> None:
    """Number the samples of each problem that have none; raises DataError for one that is twice."""
    numbers = log_rows.SampleNumbers()
    for number, row in enumerate(rows):
        if not numbers.take(row):
            raise DataError(
                f"data, row {number}: sample {row.sample} of {row.problem_id!r:.80} occurs twice; "
                "allowed: the samples of one run, without the column 'sample' or each by a number "
                "of its own"
            )


def _refuse_parts(columns: pd.DataFrame, problem_ids: Sequence[str]) -> None:
    """Raise DataError where the columns beside the rewards say that rows are parts of samples."""
    allowed = "allowed: one row a sample, or the frame as a file, which `maxatk score` reads"
    if "rollout" not in columns:
        if "turn" in columns:
            raise DataError(f"data: column 'turn' without a column 'rollout'; {allowed}")
        return
    is_named = columns["rollout"].notna()
    names = zip(problem_ids, columns["rollout"].astype(str), strict=True)
    counts = Counter(name for name, named in zip(names, is_named, strict=True) if named)
    for (problem_id, rollout), rows in counts.items():
        if rows > 1:
            raise DataError(
                f"data: column 'rollout': {rows} rows of {rollout!r:.80} of {problem_id!r:.80} "
                f"would count as {rows} samples; {allowed}"
            )


def is_rewards(path: Path) -> bool:
    """Say whether a path is a file of rewards, and neither a folder nor the results of a run."""
    if path.is_dir():
        return False
    if is_named_as_log(path):
        return True
    if path.name == folder.RESULTS or not path.is_file():
        return False
    try:
        content = json_value(read_whole(path))
    except DataError:  # it has a row a line, is packed, or the reader of rewards says what is wrong
        return True
    return not isinstance(content, dict) or "per_problem" not in content


def read_rewards(
    path: str | Path,
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    problems: Mapping[str, Problem] | None = None,
    column: str | None = None,
) -> OutsideRewards:
    """Return the rewards of a file, of which `column` is to stand in for the reward.

    The errors are those of `score_rewards`.
    """
    size = Path(path).stat().st_size if Path(path).is_file() else 0  # it may grow while it is read
    opened = open_log(path, log_format=log_format, mapping=mapping)
    rows = opened.samples(column=column)
    if all(row.reward is None for row in rows):
        reason = "all of its rewards are empty"
        if any(row.completion is not None for row in rows):
            reason = "its samples can be verified: maxatk score --samples instead of --rewards"
        raise DataError(f"{path}: holds no rewards; {reason}")
    _warn_of_small(
        path, [row.reward if column is None else row.columns.get(column) for row in rows]
    )
    ids = _ids_in_order(rows)
    meta = None
    if problems is not None:
        _refuse_other_problems(path, ids, problems)
        ids = list(problems)
        meta = [problem.meta for problem in problems.values()]
    source = {
        "sha256": file_digest(Path(path), first=size),
        "bytes": size,
        "format": opened.format_name,
        "map": dict(mapping or {}),
    }
    return OutsideRewards(rows, ids, source, meta)


def _warn_of_small(path: str | Path, rewards: Sequence[float | None]) -> None:
    """Warn of rewards that differ in decimals which results and tables do not keep."""
    largest = max((abs(reward) for reward in rewards if reward is not None), default=0.0)
    if 0 < largest < _SMALLEST_SCALE:
        _log.warning(
            "%s: no reward is larger than %.3g in size, where tables show three decimals and "
            "results keep six; multiply all rewards by a power of ten",
            path,
            largest,
        )


def _refuse_other_problems(
    path: str | Path, ids: Sequence[str], problems: Mapping[str, Problem]
) -> None:
    """Raise where the ids of a file are not those of the problems."""
    strangers = [problem_id for problem_id in ids if problem_id not in problems]
    if strangers:
        raise DataError(
            f"{path}: the problems file lacks {counted(len(strangers))} of it, the first "
            f"{strangers[0]!r:.80}"
        )
    with_samples = set(ids)
    missing = [problem_id for problem_id in problems if problem_id not in with_samples]
    if missing:
        raise InvalidValueError(
            f"{path}: no sample for {len(missing)} of {counted(len(problems))}, the first "
            f"{missing[0]!r:.80}"
        )


def _ids_in_order(rows: Sequence[LogRow]) -> list[str]:
    return sorted({row.problem_id for row in rows}, key=natural)


def natural(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a key that sorts texts with their numbers in order: 2 before 10.

    Texts that differ in leading zeros alone are in the order of their characters.
    """
    key = []
    for part in re.split(r"(\d+)", text):
        if part.isdecimal():
            # By length and digits: Python refuses to make a number of thousands of them.
            digits = part.lstrip("0")
            key.append((0, len(digits), digits))
        elif part:
            key.append((1, 0, part))
    return key, text
