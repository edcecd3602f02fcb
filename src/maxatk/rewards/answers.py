"""Whether an answer is the expected one: `math-verify`, in a process that may hang or take all."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import json
import math
import re
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.errors import DataError, InvalidValueError, MissingDependencyError
from maxatk.records import Problem
from maxatk.rewards.reward import RewardFailure
from maxatk.verifier import completion_text
from maxatk.verifier.reasoning import read_answer

_START_S = 120.0  # for SymPy to be imported, on a machine that is busy
_MEMORY = 4 << 30  # bytes of address space of the process
_MARKED = re.compile(r"(?<!\\)\$|\\boxed")  # says itself where its formula is
_WORDS = re.compile(r"[A-Za-z]{3,}\b(?!\()|\d\s+[A-Za-z][\w./^]*\Z|[€£¥]")  # 18 dollars, 2 m^2
_POWER = re.compile(r"\A([+-]?[\d.]+)[eE]([+-]?\d+)\Z")  # 1e-05, as Python writes a number
_PROGRAM = "from maxatk.rewards.answers import serve; serve()"


class AnswerReward:
    """A reward function in TRL's shape: 1.0 where a completion's answer equals `answer`, else 0.

    It is wrong if it cannot be compared within `timeout_s` seconds, or none would be better than a
    wrong one. Raises MissingDependencyError without math-verify.
    """

    def __init__(self, *, timeout_s: float = 5.0) -> None:
        self._worker: subprocess.Popen[bytes] | None = None
        if importlib.util.find_spec("math_verify") is None:
            raise MissingDependencyError(
                "the reward 'answer' needs the package 'math-verify': pip install 'maxatk[math]'"
            )
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self.__name__ = "answer"

    def check(self, problems: Sequence[Problem]) -> None:
        """Raise InvalidValueError for a problem without `answer`, DataError for no mathematics."""
        for problem in problems:
            if problem.answer is None:
                raise InvalidValueError(
                    f"Problem {problem.id!r}: has no `answer`, which the reward 'answer' needs"
                )
            if not self._ask({"answer": problem.answer}).get("understood"):
                raise DataError(
                    f"Problem {problem.id!r}: answer: {problem.answer!r:.60} is not mathematics "
                    f"that math-verify understands within {self._timeout_s:g} s"
                )

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,  # noqa: ARG002  (part of the shape)
        completions: Sequence[Any] = (),
        answer: Sequence[str] = (),
        **_unused: Any,
    ) -> list[float]:
        """Return 1.0 or 0.0 for each completion; `answer` is a column of the data."""
        if len(answer) != len(completions):
            raise InvalidValueError(
                f"answer: {len(answer)} rows for {len(completions)} completions; the data need a "
                "column `answer`"
            )
        texts = [read_answer(completion_text(completion)).text for completion in completions]
        pairs = list(zip(answer, texts, strict=True))
        known = {
            (gold, text): float(self._ask({"answer": gold, "completion": text}).get("equal", False))
            for gold, text in dict.fromkeys(pairs)
        }
        return [known[pair] for pair in pairs]

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        """Return the worker's answer, {} where it is too slow; raises RewardFailure."""
        with self._lock:
            if self._worker is None or self._worker.poll() is not None:
                pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
                command = [sys.executable, "-c", _PROGRAM]
                self._worker = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
                if not self._said(self._worker, _START_S):
                    raise RewardFailure(f"math-verify was not imported within {_START_S:g} s")
            worker = self._worker
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it died: its output has ended too
                worker.stdin.write(json.dumps(question).encode() + b"\n")
                worker.stdin.flush()
            return self._said(worker, self._timeout_s)

    def _said(self, worker: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
        """Return what the worker says next; end it and return {} where nothing comes in time."""
        assert worker.stdout is not None
        ready, _, _ = select.select([worker.stdout], [], [], seconds)
        line = worker.stdout.readline() if ready else b""
        if not line:
            self.close()
        if ready and not line:
            raise RewardFailure("the process that compares answers died")
        found: dict[str, Any] = json.loads(line or "{}")
        if "error" in found:
            raise RewardFailure(f"math-verify raised {found['error']}")
        return found

    def close(self) -> None:
        """End the process of the comparisons; the next one starts another."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.communicate()  # closes both pipes
            self._worker = None

    __del__ = close


def compute_answer_score(
    data_source: str,  # noqa: ARG001  (part of the shape)
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001
) -> dict[str, float]:
    """Return `score`, 1.0 where the answer of a completion, `solution_str`, is the ground truth.

    That is verl's shape. Where math-verify itself fails `score` is NaN, and `unscored` 1.
    """
    try:
        return {"score": _shared()([], [solution_str], [ground_truth])[0], "unscored": 0.0}
    except RewardFailure:
        return {"score": math.nan, "unscored": 1.0}


_shared = functools.cache(AnswerReward)  # the one of this process, made on first use


def serve() -> None:
    """Answer every JSON line of standard input by one, and before that say that all is imported."""
    import resource

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
        return {"ready": True}
    text = _POWER.sub(r"\1*10^{\2}", question["answer"])
    if not _MARKED.search(text) and ("\\" in text or not _WORDS.search(text)):
        text = f"${text}$"  # a bare formula; of words only the number in them is read
    gold = parse(text, parsing_timeout=None)
    if "completion" not in question:
        return {"understood": bool(gold)}
    found = parse(question["completion"], parsing_timeout=None)
    return {"equal": bool(gold) and bool(verify(gold, found, timeout_seconds=None))}
