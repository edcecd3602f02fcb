"""The wording of prompts: one text for each kind of task, and the way it becomes tokens.

A prompt is one text. A model with a chat template gets it as one turn of the user; what would be
the system's turn is its first sentence, because many templates have no system turn and put a
default of their own there. A model without a template gets the text as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

VERSION = "1"
"""Part of every manifest: raised whenever a wording changes, because that changes results."""

Style: TypeAlias = Literal["chat", "plain"]
Kind: TypeAlias = Literal["stdin", "function", "completion"]

_SYSTEM = "You are an expert programmer who writes correct and efficient Python 3."

_TASKS: Mapping[Kind, str] = {
    "stdin": (
        "Solve the problem with a program that reads from standard input and writes to standard "
        "output. Answer with the whole program in one ```python block."
    ),
    "function": (
        "Solve the problem with the code it asks for, under the given names. Import whatever you "
        "use. Answer with the whole code in one ```python block."
    ),
    "completion": (
        "Complete the given code. Answer with the whole code, the given lines included, in one "
        "```python block."
    ),
}


def render(kind: Kind, statement: str, *, starter: str | None = None, style: Style = "chat") -> str:
    """Return the prompt of a task: its statement and, if there is one, the code to start from.

    In the style "plain" the statement of a stdin or function task is followed by a line that
    code can go on from, and a completion without a statement is the given code alone, as
    HumanEval (Chen et al. 2021) prompts base models.
    """
    statement = statement.strip("\n")
    if style == "plain":
        return _plain(kind, statement, starter)
    parts = [f"{_SYSTEM} {_TASKS[kind]}", statement]
    if starter:
        parts.append(f"```python\n{starter.rstrip()}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(kind: Kind, statement: str, starter: str | None) -> str:
    if kind == "completion" and not statement:
        return starter or ""
    return f"{statement}\n\n# Solution in Python 3\n{starter or ''}"
