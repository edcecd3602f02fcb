"""What a page shows of lines that may be damaged: what cannot be read is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from maxatk.bounded import json_value
from maxatk.check import is_finite
from maxatk.errors import DataError
from maxatk.folders import known, writable

LONGEST_LINE = 1 << 26  # bytes; a longer line of a file is not read
_NUMBERS = ("reward", "advantage", "selection", "tokens", "passed", "tests")  # of a sample


def row_of(line: bytes) -> dict[str, Any]:
    """Return the object of a line; an empty one where it cannot be read."""
    try:
        row = json_value(line)
    except DataError:
        return {}
    return row if isinstance(row, dict) else {}


def finder_of(text: str) -> Callable[[bytes], bool]:
    """Return what says whether a line of JSON, which is not parsed, holds a text in either case."""
    if text.isascii():
        wanted = json.dumps(text.lower())[1:-1].encode()
        return lambda line: wanted in line.lower()
    # Bytes know the case of ASCII alone, and other letters stand as they are or as an escape.
    parts = [b"|".join(map(re.escape, _spellings(character))) for character in text]
    pattern = re.compile(b"".join(b"(?:%s)" % part for part in parts), re.IGNORECASE)
    return lambda line: pattern.search(line) is not None


def _spellings(character: str) -> list[bytes]:
    """Return all that a character of a text may be in a line of JSON."""
    spellings = set()
    for case in (character, character.lower(), character.upper()):
        for as_escape in (True, False):
            spelling = json.dumps(case, ensure_ascii=as_escape)[1:-1]
            spellings.add(spelling.encode("utf-8", "replace"))
    return sorted(spellings)


def readable_group(line: bytes) -> dict[str, Any]:
    """Return the group of a line of groups.jsonl; one without samples where it cannot be read."""
    return cleaned_group(row_of(line))


def cleaned_group(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group whose parts have the types that the page shows; what has others is None."""
    samples = row.get("samples")
    name = row.get("id")
    key = row.get("group")
    prompt = row.get("prompt")
    return {
        **writable(row),
        "id": str(name) if isinstance(name, str) or is_finite(name) else None,
        "group": key if isinstance(key, str) else "",
        "prompt": prompt if isinstance(prompt, str) else "(this group cannot be read)",
        "samples": [
            _cleaned_sample(sample)
            for sample in (samples if isinstance(samples, list) else [])
            if isinstance(sample, dict)
        ],
    }


def _cleaned_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    text = sample.get("text")
    rewards = sample.get("rewards")
    cleaned = {**writable(sample), "text": text if isinstance(text, str) else ""}
    cleaned |= {name: known(sample, name) for name in _NUMBERS if name in sample}
    cleaned["reward"] = known(sample, "reward")
    if "rewards" in cleaned:
        cleaned["rewards"] = writable(rewards) if isinstance(rewards, dict) else {}
    return cleaned
