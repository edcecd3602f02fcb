"""Run a script of this folder in two processes."""

import os
import subprocess
import sys
from pathlib import Path

from processes import patience

TESTS = Path(__file__).parent.parent
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def launched(launch, script, *arguments):
    """Run a script by a module with its arguments, such as TORCHRUN, until all processes ended."""
    command = [*launch, TESTS / "train" / script, *arguments]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    run = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(200),
    )
    assert run.returncode == 0, run.stderr[-3000:]
