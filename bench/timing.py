"""Time and memory of functions that give arrays, for the benches of the objectives."""

import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np


def measure(*functions: Callable[[], np.ndarray]) -> list[tuple[float, float, np.ndarray]]:
    """Return each function's median seconds, peak MiB and result; their runs take turns."""
    results: list[np.ndarray] = []
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + 0.5
    while not times[0] or (time.perf_counter() < end and len(times[0]) < 500):
        results.clear()
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            results.append(function())
            seconds.append(time.perf_counter() - start)
    medians = [statistics.median(seconds) for seconds in times]
    return list(zip(medians, map(peak, functions), results, strict=True))


def peak(function: Callable[[], np.ndarray]) -> float:
    """Return the MiB that NumPy and Python allocate at most during one run."""
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20
