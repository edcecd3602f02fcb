from __future__ import annotations
def write_study(study, places, seconds): pass
