"""Problems as the parquet file that verl reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.exchange.export import write_table
from maxatk.records import Problem

_NOT_TRUTH = ("id", "prompt", "source", "starter_code")


def write_parquet(problems: Iterable[Problem], path: str | Path) -> int:
    """Write one row a problem, with verl's columns, and return their number.

    `reward_model.ground_truth` is what `maxatk.verifier.compute_score` reads, as JSON; of a problem
    without tests it is its answer, for `maxatk.rewards.compute_answer_score`. Raises
    InvalidValueError for another path than .parquet and no problems, and as `write_table`.
    """
    path = Path(path)
    allowed = "a file that ends in .parquet, which is what verl reads"
    require(path.suffix == ".parquet", "out", allowed, str(path))
    rows = [_row(index, problem) for index, problem in enumerate(problems)]
    if not rows:
        raise InvalidValueError("problems: there is none to export")
    write_table(path, rows)
    return len(rows)


def _row(index: int, problem: Problem) -> dict[str, Any]:
    fields = problem.to_json()
    truth = {name: value for name, value in fields.items() if name not in _NOT_TRUTH}
    answered = problem.answer is not None and not problem.tests
    return {
        "data_source": problem.source or "maxatk",
        "prompt": [{"role": "user", "content": problem.prompt}],
        "ability": "math" if answered else "code",
        "reward_model": {
            "style": "rule",
            "ground_truth": problem.answer if answered else json.dumps(truth),
        },
        "extra_info": {"index": index, "id": problem.id},
    }
