"""A process that compares answers with `math-verify`: a script, one JSON object a line.

It imports SymPy once and forks a process that answers. A comparison that uses up its CPU seconds,
or all memory, ends that process alone; the next one is a fork, which takes milliseconds.
"""

import cmath
import itertools
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
_EQUALS = re.compile(r"(?<![!<>=\\])=(?!=)")
# Digits, signs and macros of arithmetic alone: units and degrees make other things of an equation.
_ARITHMETIC = re.compile(
    r"(?:[\d\s.+\-*/^(){}\[\]]|\\(?:[dt]?frac|cdot|times|div|sqrt|left|right|[,;:! ]))+\Z"
)
_ROUNDED = 0.05  # the relative error of what has a decimal point, as in 2/3 = 0.7
_SMALL = 1e-5  # in size; math-verify compares six decimals, of which such numbers have few
_ROUNDED_SMALL = 1e-3  # the relative error that such numbers may have
_BASE = re.compile(r"(?<![\w}])\d+_\{?(\d+)")  # 2516_8, 110_{2}
_NAMED = re.compile(r"\s*([A-Za-z])\s*=([^=]+)\Z")  # x=1
# What makes another term of a name, as of x in 2x and in x^2.
_OPERATIONS = re.compile(
    r"[\d\s.+\-*/^(){}!]|\\(?:[dt]?frac|cdot|times|sqrt|left|right|exp)(?![A-Za-z])"
    r"|\\(?:log|ln|lg)(?![A-Za-z])(?:_\d|_\{\d+\})?|(?<![A-Za-z])e(?=\^)"
)
_NAME = re.compile(r"[A-Za-z]|\\(?:alpha|beta|gamma|theta|phi|lambda|mu|omega)")
_TURNED = re.compile(r"\A((?:[^A-Za-z\\=<>]|\\[a-z]+)+)=\s*([A-Za-z])\s*\Z")  # 2 = x


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
        completion = f"\\boxed{{{_plain(completion)}}}"
    elif form == "tag":
        completion = _as_formula(completion)
    answer = parse(completion, parsing_timeout=None)
    if not answer and bare is not None and bare != completion:
        answer = parse(bare, parsing_timeout=None)
    if not expected or _contradicts_itself(answer, completion):
        return {"equal": False}
    if _is_interval_of(expected, answer):
        expected, answer = answer, expected  # math-verify compares them in this order alone
    equal = bool(verify(expected, answer, timeout_seconds=None))
    return {"equal": equal and not _differs(expected, answer)}


def _is_interval_of(expected: list[Any], answer: list[Any]) -> bool:
    """Say whether an interval is expected and the answer is a chain such as 1 <= x <= 2."""
    names = [type(values[0]).__name__ if values else "" for values in (expected, answer)]
    return names == ["Interval", "And"]


def _differs(expected: list[Any], answer: list[Any]) -> bool:
    """Say whether answers differ that math-verify takes for equal."""
    gold_text, text = (str(values[-1]) if values else "" for values in (expected, answer))
    if _bases(gold_text) != _bases(text) or _are_swapped(gold_text, text, answer):
        return True
    gold_number, number = _number(expected), _number(answer)
    if gold_number is None:
        return False
    if "=" not in gold_text and _is_term_of_a_name(text):
        return True
    return number is not None and _are_small_and_far(gold_number, number)


def _bases(text: str) -> list[str]:
    """Return the bases in the last side of an equation, as of 110_2: math-verify drops them.

    That of 42_{10} is the one of numbers without any.
    """
    return [base for base in _BASE.findall(_EQUALS.split(text)[-1]) if base != "10"]


def _are_swapped(gold_text: str, text: str, answer: list[Any]) -> bool:
    """Say whether x=1, y=2 is expected and the values come in another order, without names."""
    from math_verify import parse, verify

    equations = [_NAMED.match(part) for part in gold_text.split(",")]
    named = [(equation[1], equation[2]) for equation in equations if equation is not None]
    names = {name for name, _ in named}
    has_names = len(named) == len(equations) == len(names) and len(named) > 1
    if not has_names or "=" in text:
        return False
    for order in (named, sorted(named)):
        values = ", ".join(value for _, value in order)
        if verify(parse(f"$({values})$", parsing_timeout=None), answer, timeout_seconds=None):
            return False
    return True


def _is_term_of_a_name(text: str) -> bool:
    r"""Say whether an equation gives the value of 2x, x^2 or \log x, which is not that of x.

    That of |z| and of \sin A is: they are what questions ask for.
    """
    sides = _EQUALS.split(text)
    if len(sides) < 2 or "," in text:
        return False
    left = sides[0].strip(" (){}")
    rest = _OPERATIONS.sub("", left)
    is_name = _NAME.fullmatch(rest) is not None
    return is_name and rest != left and not left.startswith(f"{rest}(")


def _number(values: list[Any]) -> complex | None:
    try:
        value = values[0]
        return complex(value.rhs if type(value).__name__ == "Equality" else value)
    except (IndexError, AttributeError, TypeError, ValueError, OverflowError):
        return None


def _are_small_and_far(gold: complex, number: complex) -> bool:
    """Say whether small numbers differ: math-verify compares six decimals."""
    is_small = max(abs(gold), abs(number)) < _SMALL
    return is_small and not cmath.isclose(gold, number, rel_tol=_ROUNDED_SMALL)


def _contradicts_itself(answer: list[Any], completion: str) -> bool:
    """Say whether what math-verify read is an equation of numbers that does not hold: 3 = 2.

    It leaves units out, as of 1 km = 1000 m: an equation must stand in the completion as it is.
    """
    text = answer[-1] if answer and isinstance(answer[-1], str) else ""
    if "=" not in text or "".join(text.split()) not in "".join(completion.split()):
        return False
    sides = [side if _ARITHMETIC.match(side) else None for side in _EQUALS.split(text)]
    return any(
        left is not None and right is not None and not _are_equal(left, right)
        for left, right in itertools.pairwise(sides)
    )


def _are_equal(left: str, right: str) -> bool:
    """Say whether two terms of arithmetic are equal, as far as their decimals say."""
    from math_verify import parse

    try:
        numbers = [complex(parse(f"${side}$", parsing_timeout=None)[0]) for side in (left, right)]
    except (IndexError, TypeError, ValueError, OverflowError):
        return True  # no numbers
    rounded = _ROUNDED if "." in left + right else 1e-9
    return cmath.isclose(*numbers, rel_tol=rounded, abs_tol=1e-9)


def _as_formula(text: str) -> str:
    """Return a bare formula as one of LaTeX; of words only the number in them is read."""
    text = _plain(text)
    if not _MARKED.search(text) and ("\\" in text or not _WORDS.search(text)):
        return f"${text}$"
    return text


def _has_several(value: Any) -> bool:
    # By its name: two packages have a class for it.
    return type(value).__name__ == "FiniteSet" and len(value.args) > 1


def _plain(text: str) -> str:
    text = _FULL_STOP.sub("", text.strip())
    return _TURNED.sub(r"\2=\1", _POWER.sub(r"\1*10^{\2}", text))


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose modules are no packages of their own
    main(float(sys.argv[1]))
