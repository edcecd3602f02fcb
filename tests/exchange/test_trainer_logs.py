"""Rollouts as trainers dump them: rows as the projects' own sources write them in August 2026.

verifiers a60a606 (21 August), with which prime-rl 559b447 (21 August) writes its episodes too;
slime 624b824 (21 August); rLLM 9beb6e0 (15 August); tinker-cookbook 9dfcc3a (19 August).
"""

import json

import pytest
import torch

from maxatk.errors import DataError
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.exchange import read_log
from maxatk.jsonl import write_jsonl


def a_trace(text, score, *, name="solver", trainable=True):
    """One trace as `Episode.to_record` writes it, without what is None."""
    question = {"message": {"role": "user", "content": "Add."}, "sampled": False, "token_ids": []}
    reply = {"message": {"role": "assistant", "content": text}, "sampled": True, "parent": 0}
    rewards = {"correct": {"score": score, "weight": 1.0}, "style": {"score": 1.0, "weight": 0.5}}
    return {
        "version": 1,
        "id": text,
        "agent": {"config": {}, "name": name, "trainable": trainable},
        "nodes": [question, reply],
        "rewards": rewards if score is not None else {},
        "metrics": {"length": 3.0},
        "ok": score is not None,
    }


def an_episode(*traces):
    data = {"idx": 4, "prompt": [{"role": "user", "content": "Add."}]}
    task = {"type": "Gsm8k", "data": data, "key": "gsm8k-4", "hash": "9f"}
    return {"id": "e", "env": {"id": "gsm8k"}, "task": task, "ok": True, "traces": list(traces)}


def slime_sample(group, index, reward):
    """`Sample.to_dict` of slime, with the fields that say something and tensors beside them."""
    return {
        "group_index": group,
        "index": index,
        "prompt": [{"role": "user", "content": f"Problem {group}"}],
        "tokens": [1, 2, 3],
        "rollout_routed_experts": torch.zeros(2, 2),
        "response": f"answer {index}",
        "response_length": 3,
        "label": "7",
        "reward": reward,
        "status": "completed",
        "metadata": {},
    }


def rllm_episode(number, reward):
    step = {
        "id": "s",
        "input": None,
        "reward": reward,
        "done": True,
        "chat_completions": [
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": f"says {number}"},
        ],
        "model_response": f"says {number}",
    }
    trajectory = {"uid": "u", "name": "solver", "steps": [step], "reward": reward, "signals": {}}
    return {
        "id": f"row-1:{number}",
        "task": {"id": "row-1", "instruction": "Add.", "metadata": {}},
        "is_correct": reward == 1.0,
        "trajectories": [trajectory],
        "metrics": {"turns": 1},
        "eval_idx": number,
    }


def tinker_trajectory(reward, *, error=None):
    turns = [
        {"role": "user", "content": "Add.", "token_count": 2, "metadata": {}},
        {"role": "assistant", "content": f"gets {reward}", "token_count": 2, "metadata": {}},
    ]
    row = {"idx": 0, "benchmark": "gsm8k", "example_id": "gsm8k-af", "turns": turns}
    row |= {"reward": reward, "metrics": {"correct": reward}, "logs": {}, "error": error}
    return {**row, "time_seconds": 1.0}


def tinker_summary(number, reward):
    row = {"schema_version": 1, "split": "train", "iteration": 3, "group_idx": 0}
    row |= {"traj_idx": number, "tags": [], "sampling_client_step": 2, "total_reward": reward}
    row |= {"final_reward": reward, "trajectory_metrics": {"format": 1.0}, "steps": []}
    return {**row, "final_ob_len": 9}


def rows_of(path, **options):
    rows = read_log(path, **options)
    return [(row.problem_id, row.sample, row.completion, row.reward) for row in rows]


def test_an_episode_of_verifiers_has_the_traces_that_train(tmp_path):
    judge = a_trace("judged", 1.0, name="judge", trainable=False)
    rows = [an_episode(a_trace("one", 1.0), judge), an_episode(a_trace("two", 0.0))]
    write_jsonl(tmp_path / "traces.jsonl", [*rows, an_episode(a_trace("failed", None))])
    assert rows_of(tmp_path / "traces.jsonl") == [
        ("gsm8k-4", 0, "one", 1.5), ("gsm8k-4", 1, "two", 0.5), ("gsm8k-4", 2, "failed", None),
    ]  # fmt: skip
    (first, *_) = read_log(tmp_path / "traces.jsonl")
    assert (first.prompt, first.columns) == ("Add.", {"length": 3.0})


def with_sub_agent(trace):
    """The same trace with a message of a sub-agent behind that of the main one."""
    message = {"role": "assistant", "content": "the sub-agent's words"}
    node = {"message": message, "sampled": True, "parent": 0}
    return {**trace, "nodes": [*trace["nodes"], node], "root_reply": "the reply"}


def test_a_trace_has_the_reply_of_the_main_agent_its_turns_and_no_reward_where_it_failed(tmp_path):
    failed = {**a_trace("failed", 0.0), "ok": False, "errors": [{"type": "ToolError"}]}
    traces = [with_sub_agent(a_trace("one", 1.0)), a_trace("two", 0.5), failed]
    write_jsonl(tmp_path / "traces.jsonl", [an_episode(trace) for trace in traces])
    assert rows_of(tmp_path / "traces.jsonl") == [
        ("gsm8k-4", 0, "the reply", 1.5),
        ("gsm8k-4", 1, "two", 1.0),
        ("gsm8k-4", 2, "failed", None),
    ]  # fmt: skip
    results = score_rewards(tmp_path / "traces.jsonl", tmp_path / "run", column="turns=1")
    assert results.per_problem.values["max@k"][1] == (0.5,)  # of 0, which took two, and of 1


def test_roles_that_train_in_one_episode_are_problems_of_their_own(tmp_path):
    rows = [
        an_episode(a_trace("s", score), a_trace("c", 1 - score, name="critic"))
        for score in (0.0, 1.0)
    ]
    write_jsonl(tmp_path / "traces.jsonl", rows)
    assert rows_of(tmp_path / "traces.jsonl") == [
        ("gsm8k-4 [solver]", 0, "s", 0.5), ("gsm8k-4 [critic]", 0, "c", 1.5),
        ("gsm8k-4 [solver]", 1, "s", 1.5), ("gsm8k-4 [critic]", 1, "c", 0.5),
    ]  # fmt: skip


def test_a_conversation_is_read_by_what_the_policy_said_last_with_its_turns(tmp_path):
    talk = [
        {"role": "assistant", "content": "first"},
        {"role": "tool", "content": "17"},
        {"role": "assistant", "content": "second"},
        {"role": "tool", "content": "3"},
    ]
    rows = [{"problem_id": "p", "completion": talk, "reward": 1.0}]
    write_jsonl(tmp_path / "log.jsonl", rows)
    [sample] = read_log(tmp_path / "log.jsonl")
    assert (sample.completion, sample.turns, sample.reached) == ("second", 2, {2: 1.0})
    score_rewards(tmp_path / "log.jsonl", tmp_path / "run")  # whose page shows the whole of it
    stored = json.loads((tmp_path / "run" / "samples.jsonl").read_text())
    assert stored["completion"] == "assistant: first\n\ntool: 17\n\nassistant: second\n\ntool: 3"


def test_samples_of_slime_with_one_rollout_are_one(tmp_path):
    samples = [{**slime_sample(0, at, 1.0), "rollout_id": at // 2} for at in range(4)]
    torch.save({"rollout_id": 3, "samples": samples}, tmp_path / "rollout_3.pt")
    assert rows_of(tmp_path / "rollout_3.pt") == [
        ("Problem 0", 0, "answer 1", 1.0), ("Problem 0", 1, "answer 3", 1.0),
    ]  # fmt: skip


def test_a_row_of_verifiers_before_its_traces_is_read_too(tmp_path):
    row = {
        "example_id": 0,
        "prompt": [{"role": "user", "content": "Add."}],
        "completion": [{"role": "assistant", "content": "3"}],
        "answer": "3",
        "reward": 1.0,
        "metrics": {"exact": 1.0},
        "is_completed": True,
    }
    failed = {**row, "reward": 0.0, "error": {"error": "ModelError"}}
    # verifiers writes each call as JSON text.
    call = {"id": "c", "name": "add", "arguments": '{"x": 1}'}
    talk = [
        {"role": "assistant", "content": "", "tool_calls": [json.dumps(call)]},
        {"role": "tool", "content": "3", "tool_call_id": "c"},
        {"role": "assistant", "content": "It is 3."},
    ]
    write_jsonl(tmp_path / "results.jsonl", [row, failed, {**row, "completion": talk}])
    assert rows_of(tmp_path / "results.jsonl") == [
        ("0", 0, "3", 1.0), ("0", 1, "3", None), ("0", 2, "It is 3.", 1.0),
    ]  # fmt: skip
    assert read_log(tmp_path / "results.jsonl")[2].transcript == (
        "assistant: add(x=1)\n\ntool: 3\n\nassistant: It is 3."
    )


def test_a_dump_of_slime_is_grouped_by_its_prompt_and_never_runs_code(tmp_path):
    samples = [slime_sample(at // 2, at, float(at)) for at in range(4)]
    torch.save({"rollout_id": 3, "samples": samples}, tmp_path / "rollout_3.pt")
    assert rows_of(tmp_path / "rollout_3.pt")[1:3] == [
        ("Problem 0", 1, "answer 1", 1.0), ("Problem 1", 0, "answer 2", 2.0),
    ]  # fmt: skip
    results = score_rewards(tmp_path / "rollout_3.pt", tmp_path / "run")
    assert results.metrics["max@k"][2].mean == 2.0
    assert not {"max@k by index", "max@k by group_index"} & results.metrics.keys()
    torch.save({"samples": [Run()]}, tmp_path / "bad.pt")
    with pytest.raises(DataError, match="not a dump of slime"):
        read_log(tmp_path / "bad.pt")
    assert not (tmp_path / "ran").exists()


class Run:
    """What a file that means harm would hold."""

    def __reduce__(self):
        return print, ("ran",)


def test_a_reward_of_several_parts_is_chosen(tmp_path):
    torch.save({"samples": [slime_sample(0, 0, {"acc": 1.0, "len": 3})]}, tmp_path / "r.pt")
    with pytest.raises(DataError, match=r"has acc, len; --map reward=reward.NAME"):
        read_log(tmp_path / "r.pt")
    assert rows_of(tmp_path / "r.pt", mapping={"reward": "reward.acc"})[0][3] == 1.0


def test_episodes_of_rllm_are_samples_of_their_task(tmp_path):
    write_jsonl(tmp_path / "e.jsonl", [rllm_episode(0, 1.0), rllm_episode(1, 0.25)])
    assert rows_of(tmp_path / "e.jsonl") == [
        ("row-1", 0, "says 0", 1.0),
        ("row-1", 1, "says 1", 0.25),
    ]
    (tmp_path / "one.json").write_text(json.dumps(rllm_episode(0, 1.0), indent=2))
    assert read_log(tmp_path / "one.json")[0].columns == {"correct": 1.0, "turns": 1.0}


def test_trajectories_and_summaries_of_tinker(tmp_path):
    write_jsonl(tmp_path / "t.jsonl", [tinker_trajectory(1.0), tinker_trajectory(0.0, error="x")])
    assert rows_of(tmp_path / "t.jsonl") == [
        ("gsm8k-af", 0, "gets 1.0", 1.0), ("gsm8k-af", 1, "gets 0.0", None),
    ]  # fmt: skip
    write_jsonl(tmp_path / "s.jsonl", [tinker_summary(0, 1.0), tinker_summary(1, 0.5)])
    assert rows_of(tmp_path / "s.jsonl") == [
        ("train/3/0", 0, None, 1.0),
        ("train/3/0", 1, None, 0.5),
    ]


@pytest.mark.parametrize("missing", [None, ""])
def test_an_example_of_tinker_may_have_the_number_0_or_no_id_but_its_index(tmp_path, missing):
    ids = [(0, 5), (5, 6), (missing, 7)]
    rows = [{**tinker_trajectory(1.0), "example_id": name, "idx": idx} for name, idx in ids]
    write_jsonl(tmp_path / "t.jsonl", rows)
    assert [row.problem_id for row in read_log(tmp_path / "t.jsonl")] == ["0", "5", "7"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (an_episode() | {"traces": 3}, "'traces': must be a list of objects"),
        (an_episode(a_trace("x", "y")), "must map names to scores"),
        (rllm_episode(0, 1.0) | {"trajectories": []}, "'trajectories': is empty"),
        (tinker_trajectory("?"), "'reward': must be a finite number"),
        (tinker_trajectory(1.0) | {"turns": "x"}, "'turns': must be a list of objects"),
    ],
)
def test_what_is_damaged_is_named(tmp_path, row, message):
    write_jsonl(tmp_path / "bad.jsonl", [row])
    with pytest.raises(DataError, match=f"bad.jsonl:1: field {message}|bad.jsonl:1: .*{message}"):
        read_log(tmp_path / "bad.jsonl")


def test_a_reward_of_trl_may_be_missing_in_a_row(tmp_path):
    row = {"step": 1, "prompt": "q", "completion": "a", "advantage": 0.5}
    values = (None, 1.0, float("nan"))
    write_jsonl(tmp_path / "log.jsonl", [{**row, "correct": value} for value in values])
    rows = read_log(tmp_path / "log.jsonl")
    assert [(row.sample, row.reward) for row in rows] == [(0, None), (1, 1.0), (2, None)]
    write_jsonl(
        tmp_path / "two.jsonl", [{**row, "a": None, "b": 1.0}, {**row, "a": 1.0, "b": None}]
    )
    with pytest.raises(DataError, match=r"2 columns may be it \(a, b\); --map reward=NAME"):
        read_log(tmp_path / "two.jsonl")
