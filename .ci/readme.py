"""Run the Python of README.md and compare what it returns with what the text says.

    python .ci/readme.py [README.md]

Needs maxatk and NumPy alone: blocks that need the trainer are left out. `make release` runs it with
the wheel on every Python that is at hand, and the tests with a wheel of the tree.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np


def compared(text: str) -> int:
    """Return how many values were compared; raises AssertionError for one that differs."""
    count, scope = 0, {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if "maxatk.train" in block:
            continue
        exec(block, scope)
        for line in block.splitlines():
            code, _, comment = line.partition("  # ")
            if comment.startswith(("[", "(")):
                same(eval(code, scope), ast.literal_eval(comment), line)
                count += 1
    return count


def same(value: Any, documented: Any, line: str) -> None:
    """Raise AssertionError where a value is not what its line says, to 1e-4."""
    if isinstance(value, np.ndarray):
        np.testing.assert_allclose(value, documented, atol=1e-4, err_msg=line)
    else:
        assert value == documented, line


if __name__ == "__main__":
    page = Path(*sys.argv[1:] or ["README.md"])
    import maxatk

    print(
        f"python {sys.version.split()[0]}, numpy {np.__version__}, maxatk {maxatk.__version__} "
        f"from {Path(maxatk.__file__).parent}: {compared(page.read_text())} values as README says"
    )
