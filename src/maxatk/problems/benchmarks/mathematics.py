"""Mathematics with one final answer: GSM8K, MATH-500, AIME, and any other table of questions."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import Any

from maxatk.problems.benchmarks import base
from maxatk.records import Problem

_TASK = "Solve the problem. Reason step by step and put the final answer into \\boxed{}."
_CALCULATION = re.compile(r"<<[^<>]*>>")  # notes of GSM8K for a calculator, inside its solutions


def asked(question: str, style: base.Style) -> str:
    """Return the prompt of a question; "plain" is one that a base model goes on from."""
    question = question.strip()
    return f"Problem: {question}\nSolution:" if style == "plain" else f"{_TASK}\n\n{question}\n"


def gsm8k(row: base.Row, options: base.RowOptions) -> base.Converted:
    """Return the problem of a row of GSM8K; its answer is behind ####, its id a digest."""
    question = base.require_type(row, "question", str)
    solution, mark, answer = base.require_type(row, "answer", str).rpartition("####")
    name = _digest(question)
    if not mark:
        return base.LeftOut(name, "its answer has no ####")
    answer = answer.strip().replace(",", "")  # 1,234
    prompt = asked(question, options.prompt_style)
    problem = Problem(f"gsm8k/{name}", prompt, answer=answer, source="gsm8k")
    return base.SolvedProblem(problem, _boxed(solution, answer))


def math_500(row: base.Row, options: base.RowOptions) -> base.SolvedProblem:
    """Return the problem of a row of MATH-500, with subject and level in its meta."""
    name = base.require_type(row, "unique_id", str).removeprefix("test/").removesuffix(".json")
    answer = base.require_type(row, "answer", str)
    problem = Problem(
        f"math_500/{name}",
        asked(row["problem"], options.prompt_style),
        answer=answer,
        source="math_500",
        meta={"subject": row["subject"], "level": row["level"]},
    )
    return base.SolvedProblem(problem, _boxed(row["solution"], answer))


def aime(row: base.Row, options: base.RowOptions) -> base.SolvedProblem:
    """Return the problem of a row of an AIME, whose answer is an integer from 0 to 999."""
    source = "aime24" if "url" in row else "aime25"
    answer = str(int(row["answer"]))  # "033" in some rows
    prompt = asked(row["problem"], options.prompt_style)
    problem = Problem(f"{source}/{row['id']}", prompt, answer=answer, source=source)
    return base.SolvedProblem(problem, _boxed(row.get("solution"), answer))


def _boxed(solution: str | None, answer: str) -> str | None:
    """Return a solution that ends in a boxed answer, without the notes for a calculator."""
    if solution is None:
        return None
    boxed = "" if "\\boxed" in solution else f"\n\\boxed{{{answer}}}"
    return _CALCULATION.sub("", solution).strip() + boxed


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class TableOptions(base.RowOptions):
    """`hub` and `config` name a data set, where no file is given.

    `prompt`, `answer` and `id` (None: a digest of the prompt) are columns. A prompt is a text, or a
    conversation of one user's turn after at most one of the system. With `instruct` a sentence asks
    for a boxed answer. The other columns that hold a text or a number go into `meta`.
    """

    hub: str | None = None
    config: str | None = None
    prompt: str = "prompt"
    answer: str = "answer"
    id: str | None = None
    instruct: bool = False


def table(row: base.Row, options: TableOptions) -> base.Converted:
    """Return the problem of a row of any table with a question and an answer."""
    text = _text_of(row[options.prompt])
    name = _digest(str(row[options.prompt])) if options.id is None else str(row[options.id])
    if text is None:
        return base.LeftOut(name, "its prompt is no text and no conversation of one user's turn")
    if row[options.answer] in (None, ""):
        return base.LeftOut(name, "has no answer")
    meta = {
        column: value
        for column, value in row.items()
        if column not in (options.prompt, options.answer, options.id)
        and isinstance(value, (str, int, float))
    }
    problem = Problem(
        id=name,
        prompt=asked(text, options.prompt_style) if options.instruct else text,
        answer=str(row[options.answer]),
        source=options.hub or "table",
        meta=meta,
    )
    return base.SolvedProblem(problem, None)


def _text_of(prompt: Any) -> str | None:
    """Return a prompt as one text; None for a conversation with other turns."""
    if isinstance(prompt, str):
        return prompt
    turns = [(turn["role"], turn["content"]) for turn in prompt]
    if [role for role, _ in turns] not in (["user"], ["system", "user"]):
        return None
    return "\n\n".join(content for _, content in turns)


BENCHMARKS = {
    "gsm8k": base.Benchmark(
        hub="openai/gsm8k",
        config="main",
        revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
        splits=("train", "test"),
        licence="MIT",
        size="7,473 and 1,319 rows",
        convert=gsm8k,
    ),
    "math_500": base.Benchmark(
        hub="HuggingFaceH4/MATH-500",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        splits=("test",),
        licence="none stated; MATH is MIT",
        size="500 rows",
        convert=math_500,
    ),
    "aime24": base.Benchmark(
        hub="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        splits=("train",),
        default_split="train",
        licence="none stated",
        size="30 rows",
        convert=aime,
    ),
    "aime25": base.Benchmark(
        hub="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        splits=("test",),
        licence="Apache 2.0",
        size="30 rows",
        convert=aime,
    ),
    "table": base.Benchmark(
        hub="",
        splits=("train", "validation", "test"),
        default_split="train",
        licence="that of the table",
        size="any",
        convert=table,
        options=TableOptions,
    ),
}
