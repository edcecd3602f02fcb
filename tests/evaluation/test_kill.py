import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import maxatk
from processes import patience
from runs import rows_of, write_records

KILLS = 20


def lines_without(path, *names):
    return [{n: row[n] for n in row if n not in names} for row in rows_of(path)]


@pytest.mark.long
def test_sigkill_at_random_moments_changes_nothing(tiny_model, problems, tmp_path):
    write_records(tmp_path / "problems.jsonl", problems)
    out = tmp_path / "run"
    script = Path(__file__).with_name("kill_me.py")
    arguments = [str(tiny_model), str(tmp_path / "problems.jsonl"), str(out), str(KILLS), "0"]
    sources = [str(Path(maxatk.__file__).parents[1]), str(Path(__file__).parents[1])]
    finished = subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sources), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=patience(120),
    )
    assert finished.returncode == 0, finished.stderr
    counts = [int(line) for line in finished.stdout.split()]
    assert len(counts) == KILLS
    assert counts == sorted(counts), "a kill lost samples that were written"
    whole = tmp_path / "run-whole"
    assert (out / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    scores = [lines_without(folder / "scores.jsonl", "seconds") for folder in (out, whole)]
    assert scores[0] == scores[1]
    results = [json.loads((folder / "results.json").read_text()) for folder in (out, whole)]
    for result in results:
        del result["manifest"]
    assert results[0] == results[1]
