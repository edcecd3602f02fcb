"""Completions that are conversations: as one text to look at, and the part that is judged.

A message is a mapping with `role` and `content`; a call of a tool is in `tool_calls`, in the form
of OpenAI's API or as JSON text of it, and what a policy thought may be in a field of its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from maxatk.bounded import json_value
from maxatk.check import require
from maxatk.errors import DataError

Message: TypeAlias = Mapping[str, Any]

Completion: TypeAlias = str | Sequence[Message]
"""A text, or the messages behind the prompt."""

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_ENDS_WITHOUT_TEXT = ("length", "content_filter")  # reasons for which a reply may have ended early


def completion_text(completion: Completion) -> str:
    """Return the text of a completion: itself, or a conversation's last message of the assistant.

    A conversation may end with the message of a tool or of an environment, which the policy has not
    written. Raises InvalidValueError for what is neither.
    """
    if isinstance(completion, str):
        return completion
    is_list = isinstance(completion, Sequence)
    are_messages = is_list and all(isinstance(turn, Mapping) for turn in completion)
    require(are_messages, "completion", "text or a list of messages", completion)
    of_policy = [turn for turn in completion if turn.get("role", "assistant") == "assistant"]
    return content_text(of_policy[-1].get("content")) if of_policy else ""


def reply_text(message: Message, *, finish_reason: Any) -> str | None:
    """Return the text of a reply of OpenAI's API, None where it is none.

    Servers that part the reasoning from the answer leave the content empty, or null, where the
    reply ended within its reasoning. Its text is then that thought, which never ends. Mistral's
    send a list of parts, of which the reasoning has no `text`. A reply that refuses has its text in
    a field of its own. A reply that was cut off or filtered may have no text at all, which is the
    empty text.
    """
    content = message.get("content")
    if isinstance(content, list):
        content = content_text(content) or None
    if content is not None and not isinstance(content, str):
        return None
    if content:
        return content
    for name in _THOUGHTS:
        thought = message.get(name)
        if thought and isinstance(thought, str):
            return f"<think>\n{thought}"
    refusal = message.get("refusal")
    if refusal and isinstance(refusal, str):
        return refusal
    return "" if finish_reason in _ENDS_WITHOUT_TEXT else content


def pending_argument(completion: Completion, tool: str, argument: str) -> str | None:
    """Return the argument, a text, of the last call of a tool that a conversation ends with.

    Nobody has answered such a call, as when the tokens were used up. None where there is none.
    """
    if isinstance(completion, str) or not completion:
        return None
    for call in reversed(completion[-1].get("tool_calls") or ()):
        function = _function(call)
        arguments = _arguments(function)
        if function.get("name") == tool and isinstance(arguments, Mapping):
            value = arguments.get(argument)
            return value if isinstance(value, str) else None
    return None


def transcript(completion: Completion) -> str:
    """Return a completion as one text to look at.

    A single message without calls is its content. Any other conversation has a paragraph for each
    message, behind its role and the name of the tool; a call is `name(arguments)`.
    """
    if isinstance(completion, str):
        return completion
    if len(completion) == 1 and not completion[0].get("tool_calls"):
        return _said(completion[0])
    return "\n\n".join(map(_paragraph, completion))


def content_text(content: Any) -> str:
    """Return the text of a message's content: itself, or that of its parts that have some.

    A message of a model that also sees images is a list of parts. Raises InvalidValueError for what
    is neither.
    """
    if isinstance(content, str):
        return content
    parts = content or ()
    is_list = isinstance(parts, Sequence) and not isinstance(parts, bytes)
    require(is_list, "content", "text or a list of parts", content)
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _paragraph(message: Message) -> str:
    """Return a message behind its role, with its calls."""
    who = str(message.get("role", "assistant"))
    if who == "tool" and message.get("name"):
        who = f"tool {message['name']}"
    words = _said(message)
    lines = [words] if words else []
    lines += map(_call, message.get("tool_calls") or ())
    return f"{who}: " + "\n".join(lines)


def _said(message: Message) -> str:
    """Return what a message says, behind what its writer thought."""
    thoughts = [f"<think>{message[name]}</think>" for name in _THOUGHTS if message.get(name)]
    return "\n".join([*thoughts, content_text(message.get("content"))])


def _call(call: Any) -> str:
    """Return a call as `name(arguments)`, what is no call as it is."""
    function = _function(call)
    if not function:
        return str(call)
    arguments = _arguments(function)
    if isinstance(arguments, Mapping):
        arguments = ", ".join(f"{name}={_argument(value)}" for name, value in arguments.items())
    return f"{function.get('name')}({arguments})"


def _function(call: Any) -> Mapping[str, Any]:
    """Return the name and the arguments of a call, nothing of what is no call."""
    value = _parsed(call)
    if not isinstance(value, Mapping):
        return {}
    function = value.get("function") or value
    return function if isinstance(function, Mapping) else {}


def _arguments(function: Mapping[str, Any]) -> Any:
    """Return the arguments of a call as a mapping where they are one."""
    arguments = function.get("arguments")
    return {} if arguments is None else _parsed(arguments)


def _parsed(value: Any) -> Any:
    """Return what a JSON text holds, and anything else as it is."""
    if isinstance(value, str):
        with contextlib.suppress(DataError):
            return json_value(value)
    return value


def _argument(value: Any) -> str:
    """Return an argument of a call; a program keeps its lines."""
    if isinstance(value, str) and "\n" in value:
        return f'"""\n{value}\n"""'
    return json.dumps(value, ensure_ascii=False, default=str)
