"""The formats that are read: a function that makes samples of a row, and a line below.

The first that matches names a file, so the most particular ones come first. Sources:

- livecodebench: github.com/LiveCodeBench/LiveCodeBench, `benchmarks/code_generation.py`;
- openai-batch: platform.openai.com/docs/guides/batch;
- trl: github.com/huggingface/trl, `grpo_trainer.py`, `log`;
- verl: github.com/volcengine/verl, `trainer_base.py`, `_dump_generations`, and `padding_utils.py`,
  `upsample_batch_to_divisible_size`;
- evalplus: github.com/evalplus/evalplus, `evaluate.py`;
- human-eval: github.com/openai/human-eval, `evaluation.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maxatk.errors import DataError
from maxatk.exchange import harnesses, log
from maxatk.exchange.log import LogFormat, LogRow, RawRow
from maxatk.exchange.rollouts import ROLLOUTS
from maxatk.records import Sample

OURS = "samples"
TABLE = "table"

_PASS = "pass"
_TABLE_FIELDS = ("problem_id", "sample", "reward", "completion", "prompt", "answer")
_TRL_FIELDS = ("step", "prompt", "completion", "advantage")
_VERL_FIELDS = ("input", "output", "gts", "score")
_FILLS = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")


def _ours(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read samples.jsonl of this tool, and the samples that human-eval and EvalPlus take.

    With `task_id` the sample's index counts the lines of its task. Its `solution` (EvalPlus) is
    the program; a `completion` (human-eval) goes on from the prompt.
    """
    if "problem_id" in row:
        sample = Sample.from_json(row)
        return [LogRow(sample.problem_id, sample.sample, sample.completion, whole=sample)]
    if "task_id" not in row:
        raise DataError(
            f"sample: missing field 'problem_id' (or 'task_id' of other tools); got {sorted(row)}"
        )
    given = [name for name in ("solution", "completion") if row.get(name) is not None]
    if not given:
        raise DataError(f"sample: missing field 'completion' or 'solution'; got {sorted(row)}")
    for name in ("task_id", given[0]):
        if not isinstance(row[name], str):
            raise DataError(f"sample: {name!r} must be text, got {row[name]!r:.60}")
    task, text = row["task_id"], row[given[0]]
    if given[0] == "solution":
        return [LogRow(task, completion=text, program=text)]
    return [LogRow(task, completion=text, continues=True)]


def _table(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a plain table; what `mapping` gives need not be there.

    A row of a completion without a reward is one to be verified.
    """
    problem_id, reward = "", None
    if "problem_id" not in mapping:
        problem_id = log.identifier(_column(row, "problem_id"), "problem_id")
    if "reward" not in mapping and ("reward" in row or row.get("completion") is None):
        reward = log.reward(_column(row, "reward"), "reward")
    sample = row.get("sample")
    return [
        LogRow(
            problem_id,
            None if sample is None else log.index(sample, "sample"),
            log.text_or_none(row.get("completion")),
            reward,
            log.numbers(row, without=(*_TABLE_FIELDS, *mapping.values())),
            prompt=log.text_or_none(row.get("prompt")),
        )
    ]


def _column(row: RawRow, name: str) -> Any:
    try:
        return log.field(row, name)
    except DataError as error:
        raise DataError(f"{error}; --map {name}=FIELD says which it is") from error


def _human_eval(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a line of `evaluate_functional_correctness`, with `passed`."""
    passed = row.get("passed")
    if not isinstance(passed, bool):
        raise DataError(f"field 'passed': must be true or false, got {passed!r:.60}")
    task = log.identifier(log.field(row, "task_id"), "task_id")
    return [LogRow(task, completion=log.text(row, "completion"), reward=float(passed))]


def _evalplus(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read `*_eval_results.json`, one object with the samples of every task."""
    tasks = log.field(row, "eval")
    if not isinstance(tasks, dict) or not all(isinstance(found, list) for found in tasks.values()):
        raise DataError(
            f"field 'eval': must be an object of tasks and their lists, got {tasks!r:.60}"
        )
    return [
        _evalplus_sample(task, number, sample)
        for task, samples in tasks.items()
        for number, sample in enumerate(samples)
    ]


def _evalplus_sample(task: str, number: int, sample: Any) -> LogRow:
    if not isinstance(sample, dict) or not isinstance(sample.get("base_status"), str):
        raise DataError(
            f"field 'eval.{task}.{number}.base_status': must be text, got {sample!r:.60}"
        )
    base = float(sample["base_status"] == _PASS)
    columns = {"base": base}
    if sample.get("plus_status") is not None:  # absent where only the base tests were run
        columns["plus"] = base * float(sample["plus_status"] == _PASS)
    solution = log.text(sample, "solution") if sample.get("solution") is not None else None
    return LogRow(task, number, solution, columns.get("plus", base), columns, program=solution)


def _livecodebench(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read the lists of `code_list`, with `graded_list` after the evaluation."""
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
    prompt = log.text_or_none(row.get("question_content"))
    columns = zip(programs, outputs, grades, strict=True)
    return [
        LogRow(
            *(problem, number, output, log.reward(grade, "graded_list")),
            program=program,
            prompt=prompt,
        )
        for number, (program, output, grade) in enumerate(columns)
    ]


def _openai(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a line of a batch's output file.

    The `custom_id` is the id of the problem; several samples are several `choices` (`n` of the
    request), or several requests `problem#0`, `problem#1`, ...
    """
    custom = log.text(row, "custom_id")
    if row.get("error") is not None:
        raise DataError(f"field 'error': the request {custom!r} failed: {row['error']!r:.80}")
    response = log.field(row, "response")
    status = response.get("status_code") if isinstance(response, Mapping) else None
    if not isinstance(response, Mapping) or status != 200:
        raise DataError(f"field 'response.status_code': must be 200, got {status!r:.60}")
    body = log.field(response, "body")
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list) or not choices:
        raise DataError(f"field 'response.body.choices': must be a list, got {choices!r:.60}")
    problem, mark, number = custom.rpartition("#")
    if not mark or not number.isdecimal():
        return [LogRow(custom, n, _choice(choice, n)) for n, choice in enumerate(choices)]
    if len(choices) > 1:
        raise DataError(
            f"field 'response.body.choices': {custom!r} is one sample, got {len(choices)}"
        )
    return [LogRow(problem, int(number), _choice(choices[0], 0))]


def _choice(choice: Any, number: int) -> str:
    message = choice.get("message") if isinstance(choice, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if content is None and isinstance(choice, Mapping):
        content = choice.get("text")  # of a completions endpoint
    if not isinstance(content, str):
        place = f"response.body.choices.{number}.message.content"
        raise DataError(f"field {place!r}: must be text, got {content!r:.60}")
    return content


def _trl(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a row of `log_completions`, one parquet file a logging step. A prompt is its own id.

    Every reward function has a column of its own. With one of them it is the reward; with several
    `--map reward=NAME` chooses.
    """
    prompt = log.conversation(log.field(row, "prompt"))
    completion = log.conversation(log.field(row, "completion"))
    if not prompt or completion is None:
        raise DataError(f"field 'prompt': must be text or messages, got {row['prompt']!r:.60}")
    columns = log.numbers(row, without=())
    rewards = [name for name in columns if name not in _TRL_FIELDS]
    if "reward" not in mapping and len(rewards) != 1:
        raise DataError(
            f"field 'reward': {len(rewards)} columns may be it ({', '.join(rewards) or 'none'}); "
            "--map reward=NAME chooses one"
        )
    value = None if "reward" in mapping else columns[rewards[0]]
    return [LogRow(prompt, None, completion, value, columns, prompt=prompt)]


def _verl(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a line of `rollout_data_dir` or `validation_data_dir`, one file a step.

    An input is its own id. Rows with which verl fills a rollout batch are no samples.
    """
    if _FILLS.fullmatch(str(row.get("uid"))):
        return []
    prompt, truth = log.text(row, "input"), row.get("gts")
    return [
        LogRow(
            prompt,
            None,
            log.text(row, "output"),
            log.reward(log.field(row, "score"), "score"),
            log.numbers(row, without=_VERL_FIELDS),
            prompt=prompt,
            answer=None if truth is None else str(truth),
        )
    ]


FORMATS: dict[str, LogFormat] = {
    "lm-eval": harnesses.LM_EVAL,
    "livecodebench": LogFormat(
        "LiveCodeBench's code_list",
        lambda row: {"question_id", "code_list"} <= row.keys(),
        _livecodebench,
    ),
    "openai-batch": LogFormat(
        "OpenAI's batch output", lambda row: {"custom_id", "response"} <= row.keys(), _openai
    ),
    "inspect": harnesses.INSPECT,
    "trl": LogFormat("TRL's logged completions", lambda row: set(_TRL_FIELDS) <= row.keys(), _trl),
    "verl": LogFormat(
        "verl's dumped generations", lambda row: {"input", "output", "score"} <= row.keys(), _verl
    ),
    "evalplus": LogFormat(
        "EvalPlus's eval_results.json",
        lambda row: isinstance(row.get("eval"), dict) and "hash" in row,
        _evalplus,
    ),
    "human-eval": LogFormat(
        "human-eval's results",
        lambda row: {"task_id", "completion", "passed"} <= row.keys(),
        _human_eval,
    ),
    **ROLLOUTS,
    TABLE: LogFormat(
        "a table of problem_id, sample, reward",
        lambda row: "problem_id" in row and ("reward" in row or "completion" in row),
        _table,
    ),
    OURS: LogFormat(
        "samples to be verified", lambda row: bool({"problem_id", "task_id"} & row.keys()), _ours
    ),
}
"""Name -> format, as `--format` takes it."""
