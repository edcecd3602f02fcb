"""One training step for any trainer: groups in, scaled advantages, log values and a record out.

Needs NumPy alone. `examples/own_loop.py` is a whole trainer on it; `maxatk.train` (TRL) and
`maxatk.verl` hand their tensors in and out.
"""

from maxatk.objectives.objective import Objective
from maxatk.training.best_of import best_of
from maxatk.training.groups import Groups
from maxatk.training.learner import Learner, Step
from maxatk.training.record import TrainingRecord
from maxatk.training.symptoms import findings
from maxatk.training.values import ratio_values

__all__ = [
    "Groups",
    "Learner",
    "Objective",
    "Step",
    "TrainingRecord",
    "best_of",
    "findings",
    "ratio_values",
]
