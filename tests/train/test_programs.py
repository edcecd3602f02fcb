"""The verifier as an environment: programs that are written, tried and written again."""

import copy
import dataclasses
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
import trl
import yaml
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from maxatk import advantages
from maxatk.cli.main import main
from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.settings import from_mapping
from maxatk.train import MaxAtKTrainer, Programs, TrainRecipe, preview, train
from maxatk.train.cut_messages import closing_tokens
from maxatk.train.environments import prepare_tokenizer
from maxatk.train.message_calls import call_by_messages
from maxatk.training import findings
from maxatk.verifier import CodeReward, Verifier, code_reward
from maxatk.view.server import View
from maxatk.view.watched_training import WatchedTraining
from tiny import save_tiny_model
from tool_model import PLAIN, PROGRAMS, save_tool_model

from .conftest import config

GROUP = 4


def row(n):
    """A problem whose answer is the input, or one more; its first test is visible."""
    tests = [{"input": str(i), "output": str(i + n % 2)} for i in range(5)]
    prompt = f"find{n} {n % 10}"
    return {"prompt": prompt, "tests": tests, "visible_tests": tests[3:4]}


@pytest.fixture(scope="module")
def tool_model(tmp_path_factory):
    return save_tool_model(tmp_path_factory.mktemp("tool-model"))


@pytest.fixture
def rows():
    chat = [{**row(n), "prompt": [{"role": "user", "content": row(n)["prompt"]}]} for n in range(8)]
    return Dataset.from_list(chat)


@pytest.fixture
def recipe(tmp_path, tool_model):
    """The recipe of docs/agents.md, on a tiny model."""
    problems = tmp_path / "problems.jsonl"
    write_jsonl(problems, ({"id": f"p{n}", **row(n)} for n in range(8)))
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    shown = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    trainer = {
        "k": 2, "num_generations": GROUP, "max_steps": 4, "save_steps": 2, "use_cpu": True,
        "per_device_train_batch_size": 8, "max_completion_length": 300, "learning_rate": 1e-2,
        "report_to": "none", "logging_steps": 1,
    }  # fmt: skip
    files = {"model": str(tool_model), "problems": str(problems), "out": str(tmp_path / "out")}
    return {**shown, **files, "trainer": {**shown["trainer"], **trainer}}


@pytest.fixture
def programs(verifier):
    return Programs(turns=2, time_limit=0.5, verifier=verifier)


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2, time_limit=1.0, memory_limit=1 << 29) as shared:
        yield shared


def test_the_first_example_that_fails_is_told_until_the_turns_are_over(programs):
    assert programs.reset(**row(1)) is None
    answer = programs.submit("print(input())")
    assert answer == "Failed: wrong answer.\nInput: 3\nExpected: 4\nGot: 3\nTurns left: 1."
    assert programs.submit("print(0)").endswith("Turns left: 0.")
    assert programs.submit("print(int(input()) + 1)").startswith("There is no turn left.")
    assert programs.submission == "print(0)"
    programs.reset(**row(2))
    assert programs.submission is None
    assert "Turns left: 1." in programs.submit("print(9)")


def test_a_program_that_passes_all_examples_is_kept(programs):
    programs.reset(**row(1))
    assert programs.open_call == ("submit", "program")
    assert programs.submit("print(4)") == "All examples pass. The program is kept."
    assert programs.open_call is None
    assert programs.submit("print(0)") == "A program that passes all examples is kept already."
    assert programs.submission == "print(4)"
    programs.reset(**row(1))
    assert programs.submit("print(0)").startswith("Failed: wrong answer.")
    assert programs.open_call is not None


@pytest.mark.parametrize(
    ("program", "feedback"),
    [
        ("while 1: pass", "Failed: time limit."),
        ("print((", "Failed: compile error."),
        ("1 / 0", "Error: Traceback"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise ValueError('x' * 5000)", "…"),
        ("print('y' * 5000)", "Got: " + "y" * 200 + "…\n"),
        ("```python\nprint(4)\n```", "All examples pass."),
    ],
)
def test_what_is_told_is_short_whatever_a_program_does(programs, program, feedback):
    programs.reset(**row(1))
    begun = time.monotonic()
    answer = programs.submit(program)
    assert feedback in answer
    assert len(answer) < 1000
    assert time.monotonic() - begun < 8  # the limit is of 0.5 s


def test_calls_checks_and_problems_without_examples(programs):
    programs.reset(visible_tests=[{"call": "f(2)", "output": "4"}])
    assert "Call: f(2)\nExpected: 4\nGot: 3" in programs.submit("def f(x): return x + 1")
    check = "def check(f):\n    assert f(2) == 4, 'four is wanted'"
    programs.reset(visible_tests=[{"check": check}], entry_point="f")
    assert "four is wanted" in programs.submit("def f(x): return x + 1")
    programs.reset(visible_tests=None)
    assert programs.submit("print(1)") == "The program is kept. There are no examples to run it on."
    assert programs.open_call is None
    assert programs.submit("Thanks!") == "A program is kept already."
    assert programs.submission == "print(1)"


def test_a_program_that_is_called_kept_is_kept_where_the_verifier_fails(programs):
    programs.reset(**row(1), checker="def", compare="checker")  # which does not compile
    assert programs.submit("print(4)") == "The examples could not be run. The program is kept."
    assert programs.submit("print(9)") == "A program is kept already."
    assert programs.submission == "print(4)"


@pytest.mark.parametrize(
    ("visible_tests", "message"),
    [
        ([5], "must be a list of tests"),
        ("1", "must be a list of tests"),
        ([{"input": "", "outptu": "1"}], "unknown key 'outptu'; did you mean 'output'"),
        ([{"check": "assert f(1) == 1"}], "entry_point: a check test needs"),
        ([{"call": "f(1", "output": "1"}], "call must be an expression"),
    ],
)
def test_a_row_without_proper_tests_is_refused_as_a_rollout_begins(
    programs, visible_tests, message
):
    """Not at the first call: TRL would tell the model of the error, and train on."""
    with pytest.raises(InvalidValueError, match=f"visible_tests: .*{message}"):
        programs.reset(visible_tests=visible_tests)


def test_visible_tests_may_be_an_array(programs):
    programs.reset(visible_tests=np.array([{"input": "3", "output": "4"}] * 2))
    assert programs.submit("print(4)").startswith("All examples pass.")


def test_a_call_without_a_program_takes_no_turn(programs):
    programs.reset(**row(1))
    with pytest.raises(InvalidValueError, match="must be text"):
        programs.submit(5)
    assert programs.submission is None
    assert "Turns left: 1." in programs.submit("print(9)")


@pytest.mark.parametrize(
    "settings",
    [{"turns": 0}, {"turns": 1.5}, {"time_limit": 0}, {"time_limit": None}, {"time_limit": 1e300}],
)
def test_settings_that_are_not_allowed_are_refused(settings):
    (name,) = settings
    with pytest.raises(InvalidValueError, match=name):
        Programs(**settings)


def test_the_reward_is_that_of_the_last_program_and_one_batch_has_all(verifier):
    batches = []

    class Counting(Verifier):
        def verify_many(self, items, **options):
            batches.append(len(items))
            return super().verify_many(items, **options)

    environments = []
    for program in ("print(4)", "print(int(input()) + 1)", None):
        environment = Programs(verifier=verifier)
        environment.reset(**row(1))
        if program is not None:
            environment.submit("print(9)")
            environment.submit(program)
        environments.append(environment)
    talk = [{"role": "assistant", "content": "```python\nprint(int(input()) + 1)\n```"}]
    tests = [row(1)["tests"]] * 3
    with Counting(workers=1) as counting:
        reward = CodeReward(counting)
        prompts = ["<think>"] * 3  # a thought that is begun has nothing to do with a submission
        values = reward(prompts, [talk] * 3, tests=tests, environments=environments)
        assert values == [0.2, 1.0, 0.0]
        assert reward(None, [talk] * 3, tests=tests) == [1.0] * 3
    assert batches == [3, 3]


class Spy(MaxAtKTrainer):
    """Keeps the submissions and rewards of every rollout batch, and its advantages."""

    kept = ()

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        rewards = self._rollout.rewards.copy()
        submissions = [environment.submission for environment in self.environments]
        batch = (inputs, submissions, rewards, output["advantages"].numpy(), output["tool_mask"])
        self.kept = (*self.kept, batch)
        return output


def check_batches(trainer, verifier):
    """Compare rewards with the hidden tests of the submissions, and advantages with the oracle."""
    has_signal = False
    for inputs, submissions, rewards, scaled, tool_mask in trainer.kept:
        by_hand = []
        for inputs_of_row, program in zip(inputs, submissions, strict=True):
            tests = [TestCase.from_json(test) for test in inputs_of_row["tests"]]
            by_hand.append(0.0 if program is None else verifier.verify(program, tests).reward)
        np.testing.assert_allclose(rewards.ravel(), by_hand, atol=1e-6)
        expected = GROUP * advantages(rewards, "bon_loo1", 2)
        np.testing.assert_allclose(scaled, expected.ravel(), atol=1e-5)
        has_signal |= bool((expected != 0).any())
        assert (tool_mask == 0).any()  # something was told, and it is in no loss
    assert has_signal


def test_it_trains_with_the_advantages_of_whole_rollouts(tmp_path, tool_model, rows, verifier):
    args = config(
        tmp_path, method="bon_loo1", max_completion_length=300, max_steps=3, num_generations=GROUP
    )
    trainer = Spy(
        model=str(tool_model),
        reward_funcs=[CodeReward(verifier)],
        args=args,
        train_dataset=rows,
        environment_factory=lambda: Programs(turns=3, verifier=verifier),
    )
    trainer.train()
    assert len(trainer.kept) == 3
    check_batches(trainer, verifier)
    assert trainer.state.log_history[0]["tools/call_frequency"] > 0


def test_an_unmodified_trainer_takes_it_too(tmp_path, tool_model, rows):
    args = GRPOConfig(
        output_dir=str(tmp_path), num_generations=GROUP, per_device_train_batch_size=8,
        max_completion_length=300, max_steps=2, learning_rate=1e-2, use_cpu=True, bf16=False,
        report_to="none", save_strategy="no", logging_steps=1,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=str(tool_model),
        reward_funcs=code_reward,
        args=args,
        train_dataset=rows,
        environment_factory=Programs,
    )
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    rewards = [r["reward"] for r in trainer.state.log_history if "reward" in r]
    assert len(rewards) == 2
    assert max(rewards) > 0
    after = trainer.model.state_dict()
    assert any(not torch.equal(after[name], before[name]) for name in before)


def recorded(folder, kind):
    lines = (folder / "groups.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if kind in line]


@pytest.mark.long
def test_a_recipe_that_is_killed_and_resumed_gives_the_same_weights(tmp_path, recipe, started):
    path = tmp_path / "recipe.yaml"
    recipe["trainer"] |= {"max_steps": 8, "save_steps": 3}
    path.write_text(yaml.safe_dump(recipe))
    killed = tmp_path / "killed"
    whole = tmp_path / "whole"
    command = [sys.executable, "-m", "maxatk", "train", str(path), f"out={killed}"]
    process = started(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file = killed / "groups.jsonl"
    while process.poll() is None and not (file.exists() and b'"step":5' in file.read_bytes()):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert main(["train", str(path), f"out={killed}"]) == 0
    assert main(["train", str(path), f"out={whole}"]) == 0
    assert recorded(killed, "group") == recorded(whole, "group")
    first = load_file(killed / "model.safetensors")
    second = load_file(whole / "model.safetensors")
    assert all(torch.equal(first[name], second[name]) for name in second)


def test_a_training_by_a_recipe_can_be_watched(tmp_path, recipe):
    recipe["trainer"]["max_steps"] = 2
    out = train(from_mapping(TrainRecipe, recipe, where="recipe"))
    record = json.loads((out / "train.json").read_text())
    assert record["recipe"]["environment"] == {"name": "programs", "turns": 3}
    with View({"out": WatchedTraining(out)}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"{server.address}api/group?run=0&step=1&place=0") as answer:
            group = json.load(answer)
        server.shutdown()
    for sample in group["samples"]:
        assert sample["tests"] == 5
        assert sample["reward"] == pytest.approx(sample["passed"] / 5)


@pytest.fixture
def plain_recipe(recipe, tmp_path):
    """The recipe for a model whose template knows no tools, and that writes programs in fences."""
    fences = [f"```python\n{program}\n```" for program in PROGRAMS]
    model = save_tool_model(tmp_path / "plain", fences, template=PLAIN)
    environment = {"name": "programs", "turns": 3, "calls": "messages"}
    return {**recipe, "model": str(model), "environment": environment}


def test_every_message_may_be_a_program(plain_recipe, verifier, monkeypatch):
    monkeypatch.setattr("maxatk.train.run.MaxAtKTrainer", Talks)
    Talks.kept = ()
    plain_recipe["trainer"]["max_steps"] = 2
    out = train(from_mapping(TrainRecipe, plain_recipe, where="recipe"))
    lengths = set()
    for inputs, completions, rewards in Talks.kept:
        for row_of_batch, talk, reward in zip(inputs, completions, rewards.ravel(), strict=True):
            roles = [turn["role"] for turn in talk]
            assert roles == (["assistant", "tool"] * 3)[: len(roles)]
            lengths.add(len(roles))
            turn = kept_turn(talk)
            text = turn["tool_calls"][0]["function"]["arguments"]["program"]
            tests = [TestCase.from_json(test) for test in row_of_batch["tests"]]
            expected = verifier.verify(verifier.program_of(text, None).program, tests).reward
            assert reward == pytest.approx(expected, abs=1e-6)
    assert max(lengths) == 5  # three programs, two answers
    texts = [s["text"] for group in recorded(out, "group") for s in group["samples"]]
    assert any("tool submit: Failed: " in text for text in texts)


def kept_turn(talk):
    """The message of the first program that passed all examples, else the last one."""
    for message, answer in zip(talk[::2], talk[1::2], strict=False):
        if answer["content"].startswith("All examples pass"):
            return message
    return talk[-1]


@pytest.mark.parametrize("rollouts", ["own", "trl"])
def test_a_message_that_is_cut_off_is_closed_before_the_answer(plain_recipe, monkeypatch, rollouts):
    monkeypatch.setattr("maxatk.train.run.MaxAtKTrainer", Tokens)
    Tokens.kept = ()
    plain_recipe["trainer"] |= {
        "max_steps": 1,
        "rollouts": rollouts,
        "generation_kwargs": {"max_new_tokens": 1},
    }
    train(from_mapping(TrainRecipe, plain_recipe, where="recipe"))
    tokenizer = AutoTokenizer.from_pretrained(plain_recipe["model"])
    answers = 0
    for ids, is_real, is_policy in zip(*(part.tolist() for part in Tokens.kept), strict=True):
        real_ids = [token for token, real in zip(ids, is_real, strict=True) if real]
        text = tokenizer.decode(real_ids)
        opened = text.count("<|im_start|>user")
        assert text.count("<|im_end|>\n<|im_start|>user") == opened
        assert "<|im_end|><|im_end|>" not in text  # a message that ended itself
        policy_tokens = sum(np.multiply(is_real, is_policy))
        assert policy_tokens == text.count("<|im_start|>assistant") + 1
        answers += opened
    assert answers


@pytest.mark.parametrize(
    ("ends_turns_by", "end_tokens", "expected"),
    [
        ("<|im_end|>", ["<|im_end|>"], "<|im_end|>"),
        ("<pad>", ["<|im_end|>", "<pad>"], "<pad>"),  # as Gemma, whose turns have an end of theirs
        ("passed", ["<|im_end|>"], ""),  # by a token that ends no message
    ],
)
def test_a_message_is_closed_by_what_ends_messages_in_its_template(
    tool_model, ends_turns_by, end_tokens, expected
):
    template = PLAIN.replace("<|im_end|>", ends_turns_by)
    tokenizer = AutoTokenizer.from_pretrained(tool_model, chat_template=template)
    ends = tokenizer.convert_tokens_to_ids(end_tokens)
    answer = {"role": "tool", "name": "submit", "content": "wrong"}
    talk = [{"role": "assistant", "content": "right"}, answer]
    for ids, closing in (([7], expected), ([7, ends[-1]], "")):
        tokens = closing_tokens(
            tokenizer, answer, completions=[talk], completion_ids=[ids], end_tokens=ends
        )
        assert tokenizer.decode(tokens) == closing


class Tokens(MaxAtKTrainer):
    """Keeps the tokens of the last rollout batch, and which of them are the policy's."""

    kept = ()

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        Tokens.kept = (output["completion_ids"], output["completion_mask"], output["tool_mask"])
        return output


class Talks(MaxAtKTrainer):
    """Keeps the conversations and rewards of every rollout batch."""

    kept = ()

    def _score(self, rows, prompts, completions, ids):
        self.completions = completions
        return super()._score(rows, prompts, completions, ids)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        Talks.kept = (*Talks.kept, (inputs, self.completions, self._rollout.rewards.copy()))
        return output


def test_a_dressed_tokenizer_renders_what_it_rendered_before(plain_recipe):
    tokenizer = AutoTokenizer.from_pretrained(plain_recipe["model"])
    talks = [
        [{"role": "user", "content": "Add."}],
        [{"role": "system", "content": "s"}, {"role": "user", "content": "Add."}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    ]
    settings = [{"tokenize": False, "add_generation_prompt": opened} for opened in (False, True)]
    before = [tokenizer.apply_chat_template(t, **s) for t in talks for s in settings]
    call_by_messages(tokenizer)
    assert [tokenizer.apply_chat_template(t, **s) for t in talks for s in settings] == before
    call = {"type": "function", "function": {"name": "submit", "arguments": {"program": "p"}}}
    talk = [*talks[0], {"role": "assistant", "tool_calls": [call]}]
    answer = {"role": "tool", "name": "submit", "content": "wrong"}
    assert tokenizer.apply_chat_template([*talk, answer], **settings[1]) == (
        "<|im_start|>user\nAdd.<|im_end|>\n<|im_start|>assistant\np<|im_end|>\n"
        "<|im_start|>user\nwrong<|im_end|>\n<|im_start|>assistant\n"
    )


def test_conversations_without_calls_are_rendered_as_before(tool_model):
    template = PLAIN.replace(
        "message['content']", "(message['thought'] or '') + message['content']"
    )
    tokenizer = AutoTokenizer.from_pretrained(tool_model, chat_template=template)
    talk = [
        {"role": "user", "content": "2"},
        {"role": "assistant", "content": "passed", "thought": "right"},
        {"role": "user", "content": "3"},
    ]
    before = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert "right" in before
    call_by_messages(tokenizer)
    after = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert after == before


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "qwen3_6"])
def test_templates_that_change_earlier_messages_are_trained_by_those_that_do_not(tool_model, name):
    """Qwen's templates leave the thoughts of a message out once a question follows it."""
    template = (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()
    tokenizer = AutoTokenizer.from_pretrained(tool_model, chat_template=template)
    prompt = [{"role": "system", "content": "s"}, {"role": "user", "content": "Add."}]
    settings = [
        {"tokenize": False, "add_generation_prompt": True, **arguments}
        for arguments in ({}, {"enable_thinking": False})
    ]
    before = [tokenizer.apply_chat_template(prompt, **s) for s in settings]
    environment = {"name": "programs", "calls": "messages"}
    prepare_tokenizer(tokenizer, environment, None)
    assert [tokenizer.apply_chat_template(prompt, **s) for s in settings] == before
    call = {"type": "function", "function": {"name": "submit", "arguments": {"program": "p"}}}
    talk = [*prompt, {"role": "assistant", "content": "", "tool_calls": [call]}]
    answer = {"role": "tool", "name": "submit", "content": "wrong"}
    earlier = tokenizer.apply_chat_template(talk, tokenize=False)
    later = tokenizer.apply_chat_template([*talk, answer], **settings[0])
    assert later.startswith(earlier)
    assert "<|im_start|>user\nwrong<|im_end|>\n" in later.removeprefix(earlier)


def test_a_template_that_changes_messages_and_that_trl_does_not_know_is_refused(tool_model):
    last = "{% if loop.last %}{{ 'last: ' }}{% endif %}"
    template = PLAIN.replace("{{ '<|im_start|>'", last + "{{ '<|im_start|>'")
    tokenizer = AutoTokenizer.from_pretrained(tool_model, chat_template=template)
    with pytest.raises(InvalidValueError, match=r"environment: needs .* a message as before when"):
        prepare_tokenizer(tokenizer, {"name": "programs", "calls": "messages"}, None)


def test_a_call_that_nobody_answered_counts_while_turns_are_left(verifier):
    def call(program):
        function = {"name": "submit", "arguments": {"program": program}}
        return {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}

    right = "print(int(input()) + 1)"
    answered = [call("print(9)"), {"role": "tool", "name": "submit", "content": "wrong"}]
    values = {}
    for turns in (1, 2):
        environment = Programs(turns=turns, verifier=verifier)
        environment.reset(**row(1))
        environment.submit("print(9)")
        columns = {"tests": [row(1)["tests"]], "environments": [environment]}
        reward = CodeReward(verifier)
        values[turns] = reward(None, [[*answered, call(right)]], **columns)
        assert reward(None, [answered], **columns) == [0.0]
    assert values == {1: [0.0], 2: [1.0]}


OWN = """
class Guess:
    def __init__(self, goal=3):
        self.goal = goal
        self.best = 0.0

    def reset(self, **row):
        self.best = 0.0

    def guess(self, x: int) -> str:
        '''Guess the number.

        Args:
            x: The guess.

        Returns:
            Whether it is right.
        '''
        self.best = max(self.best, 1 - abs(x - self.goal) / 9)
        return 'right' if x == self.goal else 'wrong'

def closeness(prompts, completions, environments, **_):
    return [environment.best for environment in environments]

def guess(x: int) -> str:
    '''Guess the number.

    Args:
        x: The guess.

    Returns:
        Whether it is right.
    '''
    return 'right' if x == 3 else 'wrong'

def calls(completions, **_):
    return [sum(turn['role'] == 'tool' for turn in talk) / 9 for talk in completions]
"""


BROKEN = """

def guess(x: int) -> str:
    '''Guess the number.

    Args:
        x: What may be the number.
    '''
    raise ConnectionError("the service is down")
"""


@pytest.fixture
def guesses(tmp_path, recipe):
    """A recipe whose model guesses, and a file with an environment, tools and rewards."""
    from tool_model import call

    model = save_tool_model(tmp_path / "guesses", [call("guess", x=x) for x in range(6)])
    path = tmp_path / "own.py"
    path.write_text(OWN)
    del recipe["environment"]
    few = {"max_steps": 2, "save_steps": 2, "max_completion_length": 120}
    return {**recipe, "model": str(model), "trainer": {**recipe["trainer"], **few}}, path


def test_an_environment_and_a_reward_of_ones_own(guesses):
    recipe, path = guesses
    recipe |= {"environment": {"name": f"{path}:Guess", "goal": 5}, "reward": f"{path}:closeness"}
    settings = from_mapping(TrainRecipe, recipe, where="recipe")
    assert preview(settings).rewards == {"closeness": [0.0, 0.0, 0.0]}
    out = train(settings)
    record = json.loads((out / "train.json").read_text())
    assert set(record["files"]) == {f"{path}:Guess", f"{path}:closeness"}
    rewards = {s["reward"] for group in recorded(out, "group") for s in group["samples"]}
    possible = {0.0, *(1 - (5 - x) / 9 for x in range(6))}
    assert len(rewards) > 1
    assert all(min(abs(reward - value) for value in possible) < 1e-6 for reward in rewards)


def test_tools_of_ones_own(guesses):
    recipe, path = guesses
    recipe |= {"tools": [f"{path}:guess"], "reward": f"{path}:calls"}
    out = train(from_mapping(TrainRecipe, recipe, where="recipe"))
    rewards = {s["reward"] for group in recorded(out, "group") for s in group["samples"]}
    assert len(rewards) > 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"environment": "program"}, InvalidValueError, "environment: must be programs, module:N"),
        ({"environment": {"turns": 2}}, InvalidValueError, "environment: must be programs"),
        ({"environment": {"name": "programs", "turns": 0}}, InvalidValueError, "turns: must be"),
        (
            {"environment": {"name": "programs", "turn": 2}},
            InvalidValueError,
            "environment: unknown value 'turn'; .*did you mean 'turns'",
        ),
        (
            {"environment": {"name": "programs", "verifier": {"workers": 3}}},
            InvalidValueError,
            "environment: unknown value 'verifier'; allowed: calls, time_limit, turns",
        ),
        (
            {"environment": {"name": "programs", "time_limit": None}},
            InvalidValueError,
            "environment.time_limit: must be a number",
        ),
        (
            {"environment": {"name": "programs", 3: 1}},
            InvalidValueError,
            "environment: must be a mapping with names as keys, got 3",
        ),
        (
            {"environment": {"name": "programs", "calls": "x"}},
            InvalidValueError,
            "tool or messages",
        ),
        (
            {"environment": {"name": "programs", "calls": "messages"}, "tools": ["json:dumps"]},
            InvalidValueError,
            "tools: must be left out beside an environment with calls: messages",
        ),
        ({"environment": "none.py:A"}, MissingFileError, "environment: 'none.py' does not exist"),
        ({"environment": "json:JSONDecoder"}, InvalidValueError, "a class with a method `reset`"),
        ({"tools": "a.py:f"}, InvalidValueError, "tools: must be list, got 'a.py:f'"),
        ({"tools": [3]}, InvalidValueError, "tools"),
        ({"tools": ["json:none"]}, InvalidValueError, "tools: 'json' has no function 'none'"),
    ],
)
@pytest.mark.parametrize("look", [train, preview])
def test_what_is_not_allowed_is_refused_before_any_work(recipe, look, changes, error, message):
    recipe |= changes
    with pytest.raises(error, match=message):
        look(from_mapping(TrainRecipe, recipe, where="recipe"))


def test_a_preview_refuses_groups_with_signal_beside_an_environment_as_the_run_does(recipe):
    recipe["trainer"]["groups_with_signal"] = True
    for look in (preview, train):
        with pytest.raises(InvalidValueError, match="groups_with_signal: needs no environments"):
            look(from_mapping(TrainRecipe, recipe, where="recipe"))
    assert not Path(recipe["out"]).exists()


def test_a_tool_that_raises_at_every_call_is_a_finding(guesses):
    """TRL tells the model of the error, and trains on: nothing else would show it."""
    recipe, path = guesses
    recipe |= {"tools": [f"{path}:guess"], "reward": f"{path}:calls"}
    recipe["trainer"]["max_steps"] = 2
    path.write_text(OWN + BROKEN)
    out = train(from_mapping(TrainRecipe, recipe, where="recipe"))
    log = json.loads((out / "train.json").read_text())["log_history"]
    broken = {finding.symptom.name: finding.evidence for finding in findings(log)}
    assert broken["tools fail"] == "100% of the calls of tools failed"


FLAWED = """
def bare(query):
    return query

def undescribed(query: str) -> str:
    '''Look it up.'''
    return query

class Bare:
    def reset(self, **row):
        pass

    def look(self, place: int) -> str:
        return "nothing"

class Narrow:
    def reset(self, prompt):
        pass
"""


FINE = """
def look(place: int) -> str:
    '''Look there.

    Args:
        place: Where.
    '''
    return "nothing"

class Fine:
    def reset(self, **row):
        pass

    def look(self, place: int) -> str:
        '''Look there.

        Args:
            place: Where.
        '''
        return "nothing"

class Mute:
    def reset(self, **row):
        pass
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools": ["flawed.py:bare"]}, "tools: 'flawed.py:bare': .*bare because it has no docstr"),
        ({"tools": ["flawed.py:undescribed"]}, "undescribed.*no description for the argument"),
        ({"environment": "flawed.py:Bare"}, "environment: 'flawed.py:Bare': .*look because it has"),
        ({"environment": "flawed.py:Narrow"}, "Narrow.reset is called with the columns of a row"),
        (
            {"environment": None, "tools": ["fine.py:look", "also_fine.py:look"]},
            r"tools: must be of different names, .* got \['look'\]",
        ),
        (
            {"environment": "fine.py:Fine", "tools": ["also_fine.py:look"]},
            r"tools: must be of different names, .* got \['look'\]",
        ),
    ],
)
@pytest.mark.parametrize("look", [train, preview])
def test_tools_that_a_model_cannot_be_told_of_are_refused_before_any_work(
    tmp_path, monkeypatch, recipe, look, changes, message
):
    (tmp_path / "flawed.py").write_text(FLAWED)
    for name in ("fine.py", "also_fine.py"):
        (tmp_path / name).write_text(FINE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match=message):
        look(from_mapping(TrainRecipe, {**recipe, **changes}, where="recipe"))


STATIC = """
class Static:
    @staticmethod
    def reset(**row):
        pass

    @staticmethod
    def look() -> str:
        '''Look around.'''
        return "nothing"

class Untyped(Static):
    @staticmethod
    def search(place):
        '''Search there.

        Args:
            place: Where.
        '''
        return "nothing"
"""


def test_static_methods_of_an_environment_are_tools_without_an_object(tmp_path, recipe):
    path = tmp_path / "static.py"
    path.write_text(STATIC)
    recipe |= {"environment": f"{path}:Static"}
    preview(from_mapping(TrainRecipe, recipe, where="recipe"))
    recipe |= {"environment": f"{path}:Untyped"}
    with pytest.raises(InvalidValueError, match="type hints"):
        preview(from_mapping(TrainRecipe, recipe, where="recipe"))


def test_an_environment_without_a_tool_is_warned_of(tmp_path, recipe):
    path = tmp_path / "fine.py"
    path.write_text(FINE)
    recipe |= {"environment": f"{path}:Mute"}
    with pytest.warns(UserWarning, match="environment: Mute has no public method beside reset"):
        preview(from_mapping(TrainRecipe, recipe, where="recipe"))


def test_fewer_answers_than_an_environment_has_turns_are_refused(recipe):
    """Its later programs would never be run."""
    recipe["trainer"]["max_tool_calling_iterations"] = 1
    recipe["environment"] = {"name": "programs", "turns": 2}
    preview(from_mapping(TrainRecipe, recipe, where="recipe"))
    recipe["environment"] = {"name": "programs", "turns": 3}
    with pytest.raises(
        InvalidValueError,
        match=r"trainer\.max_tool_calling_iterations: must be 2 or more with environment.turns 3",
    ):
        preview(from_mapping(TrainRecipe, recipe, where="recipe"))


@pytest.mark.parametrize("look", [train, preview])
def test_a_model_without_a_template_for_tools_is_refused(tmp_path, recipe, look):
    recipe["model"] = str(save_tiny_model(tmp_path / "plain"))
    with pytest.raises(InvalidValueError, match="environment: needs a model whose chat template"):
        look(from_mapping(TrainRecipe, recipe, where="recipe"))


def test_a_problem_without_hidden_tests_is_named(recipe, tmp_path):
    problem = Problem("bare", "find", visible_tests=(TestCase(input="1", output="1"),))
    second = dataclasses.replace(problem, id="second")
    write_jsonl(tmp_path / "problems.jsonl", [problem.to_json(), second.to_json()])
    with pytest.raises(InvalidValueError, match="Problem 'bare': has no tests"):
        train(from_mapping(TrainRecipe, recipe, where="recipe"))
