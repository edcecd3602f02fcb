"""A reward that any text has, with ties, for pkg://verl_on_cpu.rewards."""

import os
import zlib


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """Return quarters from 0 to 1 and a score that ranks them otherwise.

    The reward is NaN for about every ninth text where a test asks for it.
    """
    gaps = os.environ.get("VERL_ON_CPU_UNSCORED") == "1"
    unscored = gaps and len(solution_str) % 9 == 0
    score = float("nan") if unscored else (len(set(solution_str)) % 5) / 4
    return {"score": score, "unscored": float(unscored), "judge": judge(solution_str)}


def judge(text):
    """Return a score that has nothing to do with the reward, equal for equal texts alone.

    A correction orders tied scores by their places, and verl's batches have an order of their own.
    """
    return float(zlib.crc32(text.encode()) % 9973)
