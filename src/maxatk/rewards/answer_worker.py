"""The process that compares answers: one JSON object a line in, one a line out."""

from __future__ import annotations

import itertools
import json
import resource
import sys
from typing import Any

_MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    """Answer every line of standard input until it ends, and say {} when all is imported."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    out = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not look like an answer
    for line in itertools.chain(["null"], sys.stdin):
        try:
            found = _answer(json.loads(line))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        out.write(json.dumps(found) + "\n")
        out.flush()


def _answer(question: dict[str, str] | None) -> dict[str, Any]:
    from math_verify import parse, verify

    if question is None:
        return {}
    text = question["answer"]
    if "\\" in text and "$" not in text and "\\boxed" not in text:
        text = f"${text}$"  # a bare formula
    gold = parse(text, parsing_timeout=None)
    if "completion" not in question:
        return {"understood": bool(gold)}
    found = parse(question["completion"], parsing_timeout=None)
    return {"equal": bool(gold) and bool(verify(gold, found, timeout_seconds=None))}


if __name__ == "__main__":
    main()
