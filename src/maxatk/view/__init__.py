"""A page of this machine about trainings and evaluations that run or have ended."""
