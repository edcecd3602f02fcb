"""Completions that are conversations, as texts."""

import json

import pytest

from maxatk.conversations import completion_text, pending_argument, transcript

PROGRAM = "n = int(input())\nprint(n)"
CALL = {"type": "function", "function": {"name": "submit", "arguments": {"program": PROGRAM}}}
TALK = [
    {"role": "assistant", "content": "I try.", "tool_calls": [CALL]},
    {"role": "tool", "name": "submit", "content": "Failed: time limit."},
    {"role": "assistant", "reasoning_content": "hm", "content": "I give up."},
]
WITH_TOOL_LAST = TALK[:2]


def test_the_last_message_of_the_assistant_is_what_is_judged():
    assert completion_text("text") == "text"
    assert completion_text(TALK) == "I give up."
    assert completion_text(WITH_TOOL_LAST) == "I try."
    assert completion_text([{"role": "tool", "content": "right"}]) == ""
    assert completion_text([]) == ""
    assert completion_text([{"content": "no role"}]) == "no role"
    parts = [{"type": "image"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert completion_text([{"role": "assistant", "content": parts}]) == "ab"
    assert completion_text([{"role": "assistant", "content": None}]) == ""


def test_a_transcript_has_roles_calls_and_lines():
    assert transcript("text") == "text"
    assert transcript([{"role": "assistant", "content": "a\nb"}]) == "a\nb"
    assert transcript(TALK) == (
        f'assistant: I try.\nsubmit(program="""\n{PROGRAM}\n""")\n\n'
        "tool submit: Failed: time limit.\n\n"
        "assistant: <think>hm</think>\nI give up."
    )
    assert transcript([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]) == (
        "system: s\n\nuser: u"
    )


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"x": 1, "name": "ü"}, 'f(x=1, name="ü")'),
        (json.dumps({"x": [1, None]}), "f(x=[1, null])"),
        ("{broken", "f({broken)"),
        (None, "f()"),
        ([1], "f([1])"),
    ],
)
def test_a_call_is_shown_in_whatever_form_its_arguments_are(arguments, shown):
    message = {"role": "assistant", "content": None}
    message["tool_calls"] = [{"function": {"name": "f", "arguments": arguments}}]
    assert transcript([message]) == f"assistant: {shown}"


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (json.dumps(CALL), f'submit(program="""\n{PROGRAM}\n""")'),
        ('{"id": "c", "name": "f", "arguments": "{\\"x\\": 1}"}', "f(x=1)"),
        ("{broken", "{broken"),
        ('"text"', '"text"'),
        ('{"function": "f"}', '{"function": "f"}'),
        ({"function": {"name": "f", "arguments": "[" * 100_000}}, "f(" + "[" * 100_000 + ")"),
    ],
    ids=["json", "json without a function", "no json", "no mapping", "no function", "too deep"],
)
def test_a_call_may_be_a_text_and_what_is_no_call_is_shown_as_it_is(call, shown):
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    assert transcript([message]) == f"assistant: {shown}"


def test_of_several_calls_that_nobody_has_answered_the_last_counts():
    calls = [
        {"function": {"name": name, "arguments": {"program": program}}}
        for name, program in (("submit", "a"), ("submit", "b"), ("look", "c"))
    ]
    talk = [*TALK[:2], {"role": "assistant", "content": "", "tool_calls": calls}]
    assert pending_argument(talk, "submit", "program") == "b"
    answered = [*talk, {"role": "tool", "name": "submit", "content": "Failed."}]
    assert pending_argument(answered, "submit", "program") is None
