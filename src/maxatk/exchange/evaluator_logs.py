"""Logs of evaluations by other tools: a function that makes samples of a row, and a line below.

Sources:

- lm-eval: github.com/EleutherAI/lm-evaluation-harness, `evaluator.py`;
- livecodebench: github.com/LiveCodeBench/LiveCodeBench, `benchmarks/code_generation.py`;
- openai-batch: platform.openai.com/docs/guides/batch;
- inspect: inspect.aisi.org.uk/eval-logs.html;
- evalplus: github.com/evalplus/evalplus, `evaluate.py`;
- human-eval: github.com/openai/human-eval, `evaluation.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.check import existing_file, needing
from maxatk.conversations import reply_text
from maxatk.errors import DataError
from maxatk.exchange import log_rows
from maxatk.exchange.log_rows import ON_ERROR, LogFormat, LogRow, PlacedRow, RawRow
from maxatk.table_files import TextRow

NO_INSPECT = "logs of inspect need the package 'inspect_ai': pip install 'maxatk[inspect]'"

_PASS = "pass"
_REMEDY = (  # for a failed request
    "; send it again, or choose what it is worth: --map on_error=drop leaves it out, and "
    "--map on_error=zero takes an empty completion"
)
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def _human_eval(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a line of `evaluate_functional_correctness`, with `passed`."""
    paths = {"problem_id": "task_id", "completion": "completion", "reward": "passed"}
    return [log_rows.sample_at(row, paths)]


def _evalplus(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read `*_eval_results.json`, one object with the samples of every task."""
    tasks = log_rows.field(row, "eval", "an object")
    return [
        _evalplus_sample(task, number, sample)
        for task in tasks
        for number, sample in enumerate(log_rows.field(tasks, task, "a list of objects"))
    ]


def _evalplus_sample(task: str, number: int, sample: RawRow) -> LogRow:
    try:
        base = float(log_rows.field(sample, "base_status", "text") == _PASS)
        solution = log_rows.field(sample, "solution", "text", absent=None)
    except DataError as error:
        raise DataError(f"field 'eval.{task}.{number}': {error}") from error
    columns = {"base": base}
    reward = base
    if sample.get("plus_status") is not None:  # absent where only the base tests were run
        reward = base * float(sample["plus_status"] == _PASS)
        columns["plus"] = reward
    return LogRow(task, number, solution, reward, columns, program=solution)


def _livecodebench(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read the lists of `code_list`, with `graded_list` after the evaluation."""
    programs = log_rows.field(row, "code_list", "a list of texts")
    texts = log_rows.field(row, "output_list", "a list of texts", absent=programs)
    grades = log_rows.field(row, "graded_list", "a list", absent=[None] * len(programs))
    texts = log_rows.one_each(texts, len(programs), "output_list")
    grades = log_rows.one_each(grades, len(programs), "graded_list")
    problem_id = log_rows.identifier(log_rows.field(row, "question_id"), "question_id")
    prompt = log_rows.conversation(row.get("question_content"))
    samples: list[LogRow] = []
    for program, text, grade in zip(programs, texts, grades, strict=True):
        reward = log_rows.reward(grade, "graded_list")
        number = len(samples)
        samples.append(LogRow(problem_id, number, text, reward, program=program, prompt=prompt))
    return samples


def _openai(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a line of a batch's output file, whose `custom_id` is the id of the problem.

    Several samples are several `choices`, or several requests `problem#0`, `problem#1`, ...
    """
    custom = log_rows.field(row, "custom_id", "text")
    problem_id, mark, number_of_request = custom.rpartition("#")
    is_numbered = bool(mark) and number_of_request.isdecimal()
    failure = _failure_of(row, custom)
    if failure is not None:
        rule = mapping.get(ON_ERROR, "stop")
        if rule == "stop":
            raise DataError(failure + _REMEDY)
        samples = [] if rule == "drop" else [LogRow(custom, completion="")]
    else:
        samples = _choices_of(row, custom)
    if not is_numbered or not samples:
        return samples
    if len(samples) != 1:
        raise DataError(
            f"field 'response.body.choices': {custom!r} is one sample, got {len(samples)}"
        )
    number = log_rows.index(number_of_request, "custom_id")
    problem_id = log_rows.identifier(problem_id, "custom_id")
    return [LogRow(problem_id, number, samples[0].completion)]


def _failure_of(row: RawRow, custom: str) -> str | None:
    """Return why a request has no answer, None for one that has."""
    if row.get("error") is not None:
        return f"field 'error': the request {custom!r:.80} failed: {row['error']!r:.80}"
    status = log_rows.field(row, "response.status_code", absent=None)
    if status == 200:
        return None
    reason = log_rows.field(row, "response.body.error.message", absent="")
    got = f"{status!r:.60} for the request {custom!r:.80}" + (f": {reason!r:.80}" if reason else "")
    return f"field 'response.status_code': must be 200, got {got}"


def _choices_of(row: RawRow, custom: str) -> list[LogRow]:
    choices = log_rows.field(row, "response.body.choices", "a list of objects")
    if not choices:
        raise DataError(f"field 'response.body.choices': of {custom!r:.80} must not be empty")
    samples = []
    for number, choice in enumerate(choices):
        path = f"response.body.choices.{number}"
        text = _openai_text(row, choice, path)
        # The choices of a request may stand in any order.
        index = log_rows.index(log_rows.field(choice, "index", absent=number), f"{path}.index")
        samples.append(LogRow(custom, index, text))
    return samples


def _openai_text(row: RawRow, choice: RawRow, path: str) -> str:
    """Return the text of a choice, which has `text` from completions and a message from chats."""
    if "text" in choice:
        return str(log_rows.field(row, f"{path}.text", "text"))
    message = log_rows.field(row, f"{path}.message", "an object")
    text = reply_text(message, finish_reason=choice.get("finish_reason"))
    return str(log_rows.field(row, f"{path}.message.content", "text")) if text is None else text


def _lm_eval(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a row of samples_*.jsonl (`--log_samples`): a document under one of its filters.

    The first metric is the reward, and all are columns, such as acc and acc_norm; a document whose
    first metric is empty or NaN has no reward. A repeated document has one for all its responses,
    so they have none.
    """
    filters = log_rows.names_chosen(mapping, "filter")
    if filters and row.get("filter") not in filters:
        return []
    # A list of requests, and for each a list of its repeats. A task of multiple choice has a
    # request for each of its answers, and pairs of numbers instead of texts.
    requests = log_rows.field(row, "resps")
    one_request = isinstance(requests, list) and len(requests) == 1
    responses: Any = requests[0] if one_request else None
    names = log_rows.field(row, "metrics", "a list of texts")
    metrics = log_rows.numbers({name: row.get(name) for name in names})
    # Metrics over all documents alone, such as a correlation, have a pair or more for each.
    of_documents = [name for name in names if not isinstance(row.get(name), (list, Mapping))]
    reward = log_rows.reward(row.get(of_documents[0]), of_documents[0]) if of_documents else None
    paths = {"problem_id": "doc_id", "prompt": "arguments.gen_args_0.arg_0", "answer": "target"}
    if not log_rows.is_list_of(str, responses):
        if not of_documents:
            raise DataError(
                "field 'resps': must be one list of generated texts, or metrics of multiple "
                f"choice, got {requests!r:.60}"
            )
        sample = log_rows.sample_at(row, paths, metrics)
        return [dataclasses.replace(sample, sample=0, reward=reward)]
    if len(responses) > 1:
        metrics = {}
        reward = None
    sample = log_rows.sample_at(row, paths, metrics)
    return [
        dataclasses.replace(sample, sample=number, completion=response, reward=reward)
        for number, response in enumerate(responses)
    ]


def _inspect_rows(path: Path) -> Iterator[PlacedRow]:
    existing_file(path)
    with needing(NO_INSPECT):
        from inspect_ai.log import read_eval_log
    try:
        samples = read_eval_log(str(path)).samples or []
    except Exception as error:  # its own errors, zipfile's and pydantic's
        raise DataError(f"{path}: inspect_ai does not read it: {error}") from error
    for sample in samples:
        scores = {name: score.value for name, score in (sample.scores or {}).items()}
        # inspect takes the text of a number as one too
        row = TextRow({name: getattr(sample, name) for name in ("id", "epoch", "input", "target")})
        row |= {"completion": sample.output.completion, "scores": scores}
        row["turns"] = sum(message.role == "assistant" for message in sample.messages)
        yield f"{path}, sample {sample.id}, epoch {sample.epoch}", row


def _inspect(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a sample of a log, `.eval` or `.json`, that inspect's own reader has read.

    An epoch is a sample. One scorer's score is the reward, every score a column, letters numbers.
    """
    scores = {name: _LETTERS.get(str(value), value) for name, value in row["scores"].items()}
    scorer = _scorer_of(scores, mapping)
    reward = None
    if scorer is not None and "reward" not in mapping:
        reward = log_rows.reward(scores[scorer], f"scores.{scorer}", text_is_number=True)
    prompt = row["input"]
    if not isinstance(prompt, str):
        prompt = "\n".join(message.text for message in prompt)
    target = row["target"]
    return [
        LogRow(
            log_rows.identifier(row["id"], "id"),
            row["epoch"] - 1,  # epochs count from 1, samples from 0
            row["completion"],
            reward,
            log_rows.numbers(TextRow(scores)),
            prompt=prompt,
            answer=target if isinstance(target, str) else "\n".join(target),
            turns=row.get("turns"),
        )
    ]


def _scorer_of(scores: Mapping[str, Any], mapping: Mapping[str, str]) -> str | None:
    """Return the scorer that gives the reward, None where the sample has no score.

    Raises DataError unless the scorers that `--map` names, or all without it, are one here.
    """
    named = log_rows.names_chosen(mapping, "scorer")
    chosen = [name for name in scores if name in named] if named else list(scores)
    if not scores:
        return None
    if not chosen:
        wanted = " or ".join(map(repr, named))
        raise DataError(
            f"field 'scores': has no {wanted}; {log_rows.other_names('scorer', named, scores)}"
        )
    if len(chosen) > 1 and "reward" not in mapping:
        raise DataError(f"field 'scores': has {', '.join(chosen)}; --map scorer=NAME chooses one")
    return chosen[0]


EVALUATOR_LOGS: Mapping[str, LogFormat] = {
    "lm-eval": LogFormat(
        "lm-eval's samples", [{"doc_id", "resps", "filtered_resps"}], _lm_eval, choice="filter"
    ),
    "livecodebench": LogFormat(
        "LiveCodeBench's code_list", [{"question_id", "code_list"}], _livecodebench
    ),
    "openai-batch": LogFormat(
        "OpenAI's batch output",
        [{"custom_id", "response"}],
        _openai,
        rules={ON_ERROR: ("stop", "drop", "zero")},
    ),
    "inspect": LogFormat(
        "a log of inspect_ai",
        [{"eval", "plan", "version"}, {"epoch", "scores"}],
        _inspect,
        choice="scorer",
        rows=_inspect_rows,
    ),
    "evalplus": LogFormat("EvalPlus's eval_results.json", [{"eval", "hash"}], _evalplus),
    "human-eval": LogFormat(
        "human-eval's results", [{"task_id", "completion", "passed"}], _human_eval
    ),
}
"""Name -> format of the log of an evaluation."""
