"""The benchmarks by name: one module each, one row of this dict."""

from __future__ import annotations

from maxatk.problems.benchmarks import (
    apps,
    base,
    code_contests,
    code_contests_o,
    code_contests_plus,
    codeforces,
    humaneval,
    livebench,
    livecodebench,
    mathematics,
    mbpp,
    table,
)

BENCHMARKS: dict[str, base.Benchmark] = {
    "code_contests": code_contests.BENCHMARK,
    "cure": code_contests.CURE,
    "code_contests_plus": code_contests_plus.BENCHMARK,
    "code_contests_o": code_contests_o.BENCHMARK,
    "livecodebench": livecodebench.BENCHMARK,
    "livebench": livebench.BENCHMARK,
    "codeforces": codeforces.BENCHMARK,
    "mbpp": mbpp.BENCHMARK,
    "humaneval": humaneval.BENCHMARK,
    "apps": apps.BENCHMARK,
    **mathematics.BENCHMARKS,
    "table": table.BENCHMARK,
}
"""Name -> benchmark; a new one is a module with a `BENCHMARK` and one line here."""
