"""Messages that were cut off in mid-conversation, closed before the answer of a tool.

With `generation_kwargs: {max_new_tokens: 64}` every message of the model has at most 64 tokens, and
a conversation goes on behind one that was cut off there. TRL puts what a tool answers right behind
its tokens, as if the model had ended the message itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def closing_tokens(
    tokenizer: Any,
    answer: Any,
    *,
    completions: Sequence[Sequence[Any]],
    completion_ids: Sequence[Sequence[int]],
    end_tokens: Sequence[int],
) -> list[int]:
    """Return the tokens between the message that `answer` follows and the template's next turn.

    They are the token by which the template ends a message, where the message lacks one, and
    nothing otherwise. TRL masks them as it masks the answer, so that no loss has a token that the
    policy did not choose.

    Args:
        tokenizer: That of the model, with a chat template.
        answer: The last message of a tool: the very object that is the last of its conversation.
        completions: The messages of all conversations so far.
        completion_ids: Their tokens, up to the last message of the model.
        end_tokens: The tokens that end a message.
    """
    row = next(place for place, talk in enumerate(completions) if talk[-1] is answer)
    if completion_ids[row][-1] in end_tokens:
        return []
    return _end_of_message(tokenizer, end_tokens)


def _end_of_message(tokenizer: Any, end_tokens: Sequence[int]) -> list[int]:
    """Return the end token with which the template ends a message, nothing where it has none.

    It need not be the tokenizer's: that of Gemma ends a text, and its template a turn by another.
    """
    talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    rendered = tokenizer.apply_chat_template(talk, return_dict=False)
    if tokenizer.eos_token_id in rendered:  # behind which TRL lets the answer begin
        return [tokenizer.eos_token_id]
    return [token for token in rendered if token in end_tokens][-1:]
