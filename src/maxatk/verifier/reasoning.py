"""What a language model answered: its text without the reasoning and without special tokens.

A model may write its thoughts between tags before it answers. A thought is no answer, and one that
never ends has none behind it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxatk.verifier.fences import Block, read_fences
from maxatk.verifier.python_source import MOST_ATTEMPTS, is_program

# How a thought begins and ends, as regular expressions: the tags that models of 2026 use. The last
# two rows are gpt-oss's channels, with its special tokens and as a tokenizer prints them without.
_THOUGHTS = (
    (r"<think>", r"</think>"),
    (r"<thinking>", r"</thinking>"),
    (r"<thought>", r"</thought>"),
    (r"<reasoning>", r"</reasoning>"),
    (r"<seed:think>", r"</seed:think>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (
        r"<\|channel\|>analysis<\|message\|>",
        r"<\|channel\|>final(?: ?(?:<\|constrain\|>)? ?\w+)?<\|message\|>",  # also `final json`
    ),
    (r"\A(?-i:analysis(?=[A-Z]))", r"assistantfinal"),
)
_OPENING = "|".join(f"(?P<open{row}>{opening})" for row, (opening, _) in enumerate(_THOUGHTS))
_CLOSING = "|".join(f"(?P<close{row}>{closing})" for row, (_, closing) in enumerate(_THOUGHTS))
_TAG = re.compile(
    rf"(?P<first>^[ \t]*)?(?P<tag>{_OPENING}|{_CLOSING})(?P<last>[ \t]*$)?",
    re.MULTILINE | re.IGNORECASE,
)
_OPENED_AT_END = re.compile(rf"(?:{_OPENING})\s*\Z", re.IGNORECASE)

# What a tokenizer ends a turn, a text or a file with, and MBPP's prompt a program. `</s>` may be
# HTML: it counts at the end alone.
_SPECIAL = re.compile(
    r"<\|(?:endoftext|end_of_text|im_end|eot_id|eom_id|end|end_of_turn|return|pad"
    r"|fim_prefix|fim_middle|fim_suffix|fim_pad|file_sep|repo_name)\|>"
    r"|(?m:^\[DONE\][ \t]*$)"
    r"|<end_of_turn>|<eos>|<pad>|\[PAD\]|<｜end▁of▁sentence｜>"
    r"|</s>(?=\s*(?:\Z|</s>|<pad>|<unk>))"
)


class Answer(NamedTuple):
    """What a completion answers.

    `text` is the completion without its reasoning, all of it where nothing follows the reasoning.
    `finished` is False where a thought never ends; `special_token` is the first token of a
    tokenizer that was cut off with all behind it, "" without one.
    """

    text: str
    finished: bool = True
    special_token: str = ""


class _Tag(NamedTuple):
    row: int  # of `_THOUGHTS`
    opens: bool
    start: int
    end: int
    first: bool  # nothing stands before it on its line
    last: bool  # nothing stands behind it on its line
    block: Block | None  # the fenced block that it stands in
    behind_block: bool  # a fenced block stands before it


class _Thought(NamedTuple):
    """Where a thought begins and ends, with its tags."""

    start: int
    end: int


def read_answer(completion: str) -> Answer:
    """Return the answer of a completion.

    The first closing tag behind an opening one ends a thought, and a closing tag without an opening
    one ends a thought that the prompt has begun. A tag in quotes, in a program, or in a fenced
    program is text. What stands before the first thought does not count; later thoughts are left
    out. An opening tag begins its line.
    """
    answer = _behind_thoughts(completion)
    if answer is None:
        return Answer(completion, finished=False)
    text = answer if answer.strip() else completion
    return _without_special_tokens(text)


def opening_of(prompt: Any) -> str:
    """Return the tag of a thought that a prompt, text or messages, ends with; "" without one."""
    if isinstance(prompt, Sequence) and not isinstance(prompt, str):
        message = prompt[-1] if prompt else None
        prompt = message.get("content") if isinstance(message, Mapping) else None
    match = _OPENED_AT_END.search(prompt[-200:]) if isinstance(prompt, str) else None
    return match[0] if match else ""


def _behind_thoughts(completion: str) -> str | None:
    """Return a text without its thoughts; None where one never ends."""
    tags = _tags(completion)
    thoughts = _thoughts(tags)
    if thoughts is None:
        return None
    if not thoughts:
        return completion
    draft_end = _end_of_draft(tags, completion, start=thoughts[-1].end)
    if draft_end is not None:
        return completion[draft_end:]
    # Between two thoughts, and behind the last one, is what the completion answers.
    starts = [thought.end for thought in thoughts]
    ends = [thought.start for thought in thoughts[1:]] + [len(completion)]
    return "".join(completion[start:end] for start, end in zip(starts, ends, strict=True))


def _thoughts(tags: Sequence[_Tag]) -> list[_Thought] | None:
    """Return the thoughts that tags enclose, in their order; None where one never ends."""
    thoughts = []
    position = _end_of_prompted_thought(tags)
    if position > 0:
        thoughts.append(_Thought(0, position))
    closings = _Closings(tags)
    for tag in tags:
        is_opening = tag.opens and tag.first and tag.start >= position  # else it is in a thought
        if not is_opening:
            continue
        closing = closings.of(tag)
        if closing is None:
            return None
        thoughts.append(_Thought(tag.start, closing.end))
        position = closing.end
    return thoughts


def _end_of_draft(tags: Sequence[_Tag], completion: str, *, start: int) -> int | None:
    """Return where a draft ends behind the last thought, None where there is none.

    Some models close a thought twice, with a draft between. The closing tag has its line for
    itself, and an answer follows it.
    """
    text_end = len(completion.rstrip())
    ends = [
        tag.end
        for tag in tags
        if not tag.opens and tag.first and tag.last and tag.block is None
        if tag.start >= start and tag.end < text_end
    ]
    return ends[-1] if ends else None


def _end_of_prompted_thought(tags: Sequence[_Tag]) -> int:
    """Return where a thought ends that the prompt has begun, 0 where there is none."""
    for tag in tags:
        if tag.opens:
            if tag.first:
                return 0
            continue
        at_an_end = tag.first or tag.last
        if tag.block is None:
            # Behind a block prose may name the tag: "It strips the </think> of a model."
            if at_an_end or not tag.behind_block:
                return tag.end
        elif at_an_end and "```" in tag.block.text:
            return tag.end  # a block that the thought left open goes on into the answer
    return 0


class _Closings:
    """The closing tags of a text, by the row of `_THOUGHTS`, for a search from any place on."""

    def __init__(self, tags: Sequence[_Tag]) -> None:
        self._tags: dict[tuple[int, bool], list[_Tag]] = {}
        for tag in tags:
            if not tag.opens:
                self._tags.setdefault((tag.row, tag.block is None), []).append(tag)

    def of(self, opening: _Tag) -> _Tag | None:
        """Return the first tag that closes a thought, one in a block where there is no other.

        A thought may leave a block open, which then seems to hold its end.
        """
        for outside in (True, False):
            tags = self._tags.get((opening.row, outside), [])
            index = bisect.bisect_left(tags, opening.end, key=lambda tag: tag.start)
            if index < len(tags):
                return tags[index]
        return None


def _tags(text: str) -> list[_Tag]:
    """Return the tags of a text in their order, but for those that are text themselves."""
    matches = list(_TAG.finditer(text))
    if not matches or is_program(text):
        return []
    blocks = _Blocks(text)
    tags = []
    for match in matches:
        start, end = match.span("tag")
        row, opens = _kind(match)
        if not opens and _is_quoted(text, end):
            continue
        block = blocks.around(start)
        if block is not None and blocks.holds_program(block):
            continue
        tags.append(
            _Tag(
                row=row,
                opens=opens,
                start=start,
                end=end,
                first=match["first"] is not None or start == 0,
                last=match["last"] is not None,
                block=block,
                behind_block=blocks.any_before(start),
            )
        )
    return tags


def _kind(match: re.Match[str]) -> tuple[int, bool]:
    """Return the row of `_THOUGHTS` that a tag is of, and whether it opens a thought."""
    for row in range(len(_THOUGHTS)):
        if match[f"open{row}"] is not None:
            return row, True
        if match[f"close{row}"] is not None:
            return row, False
    raise AssertionError("a tag is of one row")


def _is_quoted(text: str, end: int) -> bool:
    """Say whether a quote or the end of inline code follows, and not a fence."""
    following = text[end : end + 3]
    return following[:1] in ("'", '"') or (following[:1] == "`" and following != "```")


class _Blocks:
    """The fenced blocks of a text by their place, each parsed once."""

    def __init__(self, text: str) -> None:
        self._blocks = read_fences(text).closed
        self._starts = [block.start for block in self._blocks]
        self._programs: dict[int, bool] = {}  # by the start of the block

    def around(self, position: int) -> Block | None:
        """Return the block that holds a place, if one does."""
        index = bisect.bisect_right(self._starts, position) - 1
        if index < 0 or position >= self._blocks[index].end:
            return None
        return self._blocks[index]

    def any_before(self, position: int) -> bool:
        """Say whether a block begins before a place."""
        return bool(self._starts) and self._starts[0] < position

    def holds_program(self, block: Block) -> bool:
        """Say whether a block is a program; of very many blocks the last ones are not asked."""
        if block.start not in self._programs:
            asked = len(self._programs) < MOST_ATTEMPTS
            self._programs[block.start] = asked and is_program(block.text)
        return self._programs[block.start]


def _without_special_tokens(text: str) -> Answer:
    """Return what stands before the first special token that is not text of a program."""
    matches = [match for match in _SPECIAL.finditer(text) if not _is_quoted(text, match.end())]
    if matches and is_program(text):
        # Python reads [DONE] as a list of a name that does not exist.
        matches = [match for match in matches if match[0].startswith("[DONE]")]
    if not matches:
        return Answer(text)
    blocks = _Blocks(text)
    for match in matches:
        block = blocks.around(match.start())
        if block is None or not blocks.holds_program(block):
            return Answer(text[: match.start()], special_token=match[0])
    return Answer(text)
