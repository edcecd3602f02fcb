"""Problems from files and benchmarks: one module each, one dict."""

from maxatk.problems.benchmarks import BENCHMARKS
from maxatk.problems.load import (
    find_problem,
    load_benchmark,
    load_problems,
    problems_by_id,
    read_problems,
    solutions_file,
)
from maxatk.problems.overlap import Overlap
from maxatk.problems.prepare import PrepareSettings, prepare, read_sets, refuse_foreign_outputs

__all__ = [
    "BENCHMARKS",
    "Overlap",
    "PrepareSettings",
    "find_problem",
    "load_benchmark",
    "load_problems",
    "prepare",
    "problems_by_id",
    "read_problems",
    "read_sets",
    "refuse_foreign_outputs",
    "solutions_file",
]
