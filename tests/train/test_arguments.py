"""What does not go with the settings is refused before the weights are loaded.

Every case has weights that cannot be loaded: whoever looks at an argument after them fails on them.
"""

import functools

import pytest
import torch
from datasets import Dataset, IterableDataset
from peft import PromptTuningConfig
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, ProcessorMixin

from maxatk import best_of
from maxatk.errors import InvalidValueError
from maxatk.rewards.reward import Reward, RewardPart
from maxatk.train import MaxAtKTrainer, Programs
from maxatk.training.group_log import GROUPS

from .conftest import SpyTrainer, config, text_reward


def other_reward(completions, **_):
    return [0.0] * len(completions)


@pytest.fixture
def start(broken_weights, prompts, tmp_path):
    """Make a trainer of broken weights; `arguments` win over the usual ones, `settings` are its."""

    def make(arguments=None, **settings):
        usual = {
            "model": str(broken_weights),
            "reward_funcs": text_reward,
            "args": config(tmp_path, **settings),
            "train_dataset": prompts,
        }
        return MaxAtKTrainer(**{**usual, **(arguments or {})})

    return make


def test_weights_that_cannot_be_loaded_are_what_is_left_to_fail_on(start):
    with pytest.raises(SafetensorError):
        start()
    with pytest.raises(SafetensorError):
        start({"reward_funcs": [text_reward, other_reward]}, selection="other_reward")


def test_functions_that_name_columns_of_the_data_set_are_taken(start):
    answered = Dataset.from_dict({"prompt": ["1"] * 4, "answer": ["1"] * 4})
    for function in (of_answers, OfObjects(), functools.partial(of_answers, answer=[])):
        with pytest.raises(SafetensorError):
            start({"reward_funcs": function, "train_dataset": answered})
    stream = IterableDataset.from_generator(lambda: ({"prompt": "1"} for _ in range(4)))
    questions = Dataset.from_dict({"question": ["1"] * 4})
    made = questions.with_transform(lambda rows: {"prompt": rows["question"], "answer": ["1"]})
    selected = Dataset.from_dict({"prompt": [None, *"1234"]}).select(range(1, 5))
    with pytest.raises(SafetensorError):
        start({"train_dataset": selected})
    for dataset in (stream, made):  # whose columns nobody knows
        with pytest.raises(SafetensorError):
            start({"reward_funcs": of_answers, "train_dataset": dataset})


@pytest.mark.parametrize("made", [Programs(), "programs"])
def test_an_environment_in_place_of_what_makes_one_is_refused(start, made):
    with pytest.raises(InvalidValueError, match="environment_factory: must be a class, or a func"):
        start({"environment_factory": made})


def test_every_record_of_another_tool_stays(start, tmp_path):
    (tmp_path / GROUPS).write_text('{"not": "ours"}\n')
    with pytest.raises(InvalidValueError, match=r"groups\.jsonl: is no record of a training"):
        start()
    assert (tmp_path / GROUPS).read_text() == '{"not": "ours"}\n'
    with pytest.raises(SafetensorError):
        start(log_groups=0)


def without_columns(completions):
    return [0.0] * len(completions)


def of_answers(completions, answer, **_):
    return [0.0] * len(completions)


class OfObjects:
    async def __call__(self, prompts, completions, *, answer, **_):
        return [0.0] * len(completions)


TALKS = Dataset.from_list([{"prompt": [{"role": "user", "content": "1"}]}] * 4)


def with_template(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return tokenizer


def test_messages_are_taken_where_a_template_or_a_function_reads_them(start, broken_weights):
    templated = with_template(broken_weights)
    with pytest.raises(SafetensorError):
        start({"train_dataset": TALKS, "processing_class": templated})
    with pytest.raises(SafetensorError):
        start({"train_dataset": TALKS, "rollout_func": print})
    templated.save_pretrained(broken_weights)
    with pytest.raises(SafetensorError):
        start({"train_dataset": TALKS})


class TextProcessor(ProcessorMixin):
    attributes = ("tokenizer",)
    tokenizer_class = "AutoTokenizer"


def test_a_processor_without_a_template_is_refused_by_the_name_of_its_tokenizer(
    start, broken_weights
):
    processor = TextProcessor(AutoTokenizer.from_pretrained(broken_weights))
    with pytest.raises(InvalidValueError, match=r"must be texts with '.*broken', whose tokenizer"):
        start({"train_dataset": TALKS, "processing_class": processor})


PARTS = Reward([RewardPart("function", "own.py:text_reward", function=text_reward)])


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ({}, {"selection": "scores"}, r"selection: unknown value 'scores'"),
        ({}, {"selection": "text_reward"}, r"selection: must be one of several reward functions"),
        (
            {"reward_funcs": [other_reward, text_reward, text_reward]},
            {"selection": "text_reward"},
            r"selection: must be the name of one function alone",
        ),
        (
            {"reward_funcs": PARTS},
            {"groups_with_signal": "tests"},
            r"groups_with_signal: unknown value 'tests'",
        ),
        ({}, {"reward_weights": [1.0, 2.0]}, r"reward_weights: must be 1 finite number, .*2\.0"),
        ({}, {"reward_weights": [float("nan")]}, r"reward_weights: must be 1 finite .*\[nan\]"),
        ({"reward_funcs": best_of(text_reward, k=2)}, {}, r"reward_funcs: best_of_2_text_reward"),
        ({"reward_funcs": (text_reward,)}, {}, r"reward_funcs: must be a function, .*got \(<func"),
        (
            {"reward_funcs": without_columns},
            {},
            r"reward_funcs: without_columns: got an unexpected .*'prompts'; .* \*\*columns",
        ),
        (
            {"reward_funcs": [text_reward, of_answers]},
            {},
            r"reward_funcs: of_answers: missing .*'answer'; with train_dataset it is called",
        ),
        (
            {
                "reward_funcs": of_answers,
                "train_dataset": Dataset.from_dict({"prompt": ["1"] * 4, "answer": ["1"] * 4}),
            },
            {"remove_unused_columns": True},
            r"reward_funcs: of_answers: missing .*'answer'",
        ),
        ({"reward_funcs": OfObjects()}, {}, r"reward_funcs: OfObjects: missing .*'answer'"),
        ({"reward_funcs": None}, {}, r"reward_funcs: must be a reward function"),
        ({"train_dataset": None}, {}, r"train_dataset: must be a Dataset .*got None"),
        ({"train_dataset": [{"prompt": "1"}] * 4}, {}, r"train_dataset: must be a Dataset"),
        (
            {"train_dataset": Dataset.from_dict({"question": ["1"] * 4, "answer": ["1"] * 4})},
            {},
            r"train_dataset: has no column 'prompt'; it has question, answer",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": ["1"] * 4, "image": [None] * 4})},
            {"groups_with_signal": True},
            r"groups_with_signal: needs no images",
        ),
        (
            {"eval_dataset": Dataset.from_dict({"prompt": ["1"]})},
            {"per_device_eval_batch_size": 6},
            r"per_device_eval_batch_size: .* 6 completions, is a multiple of the 4 .*got 6",
        ),
        (
            {"eval_dataset": Dataset.from_dict({"question": ["1"]})},
            {},
            r"eval_dataset: has no column 'prompt'; it has question",
        ),
        (
            {"eval_dataset": {"easy": Dataset.from_dict({"prompt": []})}},
            {},
            r"eval_dataset\['easy'\]: must be a set of one prompt or more",
        ),
        ({"eval_dataset": [{"prompt": "1"}]}, {}, r"eval_dataset: must be a Dataset"),
        (
            {
                "reward_funcs": of_answers,
                "train_dataset": Dataset.from_dict({"prompt": ["1"] * 4, "answer": ["1"] * 4}),
                "eval_dataset": Dataset.from_dict({"prompt": ["1"]}),
            },
            {},
            r"of_answers: missing .*'answer'; with eval_dataset it is called with prompts",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": list(range(4))})},
            {},
            r"train_dataset: prompt: must be texts or lists of messages, got 'int64'",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": ["1", None, "2", "3"]})},
            {},
            r"train_dataset: prompt: must be .* in every row, got 'None in 1 row, .*\[1\]",
        ),
        (
            {"train_dataset": TALKS},
            {},
            r"train_dataset: prompt: must be texts .*broken', whose tokenizer has no chat template",
        ),
        (
            {"train_dataset": TALKS.to_iterable_dataset()},
            {},
            r"train_dataset: prompt: must be texts .* no chat template, got lists of messages",
        ),
        (
            {"eval_dataset": {"talks": TALKS}},
            {},
            r"eval_dataset\['talks'\]: prompt: must be texts .* no chat template",
        ),
        ({"peft_config": {"r": 2}}, {}, r"peft_config: must be a config of peft.*got {'r': 2}"),
        ({"peft_config": {"r": 2}}, {"rollouts": "own"}, r"peft_config: must be a config of peft"),
        ({"processing_class": "gpt2"}, {}, r"processing_class: must be a tokenizer or a proc"),
        ({"rollout_func": print}, {"rollouts": "own"}, r"rollout_func: must be None"),
        (
            {"peft_config": PromptTuningConfig(num_virtual_tokens=2)},
            {"rollouts": "own"},
            r"peft_config: must be LoRA with rollouts 'own'",
        ),
    ],
)
def test_an_argument_is_refused_before_the_weights(start, arguments, settings, message):
    with pytest.raises(InvalidValueError, match=message):
        start(arguments, **settings)


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        ({"prompt": ["1"]}, {"per_device_eval_batch_size": 6}, r"per_device_eval_batch_size: "),
        ({"question": ["1"]}, {}, r"eval_dataset: has no column 'prompt'"),
        (
            {"prompt": [[{"role": "user", "content": "1"}]], "answer": ["1"]},
            {},
            r"eval_dataset: prompt: must be texts .* no chat template",
        ),
        ({"prompt": ["1"]}, {}, r"of_answers: missing .*'answer'; with eval_dataset"),
    ],
)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_set_that_comes_after_the_training_is_refused_before_it_is_sampled(
    model_folder, tmp_path, rows, changes, message, is_named
):
    answered = Dataset.from_dict({"prompt": ["1"] * 4, "answer": ["1"] * 4})
    trainer = SpyTrainer(
        model=str(model_folder),
        reward_funcs=of_answers,
        args=config(tmp_path, **changes),
        train_dataset=answered,
    )
    other = Dataset.from_dict(rows)
    with pytest.raises(InvalidValueError, match=message):
        trainer.evaluate({"other": other} if is_named else other)
    assert trainer.generations == []


def test_metrics_of_sets_by_name_have_the_name_of_the_set(model_folder, prompts, tmp_path):
    few = prompts.select(range(2))
    more = prompts.select(range(2, 8))
    trainer = MaxAtKTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, eval_strategy="steps", eval_steps=1, max_steps=1),
        train_dataset=prompts,
        eval_dataset={"few": few, "more": more},
    )
    trainer.train()
    logged = {name: value for row in trainer.state.log_history for name, value in row.items()}
    for name, dataset in {"few": few, "more": more}.items():
        torch.manual_seed(0)
        alone = trainer.evaluate(dataset)
        torch.manual_seed(0)
        by_name = trainer.evaluate({name: dataset})
        for key in ("reward", "max@2", "loss"):
            assert by_name[f"eval_{name}_{key}"] == alone[f"eval_{key}"]
            assert f"eval_{name}_{key}" in logged
        assert "eval_reward" not in by_name
    assert "eval_reward" not in logged
    assert "reward" in logged


def settings_of(kind, folder):
    """The class and the settings of a trainer, whose weights nobody gets to."""
    if kind == "synchronous":
        return MaxAtKTrainer, config(folder)
    asynchronous = pytest.importorskip("maxatk.train.asynchronous", exc_type=ImportError)
    settings = asynchronous.MaxAtKAsyncConfig(
        output_dir=str(folder), k=2, use_cpu=True, bf16=False, report_to="none"
    )
    return asynchronous.MaxAtKAsyncTrainer, settings


@pytest.mark.parametrize("trainer", ["synchronous", "asynchronous"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("MULTI_CPU", "fsdp: must be left out on a CPU, where accelerate runs DDP"),
        ("NO", "use_cpu: must be True for 2 processes without a GPU, each of which"),
    ],
)
def test_a_launch_that_was_not_meant_is_refused(
    broken_weights, prompts, tmp_path, monkeypatch, trainer, kind, message
):
    trainer_class, settings = settings_of(trainer, tmp_path)
    monkeypatch.setattr(settings.distributed_state, "distributed_type", kind)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(InvalidValueError, match=message):
        trainer_class(str(broken_weights), text_reward, settings, prompts)


def test_rewards_of_one_name_are_warned_of(start):
    functions = [lambda completions, **_: [0.0] * len(completions) for _ in range(2)]
    with (
        pytest.raises(SafetensorError),
        pytest.warns(UserWarning, match=r"reward_funcs: several are called '<lambda>'"),
    ):
        start({"reward_funcs": functions})


def test_a_router_with_a_loss_of_its_own_is_refused_for_skipping(start, tmp_path):
    folder = tmp_path / "experts"
    AutoConfig.for_model("mixtral", num_hidden_layers=1).save_pretrained(folder)
    with pytest.raises(InvalidValueError, match=r"skip_zero_advantages: .*auxiliary loss"):
        start({"model": str(folder)}, skip_zero_advantages=True)


def test_a_path_for_a_model_is_named(start, broken_weights):
    with pytest.raises(InvalidValueError, match=r"model: must be a loaded model, or the text"):
        start({"model": broken_weights})
