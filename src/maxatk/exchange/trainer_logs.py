"""Rollouts that trainers dump, a row or a file a group of traces.

Sources at github.com, as of August 2026:

- trl: huggingface/trl, `grpo_trainer.py`, `log`;
- verl: volcengine/verl, `_dump_generations` of `trainer_base.py`, and `padding_utils.py`;
- verifiers and prime-rl: PrimeIntellect-ai/verifiers, `v1/episode.py`, `v1/trace.py` and
  `legacy/utils/save_utils.py`; prime-rl's `monitors/file.py` writes the same episodes;
- slime: THUDM/slime, `observability/rollout_data_utils.py` and `utils/types.py`;
- rLLM: rllm-org/rllm, `eval/episode_store.py` and `types.py`;
- tinker: thinking-machines-lab/tinker-cookbook, `benchmarks/_types.py`, `rollout_logging.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from maxatk.check import existing_file, needing
from maxatk.errors import DataError
from maxatk.exchange import log
from maxatk.exchange.log import LogFormat, LogRow, PlacedRow, RawRow

_TRL_FIELDS = ("step", "prompt", "completion", "advantage")
_VERL_FILLS = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")


def _trl(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a row of `log_completions`, one parquet file a step; a reward function is a column."""
    columns = log.numbers(row)
    # A reward that is empty here, or NaN, may be a number in another row.
    numbers = [name for name, of in row.items() if name in columns or of is None or of != of]
    rewards = [name for name in numbers if name not in _TRL_FIELDS]
    paths = {"prompt": "prompt", "completion": "completion"}
    if "reward" not in mapping:
        if len(rewards) != 1:
            raise DataError(
                f"field 'reward': {len(rewards)} columns may be it ({', '.join(rewards) or 'none'})"
                "; --map reward=NAME chooses one"
            )
        paths["reward"] = rewards[0]
    return [log.sample_at(row, paths, columns)]


def _verl(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a line of `rollout_data_dir` or `validation_data_dir`, one file a step."""
    if _VERL_FILLS.fullmatch(str(row.get("uid"))):  # fills a rollout batch, and is no sample
        return []
    paths = {"prompt": "input", "completion": "output", "reward": "score", "answer": "gts"}
    return [log.sample_at(row, paths)]


def _verifiers(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read an episode of traces.jsonl, whose traces for training are samples, or results.jsonl."""
    if "traces" not in row:
        paths = {name: name for name in ("prompt", "completion", "answer")}
        paths |= {"problem_id": "example_id"} | ({} if row.get("error") else {"reward": "reward"})
        columns = log.numbers_at(row, "metrics")
        return [log.sample_at(row, paths, columns)]
    named = ("task.key", "task.data.name", "task.data.idx", "task.hash")
    ids = (log.field(row, name, absent=None) for name in named)
    problem = log.identifier(next((n for n in ids if n is not None), None), "task.key")
    return [
        _trace(trace, problem, log.conversation(log.field(row, "task.data.prompt", absent=None)))
        for trace in log.field(row, "traces", "a list of objects")
        if log.field(trace, "agent.trainable", absent=True)
    ]


def _trace(trace: RawRow, problem: str, prompt: str | None) -> LogRow:
    rewards = log.field(trace, "rewards", "an object", absent={})
    scored = [score for score in rewards.values() if score is not None]
    try:
        value = sum(float(score["score"]) * float(score.get("weight", 1.0)) for score in scored)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        text = f"field 'traces.rewards': must map names to scores, got {scored!r:.60}"
        raise DataError(text) from error
    nodes = log.field(trace, "nodes", "a list of objects")
    said = [node["message"] for node in nodes if node.get("sampled")]
    columns = log.numbers_at(trace, "metrics")
    reward = log.reward(value, "traces.rewards") if scored else None
    return LogRow(problem, None, log.conversation(said[-1:]), reward, columns, prompt=prompt)


def _slime_rows(path: Path) -> Iterator[PlacedRow]:
    existing_file(path)
    with needing("rollouts of slime need the package 'torch'"):
        import torch
    try:  # weights_only: a file that would run code is refused
        samples = torch.load(path, map_location="cpu", weights_only=True)["samples"]
    except Exception as error:  # torch's own errors, pickle's, and those of other content
        raise DataError(f"{path}: not a dump of slime's rollouts: {error!s:.200}") from error
    for number, sample in enumerate(samples):
        yield f"{path}, sample {number}", sample


def _slime(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a sample of `--save-debug-rollout-data`."""
    paths = {"prompt": "prompt", "completion": "response", "answer": "label"}
    if "reward" not in mapping:
        if isinstance(row.get("reward"), Mapping):
            parts = ", ".join(map(str, row["reward"]))
            raise DataError(f"field 'reward': has {parts}; --map reward=reward.NAME chooses one")
        paths["reward"] = "reward"
    return [log.sample_at(row, paths)]


def _rllm(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read an episode; its last trajectory is the sample, and whether it is right a column."""
    trajectories = log.field(row, "trajectories", "a list of objects")
    if not trajectories:
        raise DataError("field 'trajectories': is empty")
    last, right = trajectories[-1], float(bool(row["is_correct"]))
    name = str(row.get("id", ""))
    problem = log.field(row, "task.id", absent=name.rpartition(":")[0] or name)
    end = (log.field(last, "steps", "a list of objects") or [{}])[-1]
    said = end.get("model_response") or log.conversation((end.get("chat_completions") or [])[-1:])
    said = said or log.conversation(last.get("output"))
    reward = log.reward(log.field(last, "reward", absent=right), "reward")
    columns = {"correct": right, **log.numbers_at(row, "metrics")}
    prompt = log.conversation(log.field(row, "task.instruction", absent=None))
    return [LogRow(log.identifier(problem, "task.id"), None, said, reward, columns, prompt=prompt)]


def _tinker(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a row of trajectories.jsonl, or of *_rollout_summaries.jsonl, which has no texts."""
    if "traj_idx" in row:
        group = "/".join(str(log.field(row, n)) for n in ("split", "iteration", "group_idx"))
        columns = log.numbers_at(row, "trajectory_metrics")
        paths = {"problem_id": "group", "sample": "traj_idx", "reward": "total_reward"}
        return [log.sample_at({**row, "group": group}, paths, columns)]
    turns = log.field(row, "turns", "a list of objects")
    asked = [turn for turn in turns[:1] if turn.get("role") != "assistant"]
    said = [turn for turn in turns if turn.get("role") == "assistant"]
    value = None if row.get("error") else log.reward(log.field(row, "reward"), "reward")
    columns = log.numbers_at(row, "metrics")
    problem = log.identifier(row["example_id"] or row["idx"], "example_id")
    text, prompt = log.conversation(said[-1:]), log.conversation(asked) or None
    return [LogRow(problem, None, text, value, columns, prompt=prompt)]


TRAINER_LOGS: Mapping[str, LogFormat] = {
    "trl": LogFormat("TRL's logged completions", [set(_TRL_FIELDS)], _trl),
    "verl": LogFormat("verl's dumped generations", [{"input", "output", "score"}], _verl),
    "verifiers": LogFormat(
        "rollouts of verifiers or prime-rl",
        [{"env", "task", "traces"}, {"example_id", "prompt", "completion", "reward"}],
        _verifiers,
    ),
    "slime": LogFormat(
        "slime's debug rollout data",
        [{"prompt", "response", "group_index"}],
        _slime,
        rows=_slime_rows,
    ),
    "rllm": LogFormat("rLLM's episodes", [{"trajectories", "is_correct"}], _rllm),
    "tinker": LogFormat(
        "tinker-cookbook's trajectories",
        [{"example_id", "turns", "reward"}, {"group_idx", "traj_idx", "total_reward"}],
        _tinker,
    ),
}
"""Name -> format of a trainer's rollouts."""
