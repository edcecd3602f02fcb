"""LiveCodeBench: the lists of `code_list`, with `graded_list` after its evaluation.

Source: github.com/LiveCodeBench/LiveCodeBench, `benchmarks/code_generation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow


def _convert(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    programs = log.texts(row, "code_list")
    outputs = log.texts(row, "output_list") if "output_list" in row else programs
    graded = row.get("graded_list")
    grades = [None] * len(programs) if graded is None else graded
    for name, values in (("output_list", outputs), ("graded_list", grades)):
        if not isinstance(values, list) or len(values) != len(programs):
            raise DataError(
                f"field {name!r}: must hold one value for each of {len(programs)} programs"
            )
    problem = log.identifier(log.field(row, "question_id"), "question_id")
    prompt = row.get("question_content")
    return [
        LogRow(
            problem,
            number,
            output,
            log.reward(grade, "graded_list"),
            program=program,
            prompt=prompt if isinstance(prompt, str) else None,
        )
        for number, (program, output, grade) in enumerate(
            zip(programs, outputs, grades, strict=True)
        )
    ]


FORMAT = LogFormat(
    title="LiveCodeBench's code_list",
    matches=lambda row: {"question_id", "code_list"} <= row.keys(),
    convert=_convert,
)
