"""The process that compares answers: one JSON object a line in, one a line out."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

_MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    """Answer every line of standard input until it ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    out = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not look like an answer
    try:
        import math_verify  # noqa: F401  (the seconds of the import are not those of an answer)
    except Exception as error:
        out.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:200]}) + "\n")
        return
    out.write("{}\n")
    out.flush()
    for line in sys.stdin:
        try:
            found: dict[str, Any] = _answer(json.loads(line))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        out.write(json.dumps(found) + "\n")
        out.flush()


def _answer(question: dict[str, str]) -> dict[str, bool]:
    from math_verify import parse, verify

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
