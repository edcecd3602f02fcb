"""Rollouts that trainers dump, a row or a file a group of traces.

Sources, as of August 2026:

- verifiers and prime-rl: github.com/PrimeIntellect-ai/verifiers, `v1/episode.py`, `v1/trace.py`
  and `legacy/utils/save_utils.py`; prime-rl's `monitors/file.py` writes the same episodes;
- slime: github.com/THUDM/slime, `observability/rollout_data_utils.py` and `utils/types.py`;
- rLLM: github.com/rllm-org/rllm, `eval/episode_store.py` and `types.py`;
- tinker: github.com/thinking-machines-lab/tinker-cookbook, `eval/benchmarks/_types.py` and
  `rl/rollout_logging.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from maxatk.check import existing_file
from maxatk.errors import DataError, MissingDependencyError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow


def _verifiers(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read an episode of traces.jsonl, whose traces are samples, or a row of results.jsonl.

    A reward is the sum of the scores times their weights. A trace that trains nothing, such as
    a judge's, is no sample.
    """
    if "traces" not in row:
        prompt = log.conversation(log.field(row, "prompt"))
        columns = log.numbers(row.get("metrics") or {}, without=())
        problem = log.identifier(row["example_id"], "example_id")
        value = None if row.get("error") else log.reward(row["reward"], "reward")
        text, answer = log.conversation(row["completion"]), log.text_or_none(row.get("answer"))
        return [LogRow(problem, None, text, value, columns, prompt=prompt, answer=answer)]
    task = log.mapping(row, "task")
    data = log.mapping(task, "data")
    named = (task.get("key"), data.get("name"), data.get("idx"), task.get("hash"))
    problem = log.identifier(next((n for n in named if n is not None), None), "task.key")
    return [
        _trace(trace, problem, log.conversation(data.get("prompt")))
        for trace in log.mappings(row, "traces")
        if log.mapping(trace, "agent", {}).get("trainable", True)
    ]


def _trace(trace: RawRow, problem: str, prompt: str | None) -> LogRow:
    scored = [score for score in log.mapping(trace, "rewards", {}).values() if score is not None]
    if not all(
        isinstance(s, Mapping) and log.as_number(s.get("score")) is not None for s in scored
    ):
        raise DataError(f"field 'traces.rewards': must map names to scores, got {scored!r:.60}")
    said = [node["message"] for node in log.mappings(trace, "nodes") if node.get("sampled")]
    value = sum(float(s["score"]) * float(s.get("weight", 1.0)) for s in scored)
    columns = log.numbers(log.mapping(trace, "metrics", {}), without=())
    reward = log.reward(value, "traces.rewards") if scored else None
    return LogRow(problem, None, log.conversation(said[-1:]), reward, columns, prompt=prompt)


def _slime_rows(path: Path) -> Iterator[PlacedRow]:
    existing_file(path)
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError("rollouts of slime need the package 'torch'") from error
    try:  # weights_only: a file that would run code is refused
        samples = torch.load(path, map_location="cpu", weights_only=True)["samples"]
    except Exception as error:  # torch's own errors, pickle's, and those of other content
        raise DataError(f"{path}: not a dump of slime's rollouts: {error!s:.200}") from error
    for number, sample in enumerate(samples):
        yield f"{path}, sample {number}", functools.partial(dict, sample)


def _slime(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a sample of `--save-debug-rollout-data`. A prompt is its own id.

    A reward of several parts needs `--map reward=reward.NAME`.
    """
    prompt, value = log.conversation(log.field(row, "prompt")), row.get("reward")
    if not prompt:
        raise DataError(f"field 'prompt': must be text or messages, got {row['prompt']!r:.60}")
    if "reward" in mapping:
        value = None
    elif isinstance(value, Mapping):
        parts = ", ".join(map(str, value))
        raise DataError(f"field 'reward': has {parts}; --map reward=reward.NAME chooses one")
    columns = log.numbers(row, without=("reward", "label", "prompt", "response"))
    answer = log.text_or_none(row.get("label"))
    given = log.text(row, "response"), log.reward(value, "reward"), columns
    return [LogRow(prompt, None, *given, prompt=prompt, answer=answer)]


def _rllm(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read an episode; its last trajectory is the sample, and whether it is right a column."""
    task, trajectories = row.get("task"), log.mappings(row, "trajectories")
    if not trajectories:
        raise DataError("field 'trajectories': is empty")
    last = trajectories[-1]
    task = task if isinstance(task, Mapping) else {}
    problem = task.get("id") or str(row.get("id", "")).rpartition(":")[0] or row.get("id")
    steps = log.mappings(last, "steps")
    end = steps[-1] if steps else {}
    said = end.get("model_response") or log.conversation((end.get("chat_completions") or [])[-1:])
    value = last.get("reward")
    return [
        LogRow(
            log.identifier(problem, "task.id"),
            None,
            said or log.text_or_none(last.get("output")),
            float(bool(row["is_correct"])) if value is None else log.reward(value, "reward"),
            {
                "correct": float(bool(row["is_correct"])),
                **log.numbers(row.get("metrics") or {}, without=()),
            },
            prompt=log.conversation(task.get("instruction")),
        )
    ]


def _tinker(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a row of an evaluation's trajectories.jsonl, or of *_rollout_summaries.jsonl.

    A summary has no texts, and its problem is the group of a split and an iteration.
    """
    if "traj_idx" in row:
        problem = "/".join(str(log.field(row, n)) for n in ("split", "iteration", "group_idx"))
        columns = log.numbers(log.mapping(row, "trajectory_metrics", {}), without=())
        number = log.index(row["traj_idx"], "traj_idx")
        return [
            LogRow(problem, number, None, log.reward(row["total_reward"], "total_reward"), columns)
        ]
    turns = log.mappings(row, "turns")
    asked = [turn for turn in turns[:1] if turn.get("role") != "assistant"]
    said = [turn for turn in turns if turn.get("role") == "assistant"]
    value = None if row.get("error") else log.reward(log.field(row, "reward"), "reward")
    columns = log.numbers(log.mapping(row, "metrics", {}), without=())
    problem = log.identifier(row["example_id"] or row["idx"], "example_id")
    text, prompt = log.conversation(said[-1:]), log.conversation(asked) or None
    return [LogRow(problem, None, text, value, columns, prompt=prompt)]


ROLLOUTS: Mapping[str, LogFormat] = {
    "verifiers": LogFormat(
        "rollouts of verifiers or prime-rl",
        lambda row: (
            {"env", "task", "traces"} <= row.keys()
            or {"example_id", "prompt", "completion", "reward"} <= row.keys()
        ),
        _verifiers,
    ),
    "slime": LogFormat(
        "slime's debug rollout data",
        lambda row: {"prompt", "response", "group_index"} <= row.keys(),
        _slime,
        rows=_slime_rows,
    ),
    "rllm": LogFormat(
        "rLLM's episodes", lambda row: {"trajectories", "is_correct"} <= row.keys(), _rllm
    ),
    "tinker": LogFormat(
        "tinker-cookbook's trajectories",
        lambda row: (
            {"example_id", "turns", "reward"} <= row.keys()
            or {"group_idx", "traj_idx", "total_reward"} <= row.keys()
        ),
        _tinker,
    ),
}
"""Name -> format of a trainer's rollouts."""
