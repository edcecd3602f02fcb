"""A module with a reward function, as users have one."""

import numpy as np


def lengths(completions, **_):
    return np.array([len(text) for text in completions])
