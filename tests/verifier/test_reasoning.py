"""Thoughts and special tokens in a completion: what of it is the answer."""

import logging
import time

import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation.submissions import submission
from maxatk.records import Outcome, Problem, Sample, TestCase
from maxatk.verifier import (
    CodeReward,
    Job,
    Verifier,
    VerifierSettings,
    compute_score,
    extract_code,
)
from maxatk.verifier.extract import Extracted, Refusal, read_program
from maxatk.verifier.reasoning import opening_of, read_answer
from processes import patience
from verifier.completions import ADD, END, PY, WRONG

GOOD = "good()\n"
BAD = f"{PY}bad()\n{END}"
UNMARKED = f"```\n{GOOD}{END}"
STRIPS = "import re\nprint(re.sub(r'<think>.*?</think>', '', input()))\n"
UNFINISHED = Extracted("", Refusal("unfinished_thought"))
ECHO = TestCase(input="1\n", output="1\n")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
        ("<seed:think>", "</seed:think>"),
        ("[THINK]", "[/THINK]"),
        ("◁think▷", "◁/think▷"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        (
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
        ("<|channel|>analysis<|message|>", "<|channel|>final <|constrain|>python<|message|>"),
        ("<|channel|>analysis<|message|>", "<|channel|>final json<|message|>"),
    ],
)
def test_a_thought_in_any_tags_is_left_out_and_one_that_never_ends_is_no_answer(opening, closing):
    assert extract_code(f"{opening}\n{BAD}No.{closing}\n{UNMARKED}") == GOOD
    assert extract_code(f"\n {opening}{BAD}{closing}{UNMARKED}") == GOOD
    assert extract_code(f"{BAD}No.\n{closing}\n{UNMARKED}") == GOOD  # the prompt has opened it
    assert read_program(f"{opening}\n{BAD}") == UNFINISHED
    assert read_program(f"{opening}a{closing}\n{UNMARKED}{opening}no") == UNFINISHED
    assert extract_code(f"{opening}\n{BAD}", unfinished_thought="read") == "bad()\n"


def test_channels_of_gpt_oss_whose_special_tokens_are_gone():
    assert extract_code(f"analysisWe need {BAD}assistantfinal{UNMARKED}") == GOOD
    assert read_program(f"analysisWe need {BAD}") == UNFINISHED
    assert extract_code(f"analysis of the input {BAD}") == "bad()\n"


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        (f"<think>a</think>\n{PY}print('</think>')\n{END}", "print('</think>')\n"),
        (f"{PY}print('</think>')\n{END}", "print('</think>')\n"),
        ("print('</think>')\n", "print('</think>')\n"),
        (f"{PY}{STRIPS}{END}", STRIPS),
        (f"<think>a</think>{PY}{STRIPS}{END}It strips <think> and </think>.", STRIPS),
        (f"{PY}{GOOD}# until </think>\n{END}", f"{GOOD}# until </think>\n"),
        (f"{PY}{GOOD}{END}That strips the </think> tag.\n", GOOD),
        (f"{PY}{GOOD}{END}It strips `</think>`\nDone.", GOOD),
        (f"<think>`</think>` ends it. {BAD}</think>\n{UNMARKED}", GOOD),
        (f"<think>One ```python block.\n{PY}bad(), </think>\n{UNMARKED}", GOOD),
        (f"thought\n{PY}x = 1\n</think>\n{PY}{GOOD}{END}", GOOD),
        (f"<think>a</think>\n{BAD}</think>\n{UNMARKED}", GOOD),  # closed twice
        (f"a</think>\n{BAD}</think>\n{UNMARKED}", GOOD),
        (f"Hm.\n<think>a</think>\n<think>{BAD}</think>{UNMARKED}", GOOD),
        (f"{PY}{GOOD}{END}</think>", GOOD),  # it says nothing else
    ],
)
def test_a_tag_is_text_in_a_program_and_in_quotes(completion, program):
    assert extract_code(completion) == program


@pytest.mark.parametrize(
    "completion",
    [
        f"<think>maybe\n{PY}{ADD}{END}no, wait",
        f"<think>\n{PY}print('</think>')\n{ADD}{END}",  # its closing tag is text
        f"<think>'</think>'\n{PY}{ADD}{END}",
        f"<think>a</think>\n{PY}{ADD}{END}<thinking>or rather\n{PY}{WRONG}{END}",
        f"  <THINK>\n{PY}{ADD}",
        f"<think>\n{PY}{ADD}{END}</thinking>",  # another tag closes nothing
        f"<think>\n{PY}{ADD}{END}<think>",
    ],
)
def test_what_a_model_could_try_to_have_a_thought_rewarded_is_worth_nothing(verifier, completion):
    tests = [[TestCase(call="add(1, 2)", output="3")]]
    reward = CodeReward(verifier)
    assert reward(completions=[completion], tests=tests) == [0.0]
    assert reward.verdicts[0].outcome is Outcome.UNFINISHED_THOUGHT
    truth = {"tests": [test.to_json() for test in tests[0]]}
    assert compute_score("a", completion, truth)["score"] == 0.0
    problem = Problem("p", "", tuple(tests[0]))
    job = submission(Sample("p", 0, completion), problem, verifier.program_of).job(problem)
    assert verifier.verify_many([job])[0].outcome is Outcome.UNFINISHED_THOUGHT


def test_an_unfinished_thought_is_read_where_that_is_asked_for():
    completion = f"<think>maybe\n{PY}print(1)\n{END}no, wait"
    tests = [ECHO, ECHO]
    with VerifierSettings(workers=1, unfinished_thought="read").open() as verifier:
        assert CodeReward(verifier)(completions=[completion], tests=[tests]) == [1.0]
        assert verifier.limits["unfinished_thought"] == "read"
    truth = {"tests": [test.to_json() for test in tests]}
    assert compute_score("a", completion, truth, unfinished_thought="read")["score"] == 1.0
    with pytest.raises(InvalidValueError, match="unfinished_thought: unknown"):
        Verifier(workers=1, unfinished_thought="maybe")
    with pytest.raises(InvalidValueError, match="unfinished_thought: unknown"):
        VerifierSettings(unfinished_thought="maybe")


@pytest.mark.parametrize(
    "completion",
    [
        "<a thought that never ends>",
        "<a program in another language>pascal",
        "<a program in another language>cpp",
        "unfinished_thought",
        str(Refusal("other_language", "cpp")),
        repr(UNFINISHED),
    ],
)
def test_no_text_of_a_completion_stands_for_a_refusal(verifier, completion):
    reward = CodeReward(verifier)
    assert reward(completions=[completion], tests=[[ECHO]]) == [0.0]
    assert reward.verdicts[0].outcome in (Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR)


def test_a_refused_job_is_not_run_whatever_its_program(verifier):
    refused = Refusal("unfinished_thought")
    right = "print(input())"
    verdicts = verifier.verify_many([Job(right, (ECHO,)), Job(right, (ECHO,), refused=refused)])
    assert [verdict.reward for verdict in verdicts] == [1.0, 0.0]
    with pytest.raises(InvalidValueError, match="refused: must be a Refusal, got 'no'"):
        Job(right, (ECHO,), refused="no")
    with pytest.raises(InvalidValueError, match="kind: unknown value 'other'"):
        Refusal("other")
    with pytest.raises(InvalidValueError, match="language: unknown value 'pascal'"):
        Refusal("other_language", "pascal")


def test_a_prompt_that_opens_a_thought_has_begun_it(verifier):
    prompts = ["Add.\n<think>\n", [{"role": "assistant", "content": "<think>"}], "Add."]
    completions = [f"{PY}print(1)\n{END}"] * 3
    reward = CodeReward(verifier)
    assert reward(prompts, completions, tests=[[ECHO]] * 3) == [0.0, 0.0, 1.0]
    closed = [f"hm</think>{text}" for text in completions]
    assert reward(prompts, closed, tests=[[ECHO]] * 3) == [1.0] * 3
    assert [opening_of(prompt) for prompt in (None, "", [], "a <think> b")] == [""] * 4


def test_special_tokens_are_said_once(caplog):
    with caplog.at_level(logging.WARNING), Verifier(workers=1) as verifier:
        for _ in range(2):
            assert verifier.program_of("f()\n<|endoftext|>g()", None).program == "f()\n"
    assert [
        record.getMessage() for record in caplog.records if "<|endoftext|>" in record.getMessage()
    ]
    assert len(caplog.records) == 1


def test_an_answer_is_the_text_without_its_thoughts():
    assert read_answer("<think>6</think>It is 7.</s>").text == "It is 7."
    assert read_answer("x</think> draft </think> 1").text == " draft </think> 1"
    assert read_answer("<think>6</think>\n").text == "<think>6</think>\n"
    assert not read_answer("<think>is it 42? let me").finished


@pytest.mark.parametrize(
    "text",
    [
        "<think>\n" * 50_000,
        "</think>\n" * 50_000,
        "<think> </think>" * 30_000,
        "<think>x</think>\n" + "</think>\n" * 40_000,
        "<think>\n" * 25_000 + "</think>\n" * 25_000,
        "<think>\n```python\nx = '</think>'\n```\n" * 5_000,
        "'</think>'" * 40_000,
        " " * 400_000 + "<think>",
        "<|im_end|>" * 40_000 + "x'",
        "'<|im_end|>'" * 40_000,
        "> ```\n" * 60_000,
        "```python x```\n" * 30_000,
        "````markdown\n```python\nx\n```\n````\n" * 10_000,
    ],
    ids=range(13),
)
def test_reading_takes_linear_time(text):
    start = time.process_time()
    extract_code(text, repair_truncated=True)
    assert time.process_time() - start < patience(4)
