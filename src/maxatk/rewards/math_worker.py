"""A process that compares answers with `math-verify`: a script, one JSON object a line.

It imports SymPy once and forks a process that answers. A comparison that uses up its CPU seconds,
or all memory, ends that process alone; the next one is a fork, which takes milliseconds.
"""

import json
import os
import re
import resource
import signal
import sys
from typing import Any, NoReturn

_MEMORY = 4 << 30  # bytes of address space
_MARKED = re.compile(r"(?<!\\)\$|\\boxed")  # says itself where its formula is
_WORDS = re.compile(r"[A-Za-z]{3,}\b(?!\()|\d\s+[A-Za-z][\w./^]*\Z|[€£¥]")  # 18 dollars, 2 m^2
_POWER = re.compile(r"\A([+-]?[\d.]+)[eE]([+-]?\d+)\Z")  # 1e-05, as Python writes a number
_FULL_STOP = re.compile(r"(?<=[^.\s])\s*\.\Z")  # of a sentence
_THIN_SPACE = re.compile(r"(?<=\d)\\[,;:! ](?=\d{3}(?!\d))")  # 12\,345


def main(seconds: float) -> None:
    """Serve questions until standard input ends, each within so many CPU seconds."""
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    from math_verify import parse, verify  # for all the processes that are forked below

    verify(
        parse("$1$", parsing_timeout=None), parse("2", parsing_timeout=None), timeout_seconds=None
    )
    _write(answers, {"ready": True})
    while True:
        child = os.fork()
        if child == 0:
            _serve(answers, seconds)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return
        timed_out = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        _write(
            answers,
            {"timed_out": True} if timed_out else {"died": os.waitstatus_to_exitcode(status)},
        )


def _serve(answers: int, seconds: float) -> NoReturn:
    """Answer every line by one. The clock is that of the CPU: a busy machine changes no answer."""
    # Without a buffer, in which the questions for the next process would be lost.
    with open(0, "rb", buffering=0, closefd=False) as questions:
        for line in questions:
            signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends this process
            try:
                answer = _answer(**json.loads(line))
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:200]}
            signal.setitimer(signal.ITIMER_PROF, 0)
            _write(answers, answer)
    os._exit(0)


def _write(answers: int, answer: dict[str, Any]) -> None:
    os.write(answers, json.dumps(answer).encode() + b"\n")


def _answer(
    gold: str,
    completion: str | None = None,
    form: str = "prose",
    joined: str | None = None,
    bare: str | None = None,
) -> dict[str, Any]:
    """Say whether math-verify understands a gold answer, and if a completion equals it.

    `form` says whether the completion is what a "box" or a "tag" holds, or "prose". `joined` is
    what several boxes hold, for a gold answer of several values; `bare` is the completion without
    quotes and brackets, which is read where nothing was found in it.
    """
    from math_verify import parse, verify

    expected = parse(_as_formula(gold), parsing_timeout=None)
    if completion is None:
        return {"understood": bool(expected)}
    if joined and any(_has_several(value) for value in expected):
        completion = joined
    if form == "box":
        completion = f"\\boxed{{{_plain_number(completion)}}}"
    elif form == "tag":
        completion = _as_formula(completion)
    answer = parse(completion, parsing_timeout=None)
    if not answer and bare is not None and bare != completion:
        answer = parse(bare, parsing_timeout=None)
    return {"equal": bool(expected) and bool(verify(expected, answer, timeout_seconds=None))}


def _as_formula(text: str) -> str:
    """Return a bare formula as one of LaTeX; of words only the number in them is read."""
    text = _plain_number(text)
    if not _MARKED.search(text) and ("\\" in text or not _WORDS.search(text)):
        return f"${text}$"
    return text


def _has_several(value: Any) -> bool:
    # By its name: two packages have a class for it.
    return type(value).__name__ == "FiniteSet" and len(value.args) > 1


def _plain_number(text: str) -> str:
    text = _FULL_STOP.sub("", text.strip())
    return _POWER.sub(r"\1*10^{\2}", _THIN_SPACE.sub("", text))


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose modules are no packages of their own
    main(float(sys.argv[1]))
