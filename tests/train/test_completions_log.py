"""The parquet files of TRL's own `log_completions`, read as rewards."""

import pytest

from maxatk.errors import DataError
from maxatk.exchange import read_log


def length_reward(completions, **_):
    return [float(len(text)) for text in completions]


def test_the_completions_that_trl_logs_are_rewards_by_prompt(make_trainer, prompts, tmp_path):
    trainer = make_trainer(reward=length_reward, log_completions=True, max_steps=1)
    trainer.train()
    (path,) = (tmp_path / "completions").glob("*.parquet")
    rows = read_log(path, log_format="trl")
    assert len(rows) == 8
    assert {row.prompt for row in rows} <= set(prompts["prompt"])
    assert [row.sample for row in rows] == [0, 1, 2, 3] * 2
    assert all(row.reward == len(row.completion) for row in rows)
    assert rows[0].columns["length_reward"] == rows[0].reward
    with pytest.raises(DataError, match=r"looks like TRL's logged completions: --format trl"):
        read_log(path)


def test_of_several_reward_functions_one_is_chosen(make_trainer, tmp_path):
    def half(completions, **_):
        return [len(text) / 2 for text in completions]

    make_trainer(reward=[length_reward, half], log_completions=True, max_steps=1).train()
    (path,) = (tmp_path / "completions").glob("*.parquet")
    with pytest.raises(DataError, match=r"2 columns may be it \(length_reward, half\); --map"):
        read_log(path, log_format="trl")
    rows = read_log(path, log_format="trl", mapping={"reward": "half"})
    assert all(row.reward == len(row.completion) / 2 for row in rows)
