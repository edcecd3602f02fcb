"""Mathematics with one final answer: GSM8K, MATH-500 and AIME."""

from __future__ import annotations

import hashlib
import re

from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem

_TASK = "Solve the problem. Reason step by step and put the final answer into \\boxed{}."
_CALCULATION = re.compile(r"<<[^<>]*>>")  # notes of GSM8K for a calculator, inside its solutions


def asked(question: str, style: base.Style) -> str:
    """Return the prompt of a question; "plain" is one that a base model goes on from."""
    question = question.strip()
    return f"Problem: {question}\nSolution:" if style == "plain" else f"{_TASK}\n\n{question}\n"


def gsm8k(row: base.Row, options: base.RowOptions) -> base.Converted:
    """Return the problem of a row of GSM8K; its answer is behind ####, its id a digest."""
    question = columns.require_type(row, "question", str)
    solution, mark, answer = columns.require_type(row, "answer", str).rpartition("####")
    name = _digest(question)
    if not mark:
        return base.LeftOut(name, "its answer has no ####")
    answer = answer.strip().replace(",", "")  # 1,234
    prompt = asked(question, options.prompt_style)
    problem = Problem(f"gsm8k/{name}", prompt, answer=answer, source="gsm8k")
    return base.SolvedProblem(problem, _boxed(solution, answer))


def math_500(row: base.Row, options: base.RowOptions) -> base.SolvedProblem:
    """Return the problem of a row of MATH-500, with subject and level in its meta."""
    name = columns.require_type(row, "unique_id", str).removeprefix("test/").removesuffix(".json")
    answer = columns.require_type(row, "answer", str)
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
    name = columns.identity(row["id"], "id")
    problem = Problem(f"{source}/{name}", prompt, answer=answer, source=source)
    return base.SolvedProblem(problem, _boxed(row.get("solution"), answer))


def _boxed(solution: str | None, answer: str) -> str | None:
    """Return a solution that ends in a boxed answer, without the notes for a calculator."""
    if solution is None:
        return None
    boxed = "" if "\\boxed" in solution else f"\n\\boxed{{{answer}}}"
    return _CALCULATION.sub("", solution).strip() + boxed


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
}
