"""The boxes of a mathematical answer: what its last one holds."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

Boxed: TypeAlias = Literal["required", "preferred"]
"""Whether an answer must stand in a box, or is looked for in the text where there is none."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
# What may stand between two boxes of one answer, as in "\boxed{3} and \boxed{5}".
_JOINED = re.compile(r"[,;]|(?:,\s*)?(?:and|or)")
_MOST_JOINED = 16


class Boxes(NamedTuple):
    """The last box of a text.

    `content` is what it holds, None without a box. `cut_off` says that the last box never closes.
    `joined` are the contents of the boxes that one answer is spread over, the last one included;
    `alternatives` says that all of them are joined by "or".
    """

    content: str | None = None
    cut_off: bool = False
    joined: tuple[str, ...] = ()
    alternatives: bool = False


def last_box(text: str) -> Boxes:
    """Return the last box of a text; one without any content does not count."""
    contents: list[str] = []
    joints: set[str] = set()
    next_start = len(text)
    for match in reversed(list(_BOX.finditer(text))):
        if len(contents) == _MOST_JOINED or match.end() > next_start:  # the latter: in a later box
            break
        end = _closing_brace(text, match.end(), next_start)
        if end is None:
            if contents:
                break
            return Boxes(cut_off=True)
        content = text[match.end() : end].strip()
        if contents:
            joint = _joint(text[end + 1 : next_start])
            if joint is None:
                break
            joints.add(joint)
        if content:
            contents.append(content)
            next_start = match.start()
    if not contents:
        return Boxes()
    alternatives = bool(joints) and joints <= {"or", ", or", ",or"}
    return Boxes(contents[0], joined=tuple(reversed(contents)), alternatives=alternatives)


def _joint(between: str) -> str | None:
    """Return a text between two boxes that makes one answer of them, None for another one."""
    # Without the blanks around it, which an expression would try in every way to share out.
    words = between.strip().removeprefix("$").removesuffix("$").strip()
    return words if _JOINED.fullmatch(words) else None


def _closing_brace(text: str, start: int, end: int) -> int | None:
    """Return where the brace closes whose content starts at a place, None where it never does."""
    depth = 1
    position = start
    while position < end:
        character = text[position]
        if character == "\\":
            position += 1  # the next character is escaped
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None
