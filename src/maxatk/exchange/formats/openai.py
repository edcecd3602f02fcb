"""OpenAI's batch API: the lines of its output file.

The `custom_id` is the id of the problem; several samples are several `choices` (`n` of the
request), or several requests `problem#0`, `problem#1`, ...

Source: platform.openai.com/docs/guides/batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, RawRow


def _convert(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    custom = log.text(row, "custom_id")
    if row.get("error") is not None:
        raise DataError(f"field 'error': the request {custom!r} failed: {row['error']!r:.80}")
    response = log.field(row, "response")
    status = response.get("status_code") if isinstance(response, Mapping) else None
    if not isinstance(response, Mapping) or status != 200:
        raise DataError(f"field 'response.status_code': must be 200, got {status!r}")
    body = log.field(response, "body")
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list) or not choices:
        raise DataError(f"field 'response.body.choices': must be a list, got {choices!r:.60}")
    problem, mark, number = custom.rpartition("#")
    if not mark or not number.isdigit():
        return [LogRow(custom, n, _text(choice, n)) for n, choice in enumerate(choices)]
    if len(choices) > 1:
        raise DataError(
            f"field 'response.body.choices': {custom!r} is one sample, got {len(choices)}"
        )
    return [LogRow(problem, int(number), _text(choices[0], 0))]


def _text(choice: Any, number: int) -> str:
    message = choice.get("message") if isinstance(choice, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if content is None and isinstance(choice, Mapping):
        content = choice.get("text")  # of a completions endpoint
    if not isinstance(content, str):
        place = f"response.body.choices.{number}.message.content"
        raise DataError(f"field {place!r}: must be text, got {content!r:.60}")
    return content


FORMAT = LogFormat(
    title="OpenAI's batch output",
    matches=lambda row: {"custom_id", "response"} <= row.keys(),
    convert=_convert,
)
