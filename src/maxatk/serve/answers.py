"""What a request is answered with: a status, and a JSON object that shows nothing of the host."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

OK = 200
TRY_AGAIN = 504
"""The one status that verl's client takes as a reason to send its request again."""
ENDING = "the server is ending; try again"


@dataclasses.dataclass(frozen=True)
class Answer:
    """A status and the bytes of a JSON object."""

    status: int
    data: bytes


def answer(status: int, content: Mapping[str, Any]) -> Answer:
    """Return the answer of a JSON object."""
    return Answer(status, json.dumps(content).encode())


def refusal(status: int, reason: str) -> Answer:
    """Return the answer to a request that is not carried out."""
    return answer(status, {"error": reason})


class RefusedError(Exception):
    """A request is not carried out."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer = refusal(status, reason)
