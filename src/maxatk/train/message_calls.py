"""Models without calls of tools in their chat template: every message is a call of one tool.

A small model writes a program in a fence, and rarely one inside JSON. With its tokenizer dressed so
TRL reads each message of the model as the call `submit(program=MESSAGE)` and shows the answer as a
message of the user. What the model sees is a conversation in its own template.
"""

from __future__ import annotations

import re
from typing import Any

from maxatk.check import require

TOOL = "submit"
ARGUMENT = "program"

# Before the model's own template: calls and answers of tools become messages that it knows.
_PRELUDE = """\
{%- set plain = namespace(messages=[]) -%}
{%- for message in messages -%}
{%- if message['role'] != 'tool' and not message['tool_calls'] -%}
{%- set plain.messages = plain.messages + [message] -%}
{%- else -%}
{%- set words = namespace(text=message['content'] or '') -%}
{%- for call in message['tool_calls'] or [] -%}
{%- set function = call['function'] or call -%}
{%- if function['name'] == '<TOOL>' -%}
{%- set words.text = words.text ~ (function['arguments']['<ARGUMENT>'] or '') -%}
{%- else -%}
{%- set arguments = function['arguments'] | tojson -%}
{%- set words.text = words.text ~ function['name'] ~ '(' ~ arguments ~ ')' -%}
{%- endif -%}
{%- endfor -%}
{%- set role = 'user' if message['role'] == 'tool' else message['role'] -%}
{%- set plain.messages = plain.messages + [{'role': role, 'content': words.text}] -%}
{%- endif -%}
{%- endfor -%}
{%- set messages = plain.messages -%}
"""


def keeps_messages(tokenizer: Any) -> bool:
    """Return whether the chat template shows a conversation as before when an answer follows."""
    from trl.chat_template_utils import is_chat_template_prefix_preserving

    return bool(is_chat_template_prefix_preserving(tokenizer))


def training_template(tokenizer: Any) -> str | None:
    """Return the template by which TRL trains with a tokenizer, None where it knows none."""
    from trl.chat_template_utils import get_training_chat_template

    try:
        template: str | None = get_training_chat_template(tokenizer)
    except ValueError:
        return None
    return template


def call_by_messages(tokenizer: Any) -> None:
    """Make TRL read every message of the model as a call.

    The tokenizer gets another chat template, which renders conversations without calls as before,
    and a `response_template` of transformers. Where the template changes earlier messages when
    later ones follow, TRL's version for training takes its place: it keeps them as they were drawn.
    Raises InvalidValueError without a chat template.
    """
    template = tokenizer.chat_template
    require(template is not None, "environment", "for a model with a chat template", template)
    prelude = _PRELUDE.replace("<TOOL>", TOOL).replace("<ARGUMENT>", ARGUMENT)
    user = [{"role": "user", "content": "x"}]
    asked = tokenizer.apply_chat_template(user, tokenize=False)
    opened = tokenizer.apply_chat_template(user, tokenize=False, add_generation_prompt=True)
    opening = opened.removeprefix(asked)
    allowed = "for a model whose template opens its turn with text of its own"
    require(opened != asked and opening != opened, "environment", allowed, template)
    tokenizer.chat_template = prelude + template
    if not keeps_messages(tokenizer):
        tokenizer.chat_template = template
        tokenizer.chat_template = prelude + (training_template(tokenizer) or template)
    arguments = {ARGUMENT: "{content}"}
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": opening,
        "fields": {
            "tool_calls": {
                "open_pattern": r"\A",
                "close_pattern": rf"{re.escape(tokenizer.eos_token)}\s*|\Z",
                "repeats": True,
                "content": "text",
                "transform": {
                    "type": "function",
                    "function": {"name": TOOL, "arguments": arguments},
                },
            },
            "content": {"close_pattern": r"\Z", "content": "text"},
        },
    }
