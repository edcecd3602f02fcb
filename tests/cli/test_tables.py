"""Tables on a narrow terminal: models as columns, and no number cut."""

import os
import pty
import re
import subprocess
import sys

from maxatk.report import Cell, Table
from processes import read_terminal

PRINT = """
from maxatk.cli.output import Output, emit
from cli.test_tables import wide
emit({"": Output([], wide(), "95% intervals over problems")})
"""
HEADINGS = [f"{metric}@{k}" for metric in ("max", "pass") for k in (1, 8, 32, 128)]


def wide():
    rows = [
        (
            Cell(name),
            *(
                Cell(f".{number}{place:02d}*", f"[.{number}77, .{number}99]", note="3 below 1")
                for place in range(len(HEADINGS))
            ),
        )
        for number, name in enumerate(("base", "a_model_of_a_name_that_is_too_long_for_this"))
    ]
    return Table(("model", *HEADINGS), tuple(rows))


def printed(columns):
    leader, follower = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-c", PRINT],
        stdout=follower,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "PYTHONPATH": "src:tests"},
    )
    os.close(follower)
    shown = read_terminal(leader)
    assert done.wait() == 0
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).replace("\r", "")


def test_a_narrow_terminal_gets_every_number_whole():
    text = printed(80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for number in range(2):
        cells = re.findall(rf"│ (\.{number}\d\d\*) ", text)
        assert cells == [f".{number}{place:02d}*" for place in range(len(HEADINGS))]
        assert text.count(f"[.{number}77, .{number}99]") == len(HEADINGS)
    assert all(f" {heading} " in text for heading in HEADINGS)
    assert text.count("95% intervals over problems") == 1


def test_a_wide_terminal_gets_one_table():
    assert printed(220).count("┏") == 1
