"""Problems from files and benchmarks: one module each, one dict."""

from maxatk.problems.load import BENCHMARKS, load_benchmark, load_problems, problems_by_id

__all__ = ["BENCHMARKS", "load_benchmark", "load_problems", "problems_by_id"]
