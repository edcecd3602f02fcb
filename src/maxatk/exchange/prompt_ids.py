"""Ids of problems that a log names by their prompt alone, where one prompt has several answers."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

from maxatk.exchange.log_rows import LogRow

_LONGEST_ANSWER = 40  # characters of an answer that stands in an id


def tell_apart(samples: Iterable[LogRow]) -> None:
    """Give samples of one prompt with several answers an id for each of these problems.

    It is for logs that name a problem by its prompt alone. An id has the answer, or its hash where
    that is long, so that it is the same in every file with these answers.
    """
    by_prompt = [s for s in samples if s.named_by_prompt and s.answer is not None]
    answers_of: dict[str, set[str]] = defaultdict(set)
    for sample in by_prompt:
        answers_of[sample.problem_id].add(str(sample.answer))
    ambiguous = {prompt for prompt, answers in answers_of.items() if len(answers) > 1}
    for sample in by_prompt:
        if sample.problem_id not in ambiguous:
            continue
        answer = str(sample.answer)
        if len(answer) > _LONGEST_ANSWER:
            answer = hashlib.sha256(answer.encode("utf-8", "replace")).hexdigest()[:12]
        sample.problem_id = f"{sample.problem_id} [answer {answer}]"
