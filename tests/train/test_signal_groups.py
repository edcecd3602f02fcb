"""Groups without a signal give way to groups of other prompts, up to a bound."""

import collections
import zlib

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset, IterableDataset
from hypothesis import given
from hypothesis import strategies as st
from transformers import TrainingArguments

from maxatk.errors import InvalidValueError
from maxatk.records import TestResult, Verdict
from maxatk.rewards import Reward
from maxatk.rewards.reward import RewardPart
from maxatk.train import MaxAtKTrainer
from maxatk.train.rollout_batch import Scored
from maxatk.train.signal_groups import DrawnGroups, random_places, refuse_unknown_part, replacements

from .conftest import GROUP, PROMPTS, SpyTrainer, config, text_reward
from .test_resume import SETTINGS

SILENT = "sum"  # in a third of the prompts


def silent_for_some(prompts, completions, **_):
    """The same reward for all completions of some prompts."""
    rewards = text_reward(completions)
    return [0.5 if SILENT in prompt else r for prompt, r in zip(prompts, rewards, strict=True)]


def always(completions, **_):
    return [0.5] * len(completions)


class Counting:
    """A reward function that counts the completions it has seen."""

    def __init__(self, reward):
        self.reward = reward
        self.seen = 0
        self.__name__ = "counting"

    def __call__(self, prompts, completions, **columns):
        self.seen += len(completions)
        return self.reward(prompts=prompts, completions=completions, **columns)


def make(folder, out, reward, *, cls=SpyTrainer, dataset=None, **changes):
    return cls(
        model=str(folder),
        reward_funcs=reward,
        args=config(out, **{"groups_with_signal": True, **changes}),
        train_dataset=dataset or Dataset.from_list([{"prompt": p, "note": p} for p in PROMPTS]),
    )


def texts(trainer, rows, name):
    ids = rows[f"{name}_ids"]
    masks = rows[f"{name}_mask"].bool()
    tokenizer = trainer.processing_class
    return [
        tokenizer.decode(row[mask], skip_special_tokens=True)
        for row, mask in zip(ids, masks, strict=True)
    ]


@pytest.mark.parametrize("method, rollouts", [("bon_loo1", "trl"), ("bon_off_policy_exact", "own")])
def test_every_group_has_a_signal_and_its_own_prompt_completions_and_rewards(
    model_folder, tmp_path, method, rollouts
):
    reward = Counting(silent_for_some)
    trainer = make(
        model_folder, tmp_path, reward, method=method, rollouts=rollouts, max_steps=4,
        per_device_train_batch_size=16, max_prompt_draws=20, num_iterations=2,
    )  # fmt: skip
    trainer.train()
    assert len(trainer.generations) == 2
    for _, rows, rewards in trainer.generations:
        prompts = texts(trainer, rows, "prompt")
        completions = texts(trainer, rows, "completion")
        assert not any(SILENT in prompt for prompt in prompts)
        assert all(len(set(prompts[i : i + GROUP])) == 1 for i in range(0, 16, GROUP))
        expected = silent_for_some(prompts, completions)
        np.testing.assert_allclose(rewards.numpy(), expected)
        assert (rows["advantages"].reshape(-1, GROUP) != 0).any(dim=1).all()
        assert int(rows["num_items_in_batch"]) == int(rows["completion_mask"].sum())
    logged = [row for row in trainer.state.log_history if "prompts/drawn" in row]
    assert sum(row["prompts/drawn"] for row in logged) * GROUP == reward.seen > 2 * 16
    for row in logged:
        assert row["frac_groups_without_signal"] == 0
        assert row["prompts/with_signal"] >= 4 / row["prompts/drawn"]


def test_at_the_bound_groups_without_a_signal_stay(model_folder, tmp_path):
    reward = Counting(always)
    trainer = make(model_folder, tmp_path, reward, max_steps=2, max_prompt_draws=3)
    with pytest.warns(UserWarning, match="all advantages were 0"):
        trainer.train()
    logged = [row for row in trainer.state.log_history if "prompts/drawn" in row]
    assert [row["prompts/drawn"] for row in logged] == [6, 6]  # 3 times 2 prompts
    assert [row["prompts/with_signal"] for row in logged] == [0, 0]
    assert reward.seen == 2 * 6 * GROUP


def test_a_batch_with_a_signal_everywhere_is_left_as_it_is(model_folder, tmp_path):
    def weights(**changes):
        trainer = make(model_folder, tmp_path, text_reward, cls=MaxAtKTrainer, **changes)
        trainer.train()
        drawn = [row.get("prompts/drawn") for row in trainer.state.log_history if "loss" in row]
        return drawn, trainer.model.state_dict()

    drawn, replaced = weights()
    assert drawn == [2, 2, 2], "something was drawn again: nothing is tested"
    nothing, plain = weights(groups_with_signal=False)
    assert nothing == [None] * 3
    for name, weight in plain.items():
        torch.testing.assert_close(replaced[name], weight, atol=0, rtol=0)


# The last optimizer step of an epoch is on half as many samples as the others.
UNEVEN = {
    "max_steps": -1, "num_train_epochs": 2, "gradient_accumulation_steps": 4,
    "num_iterations": 1,
}  # fmt: skip


@pytest.mark.parametrize("changes, stop", [({}, 1), (UNEVEN, 2), (UNEVEN, 3)])
def test_a_resumed_run_draws_the_same_prompts(model_folder, tmp_path, changes, stop):
    def trained(resume=None):
        trainer = make(
            model_folder,
            tmp_path,
            silent_for_some,
            cls=MaxAtKTrainer,
            max_prompt_draws=8,
            **{**SETTINGS, **changes},
        )
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    whole = trained()
    again = trained(str(tmp_path / f"checkpoint-{stop}"))
    rows = [row for row in whole.state.log_history if "prompts/drawn" in row]
    assert any(row["prompts/drawn"] > 4 for row in rows), "nothing was drawn again"
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(again.model.state_dict()[name], weight, atol=0, rtol=0)


def test_masked_completions_are_no_signal(model_folder, tmp_path):
    trainer = make(
        model_folder, tmp_path, text_reward, mask_truncated_completions=True, max_steps=1,
        max_completion_length=80, max_prompt_draws=20, loss_type="dr_grpo",
    )  # fmt: skip
    trainer.train()
    _, rows, _ = trainer.generations[0]
    in_loss = rows["completion_mask"].sum(dim=1) > 0
    assert not in_loss.all()
    trained = (rows["advantages"] != 0) & in_loss
    assert trained.reshape(-1, GROUP).any(dim=1).all()


def brevity(completions, **_):
    """Differs between almost any two completions, right or wrong."""
    return [1 / (1 + len(completion)) for completion in completions]


def functions_of_the_trainer():
    return [silent_for_some, brevity]


def parts_of_a_recipe():
    parts = [
        RewardPart("function", f"own.py:{function.__name__}", function=function)
        for function in (silent_for_some, brevity)
    ]
    return Reward(parts)


@pytest.mark.parametrize("reward", [functions_of_the_trainer, parts_of_a_recipe])
def test_a_named_part_gives_the_signal_that_other_parts_give_to_any_group(
    model_folder, tmp_path, reward
):
    def silent_prompts(**changes):
        trainer = make(model_folder, tmp_path, reward(), max_steps=4, **changes)
        trainer.train()
        prompts = [
            text for _, rows, _ in trainer.generations for text in texts(trainer, rows, "prompt")
        ]
        return trainer, sum(SILENT in prompt for prompt in prompts)

    _, by_any_part = silent_prompts()
    assert by_any_part > 0, "brevity gives no group a signal: nothing is tested"
    trainer, by_name = silent_prompts(groups_with_signal="silent_for_some", max_prompt_draws=20)
    assert by_name == 0
    assert any(row.get("prompts/drawn", 0) > 2 for row in trainer.state.log_history)


def test_a_part_that_is_not_there_is_refused_by_name(model_folder, tmp_path):
    for reward in (functions_of_the_trainer(), parts_of_a_recipe()):
        with pytest.raises(InvalidValueError, match=r"groups_with_signal: .*'silent'.*brevity"):
            make(model_folder, tmp_path, reward, groups_with_signal="silent")


def test_a_reward_and_its_only_part_of_the_same_name_are_listed_once():
    part = RewardPart("function", "own.py:brevity", function=brevity)
    reward = Reward([part])
    assert part.name == reward.__name__
    with pytest.raises(InvalidValueError, match=rf"allowed: {part.name}$"):
        refuse_unknown_part("silent", [reward], [reward.__name__])


def test_what_a_rollout_function_adds_reaches_the_rewards_of_every_draw(model_folder, tmp_path):
    def drawn(prompts, trainer):
        ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
        completions = torch.randint(5, 40, (len(prompts), 5)).tolist()
        added = {"first": [completion[0] for completion in completions], "unit": 40.0}
        logprobs = [[0.0] * 5] * len(prompts)
        return {"prompt_ids": ids, "completion_ids": completions, "logprobs": logprobs, **added}

    def worth(prompts, completion_ids, first, unit, **_):
        assert [ids[0] for ids in completion_ids] == first
        pairs = zip(prompts, first, unit, strict=True)
        return [0.5 if SILENT in prompt else one / whole for prompt, one, whole in pairs]

    trainer = SpyTrainer(
        model=str(model_folder),
        reward_funcs=worth,
        args=config(tmp_path, groups_with_signal=True, max_prompt_draws=20),
        train_dataset=Dataset.from_list([{"prompt": p} for p in PROMPTS]),
        rollout_func=drawn,
    )
    trainer.train()
    assert any(row.get("prompts/drawn", 0) > 2 for row in trainer.state.log_history)
    for _, rows, rewards in trainer.generations:
        np.testing.assert_allclose(rewards.numpy(), rows["completion_ids"][:, 0].numpy() / 40)


def test_a_column_that_a_reward_logs_is_of_the_completions_that_were_kept(model_folder, tmp_path):
    calls = []

    def logging(prompts, completions, log_extra, **_):
        calls.append(len(prompts))
        log_extra("text", completions)
        if len(calls) > 1:  # a function need not log at every call
            log_extra("prompt of later calls", prompts)
        return silent_for_some(prompts, completions)

    trainer = make(
        model_folder, tmp_path, logging, max_steps=1, per_device_train_batch_size=16,
        max_prompt_draws=20, log_completions=True,
    )  # fmt: skip
    trainer.train()
    assert len(calls) > 1, "nothing was drawn again"
    (file,) = (tmp_path / "completions").iterdir()
    table = pd.read_parquet(file)
    assert table["text"].tolist() == table["completion"].tolist()
    later = table["prompt of later calls"].notna()
    assert later.any()
    assert not later.all()
    assert (table["prompt of later calls"] == table["prompt"])[later].all()


def test_a_reward_that_failed_at_the_first_draw_alone_is_in_the_log(model_folder, tmp_path):
    first = set()

    def broken_at_first(prompts, completions, **_):
        first.update(prompts[:1] if not first else [])
        if first & set(prompts):
            raise RuntimeError("no judge for this one")
        return text_reward(completions)

    part = RewardPart("function", "own.py:first", function=broken_at_first, on_error="drop")
    trainer = make(model_folder, tmp_path, Reward([part]), max_steps=1, max_prompt_draws=20)
    trainer.train()
    row = trainer.state.log_history[0]
    assert row["prompts/drawn"] > 2, "nothing was drawn again"
    assert row["frac_without_reward"] == 0
    assert row["frac_reward_failed"] > 0


def test_values_of_several_draws_are_those_of_all_their_completions(model_folder, tmp_path):
    lengths = []
    cut_off = []
    outcomes = []

    class Verification:
        __name__ = "verification"

        def __call__(self, prompts, completions, completion_ids, **_):
            lengths.extend(map(len, completion_ids))
            cut_off.extend(
                ids[-1] != trainer.processing_class.eos_token_id for ids in completion_ids
            )
            drawn_again = len(lengths) > len(completions)
            names = ["passed"] if drawn_again else ["passed", "time_limit"]
            self.verdicts = [Verdict(tuple(map(TestResult, names))) for _ in completions]
            outcomes.extend(names * len(completions))
            return silent_for_some(prompts, completions)

    changes = {"max_steps": 1, "max_prompt_draws": 4, "max_completion_length": 24}
    trainer = make(model_folder, tmp_path, Verification(), **changes)
    trainer.train()
    row = trainer.state.log_history[0]
    assert row["prompts/drawn"] == len(lengths) / GROUP > 2, "nothing was drawn again"
    ended = [length for length, is_cut in zip(lengths, cut_off, strict=True) if not is_cut]
    assert row["completions/mean_length"] == pytest.approx(np.mean(lengths))
    assert row["completions/min_length"] == min(lengths)
    assert row["completions/max_length"] == max(lengths)
    assert row["completions/clipped_ratio"] == pytest.approx(np.mean(cut_off))
    assert row["completions/mean_terminated_length"] == pytest.approx(np.mean(ended))
    assert row["completions/min_terminated_length"] == min(ended)
    timed_out = np.mean([outcome == "time_limit" for outcome in outcomes])
    assert row["verifier/time_limit"] == pytest.approx(timed_out)
    assert row["seconds/verification"] <= row["step_time"]


def test_an_evaluation_draws_each_prompt_once(model_folder, tmp_path):
    reward = Counting(always)
    trainer = make(model_folder, tmp_path, reward)
    trainer.model.eval()
    trainer._generate_and_score_completions([{"prompt": p} for p in PROMPTS[:2] for _ in "1234"])
    assert reward.seen == 8


@given(st.data())
def test_groups_with_a_signal_fill_the_places_of_those_without(data):
    shape = st.tuples(st.integers(1, 3), st.integers(1, 5))
    processes, groups = data.draw(shape)
    drawn = data.draw(st.integers(1, 5))
    flags = st.lists(st.booleans(), min_size=processes * groups, max_size=processes * groups)
    signal = np.array(data.draw(flags)).reshape(processes, groups)
    flags = st.lists(st.booleans(), min_size=processes * drawn, max_size=processes * drawn)
    fresh = np.array(data.draw(flags)).reshape(processes, drawn)
    made = list(replacements(signal, fresh))
    assert [process for process, *_ in made] == sorted(process for process, *_ in made)
    for process, (has_signal, other) in enumerate(zip(signal, fresh, strict=True)):
        swaps = [(to, source) for at, to, source in made if at == process]
        assert len(swaps) == min((~has_signal).sum(), other.sum())
        assert all(not has_signal[to] and other[source] for to, source in swaps)
        assert len({to for to, _ in swaps}) == len({source for _, source in swaps}) == len(swaps)


def scores_of(texts):
    return torch.tensor([[float(zlib.crc32(text.encode()) % (1 << 20))] for text in texts])


def draws_of(names, signal, size):
    """The draw of every process of one whose groups have these names, (processes, groups)."""
    rows_of = [[f"{group} {n}" for group in part for n in range(size)] for part in names]
    texts = [row for rows in rows_of for row in rows]
    draws = []
    for rows in rows_of:
        scores = scores_of(texts)
        scored = Scored(scores, list(texts), list(texts), list(texts), [False] * len(texts))
        generated = (list(rows), list(rows), None, list(rows), None, {"extra": list(rows)})
        draws.append(
            DrawnGroups(
                rows=list(rows),
                prompts=list(rows),
                generated=generated,
                logged={"column": list(rows)},
                scored=scored,
                signal=signal.copy(),
                group_size=size,
            )
        )
    return draws


@given(st.data())
def test_lists_of_a_process_and_scores_of_all_hold_the_same_groups(data):
    processes = data.draw(st.integers(1, 3))
    size = data.draw(st.integers(1, 3))
    drawn = []
    for kind in ("kept", "fresh"):
        groups = data.draw(st.integers(1, 4))
        names = [[f"{kind} {p} {g}" for g in range(groups)] for p in range(processes)]
        flags = st.lists(st.booleans(), min_size=groups, max_size=groups)
        signal = np.array([data.draw(flags) for _ in range(processes)])
        drawn.append((names, signal, draws_of(names, signal, size)))
    (names, signal, kept), (fresh_names, fresh_signal, fresh) = drawn
    for process in range(processes):
        kept[process].take(fresh[process], process=process)
    of_processes = [row for draw in kept for row in draw.rows]
    for process, draw in enumerate(kept):
        assert draw.scored.texts == of_processes == draw.scored.last_texts == draw.scored.tests
        assert (draw.scored.scores == scores_of(of_processes)).all()
        assert draw.rows == draw.prompts == draw.generated[0] == draw.generated[5]["extra"]
        assert draw.rows == draw.logged["column"]
        for place, group in enumerate(draw.rows[::size]):
            name = group.rsplit(" ", 1)[0]
            replaced = name != names[process][place]
            if signal[process][place]:
                assert not replaced
            elif replaced:
                source = fresh_names[process].index(name)
                assert fresh_signal[process][source]
            assert draw.signal[process, place] == (signal[process][place] or replaced)


def test_prompts_are_drawn_evenly_differently_at_every_moment_and_again_by_its_numbers():
    def drawn(*moment):
        return random_places(12, (3, 2), moment)

    assert drawn(0, 1, 0, 2).shape == (3, 2)
    np.testing.assert_array_equal(drawn(0, 1, 0, 2), drawn(0, 1, 0, 2))
    counts = collections.Counter()
    for step in range(1000):
        places = drawn(0, step, 0, 0).reshape(-1).tolist()
        assert len(set(places)) == 6
        counts.update(places)
    assert len(counts) == 12
    assert all(abs(count - 500) < 5 * 500**0.5 for count in counts.values())
    assert random_places(3, (1, 5), (0,)).max() <= 2


def test_a_bound_that_replaces_nothing_is_refused(tmp_path):
    with pytest.raises(InvalidValueError, match=r"max_prompt_draws: .* from 2 .*got 1"):
        config(tmp_path, groups_with_signal=True, max_prompt_draws=1)
    config(tmp_path, max_prompt_draws=1)


def test_groups_in_several_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(TrainingArguments, "world_size", 2)
    settings = {"per_device_train_batch_size": 2, "generation_batch_size": 4}
    config(tmp_path, **settings)
    with pytest.raises(InvalidValueError, match=r"whole groups .*batch of 2 completions"):
        config(tmp_path, groups_with_signal=True, **settings)


def test_data_from_which_no_other_prompt_can_be_drawn_is_refused(model_folder, tmp_path):
    stream = IterableDataset.from_generator(lambda: ({"prompt": p} for p in PROMPTS))
    with pytest.raises(InvalidValueError, match="needs a train_dataset with a length"):
        make(model_folder, tmp_path, text_reward, dataset=stream)
    pictures = Dataset.from_list([{"prompt": p, "image": None} for p in PROMPTS])
    with pytest.raises(InvalidValueError, match="needs no images"):
        make(model_folder, tmp_path, text_reward, dataset=pictures)
