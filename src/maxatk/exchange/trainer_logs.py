"""Rollouts that trainers dump, a row or a file a group of traces.

Sources at github.com, as of August 2026:

- trl: huggingface/trl, `grpo_trainer.py`, `log`;
- verl: volcengine/verl, `_dump_generations` of `trainer_base.py`, and `padding_utils.py`;
- verifiers (up to 0.4.0) and prime-rl: PrimeIntellect-ai/verifiers, `v1/episode.py`,
  `v1/trace.py` and `legacy/utils/save_utils.py`; prime-rl's `monitors/file.py` writes the same;
- slime: THUDM/slime, `observability/rollout_data_utils.py` and `utils/types.py`;
- rLLM: rllm-org/rllm, `eval/episode_store.py` and `types.py`;
- tinker: thinking-machines-lab/tinker-cookbook, `benchmarks/_types.py`, `rollout_logging.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from maxatk.bounded import refuse_packed
from maxatk.check import existing_file, needing
from maxatk.conversations import completion_text, transcript
from maxatk.errors import DataError
from maxatk.exchange import log_rows
from maxatk.exchange.log_rows import LogFormat, LogRow, PlacedRow, RawRow
from maxatk.training.best_of_trl import BEFORE

_TRL_FIELDS = ("step", "prompt", "completion", "advantage")
_SLIME_PLACES = ("index", "group_index")  # of a sample and of its prompt in the data
_VERL_OUTPUT = re.compile(r"(?P<session>.+_\d+)_\d+")  # {prompt}_{session}_{output}
_VERL_FILLS = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")


def _trl(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a row of `log_completions`, one parquet file a step; a reward function is a column."""
    # An advantage knows the rewards of its group: a score that selects has to do without.
    columns = log_rows.numbers(row, without=_TRL_FIELDS)
    # A reward that is empty here, or NaN, may be a number in another row.
    missing = [name for name, value in row.items() if value is None or value != value]
    rewards = [name for name in row if name not in _TRL_FIELDS]
    rewards = [name for name in rewards if name in columns or name in missing]
    paths = {"prompt": "prompt", "completion": "completion"}
    if BEFORE in rewards:
        rewards = [BEFORE]  # what `best_of` returned to the trainer are its advantages
    if "reward" not in mapping:
        if len(rewards) != 1:
            raise DataError(
                f"field 'reward': {len(rewards)} columns may be it ({', '.join(rewards) or 'none'})"
                "; --map reward=NAME chooses one"
            )
        paths["reward"] = rewards[0]
    return [log_rows.sample_at(row, paths, columns)]


def _verl(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a line of `rollout_data_dir` or `validation_data_dir`, one file a step."""
    if _VERL_FILLS.fullmatch(str(row.get("uid"))):
        return []  # it fills a rollout batch, and is no sample
    paths = {"prompt": "input", "completion": "output", "reward": "score", "answer": "gts"}
    columns = log_rows.numbers(row, without=("step", *paths.values()))
    sample = log_rows.sample_at(row, paths, columns)
    output = _VERL_OUTPUT.fullmatch(str(row.get("uid")))
    if output is not None:
        sample.rollout = output["session"]
    return [sample]


def _verifiers(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read an episode of traces.jsonl, whose traces for training are samples, or results.jsonl."""
    if "traces" not in row:
        paths = {
            "problem_id": "example_id",
            "prompt": "prompt",
            "completion": "completion",
            "answer": "answer",
        }
        if not row.get("error"):  # a rollout that failed has a reward of 0 that says nothing
            paths["reward"] = "reward"
        return [log_rows.sample_at(row, paths, log_rows.numbers_at(row, "metrics"))]
    problem_id = _task_of_verifiers(row)
    prompt = log_rows.conversation(log_rows.field(row, "task.data.prompt", absent=None))
    traces = [
        trace
        for trace in log_rows.field(row, "traces", "a list of objects")
        if log_rows.field(trace, "agent.trainable", absent=True)
    ]
    roles = [log_rows.field(trace, "agent.name", absent="") for trace in traces]
    if len(set(roles)) == 1:
        return [_trace(trace, problem_id, prompt) for trace in traces]
    # Rewards of several roles are of several problems: nobody chooses among them.
    return [
        _trace(trace, f"{problem_id} [{role}]", prompt)
        for trace, role in zip(traces, roles, strict=True)
    ]


def _task_of_verifiers(row: RawRow) -> str:
    """Return the id of an episode's problem: the first that the task has."""
    for path in ("task.key", "task.data.name", "task.data.idx", "task.hash"):
        value = log_rows.field(row, path, absent=None)
        if value is not None:
            return log_rows.identifier(value, "task.key")
    return log_rows.identifier(None, "task.key")  # raises, naming the field


def _trace(trace: RawRow, problem_id: str, prompt: str | None) -> LogRow:
    """Return the sample of a trace: what the main agent said last, and its weighted rewards.

    A trace that has failed has no reward, whatever stands there. The last message may be that of a
    sub-agent; then the reply of the main one has a field of its own.
    """
    rewards = log_rows.field(trace, "rewards", "an object", absent={})
    parts = [part for part in rewards.values() if part is not None]
    try:
        total = sum(float(part["score"]) * float(part.get("weight", 1.0)) for part in parts)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        text = f"field 'traces.rewards': must map names to scores, got {parts!r:.60}"
        raise DataError(text) from error
    nodes = log_rows.field(trace, "nodes", "a list of objects")
    messages = [
        log_rows.field(node, "message", "an object") for node in nodes if node.get("sampled")
    ]
    is_scored = len(parts) > 0 and log_rows.field(trace, "ok", absent=True)
    reply = log_rows.field(trace, "root_reply", "text", absent=None)
    return LogRow(
        problem_id,
        completion=completion_text(messages) if reply is None else reply,
        transcript=_transcript(nodes),
        reward=log_rows.reward(total, "traces.rewards") if is_scored else None,
        columns=log_rows.numbers_at(trace, "metrics"),
        prompt=prompt,
        turns=len(messages),
    )


def _transcript(nodes: Sequence[RawRow]) -> str:
    """Return the messages of a trace from the first one that was sampled."""
    sampled = [bool(node.get("sampled")) for node in nodes]
    start = sampled.index(True) if any(sampled) else len(nodes)
    return transcript([log_rows.field(node, "message", "an object") for node in nodes[start:]])


def _slime_rows(path: Path) -> Iterator[PlacedRow]:
    existing_file(path)
    with needing("rollouts of slime need the package 'torch'"):
        import torch
    try:
        refuse_packed(path)
        # weights_only: a file that would run code is refused
        samples = torch.load(path, map_location="cpu", weights_only=True)["samples"]
        rows = list(samples)
    except Exception as error:  # torch's own errors, pickle's, and those of other content
        raise DataError(f"{path}: not a dump of slime's rollouts: {error!s:.200}") from error
    for number, sample in enumerate(rows):
        yield f"{path}, sample {number}", sample


def _slime(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a sample of `--save-debug-rollout-data`."""
    paths = {"prompt": "prompt", "completion": "response", "answer": "label"}
    if row.get("rollout_id") is not None:
        paths["rollout"] = "rollout_id"  # of several samples, where a context was compacted
    if "reward" not in mapping:
        if isinstance(row.get("reward"), Mapping):
            parts = ", ".join(map(str, row["reward"]))
            raise DataError(f"field 'reward': has {parts}; --map reward=reward.NAME chooses one")
        paths["reward"] = "reward"
    columns = log_rows.numbers(row, without=(*_SLIME_PLACES, *paths.values()))
    return [log_rows.sample_at(row, paths, columns)]


def _rllm(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read an episode; its last trajectory is the sample, and whether it is right a column."""
    trajectories = log_rows.field(row, "trajectories", "a list of objects")
    if not trajectories:
        raise DataError("field 'trajectories': is empty")
    trajectory = trajectories[-1]
    correct = float(bool(row["is_correct"]))
    # Without a task an episode is named `problem:number`.
    episode = str(row.get("id", ""))
    problem_id = log_rows.field(row, "task.id", absent=episode.rpartition(":")[0] or episode)
    reward = log_rows.field(trajectory, "reward", absent=correct)
    return [
        LogRow(
            log_rows.identifier(problem_id, "task.id"),
            completion=_rllm_completion(trajectory),
            reward=log_rows.reward(reward, "reward"),
            columns={"correct": correct, **log_rows.numbers_at(row, "metrics")},
            prompt=log_rows.conversation(log_rows.field(row, "task.instruction", absent=None)),
            turns=len(log_rows.field(trajectory, "steps", "a list of objects")),
        )
    ]


def _rllm_completion(trajectory: RawRow) -> str | None:
    """Return what the model wrote in the last step, in whichever of three fields it stands."""
    steps = log_rows.field(trajectory, "steps", "a list of objects")
    step = steps[-1] if steps else {}
    if step.get("model_response"):
        return str(step["model_response"])
    messages = step.get("chat_completions") or []
    return log_rows.conversation(messages[-1:]) or log_rows.conversation(trajectory.get("output"))


def _tinker(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read a row of trajectories.jsonl, or of *_rollout_summaries.jsonl, which has no texts."""
    if "traj_idx" in row:
        parts = [str(log_rows.field(row, name)) for name in ("split", "iteration", "group_idx")]
        columns = log_rows.numbers_at(row, "trajectory_metrics")
        paths = {"problem_id": "group", "sample": "traj_idx", "reward": "total_reward"}
        return [log_rows.sample_at({**row, "group": "/".join(parts)}, paths, columns)]
    turns = log_rows.field(row, "turns", "a list of objects")
    prompt = [turn for turn in turns[:1] if turn.get("role") != "assistant"]
    answers = [turn for turn in turns if turn.get("role") == "assistant"]
    failed = bool(row.get("error"))
    id_field = "idx" if row["example_id"] in (None, "") else "example_id"
    return [
        LogRow(
            log_rows.identifier(row[id_field], id_field),
            completion=log_rows.conversation(answers[-1:]),
            reward=None if failed else log_rows.reward(log_rows.field(row, "reward"), "reward"),
            columns=log_rows.numbers_at(row, "metrics"),
            prompt=log_rows.conversation(prompt) or None,
            turns=len(answers),
        )
    ]


TRAINER_LOGS: Mapping[str, LogFormat] = {
    "trl": LogFormat("TRL's logged completions", [set(_TRL_FIELDS)], _trl),
    "verl": LogFormat(
        "verl's dumped generations",
        [{"input", "output", "score"}],
        _verl,
        rollout_reward="last",
        unique_rollouts=True,  # a compacted context is another prompt, which names the problem
    ),
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
