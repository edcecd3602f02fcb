"""Python: what a completion's program is, and when two programs are the same.

The rule is a list of functions, each about one kind of block: the first that finds a program wins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from maxatk.verifier.fences import PYTHON
from maxatk.verifier.languages.language import Language, text_form
from maxatk.verifier.languages.python_answer import Answer, read_parts
from maxatk.verifier.languages.python_blocks import Blocks, is_stub
from maxatk.verifier.languages.python_definition import Binding
from maxatk.verifier.languages.python_streams import reads_input, writes_output
from maxatk.verifier.python_source import FILE, LONGEST, is_program, longest_program, parsed
from maxatk.verifier.repeated_blocks import MOST_BLOCKS, last_whole

# Two words that no line of Python begins with, to the end of a sentence.
_SENTENCE = re.compile(r"[A-Z][A-Za-z']*[,!.:]? [A-Za-z'`][\s\S]*[.:!?]\s*")
_LONGEST = 1 << 16  # characters: what is longer is compared as text


def program_in(answer: str, entry_point: str | None, *, repair_truncated: bool) -> str:
    """Return the program in an answer by the rule of `extract_code`."""
    parts = read_parts(answer, entry_point, repair_truncated=repair_truncated)
    for rule in _RULES:
        program = rule(parts)
        if program is not None:
            return program
    return answer


def _defining_block(answer: Answer) -> str | None:
    """Return the last block that defines the entry point, with the helpers that it lacks."""
    definition = answer.definition
    if definition is None:
        return None
    texts = answer.maybe_python
    if answer.unclosed and answer.repair_truncated:
        texts.append(answer.unclosed)
    candidates = _best_bound({text: definition.binding(text) for text in texts})
    if not candidates:
        return None
    blocks = Blocks(texts)

    def is_part(text: str, earlier: str) -> bool:
        excerpt = blocks.excerpt(text, earlier)
        stops_inside = excerpt is not None and excerpt.stops_inside
        return stops_inside or blocks.lacks(text, earlier)

    return blocks.with_helpers(last_whole(candidates, is_part))


def _best_bound(bindings: Mapping[str, Binding]) -> list[str]:
    """Return the blocks that bind the entry point in the best way that one of them does.

    A signature without a body is worse than an import, but better than a block that imports the
    function to use it.
    """
    bound = {text: binding for text, binding in bindings.items() if binding}
    signatures = [text for text in bound if _is_signature(text)]
    only_signatures = frozenset(signatures)
    with_body = [text for text in bound if text not in only_signatures]
    for kind in (Binding.DEFINED, Binding.ASSIGNED):
        matching = [text for text in with_body if bound[text] is kind]
        if matching:
            return matching
    imports = [text for text in signatures if bound[text] is Binding.IMPORTED]
    return imports or signatures or with_body


def _is_signature(text: str) -> bool:
    """Say whether every function of a text is without a body."""
    tree = parsed(text) or parsed(text.rstrip() + " ...")
    return tree is not None and bool(tree.body) and all(map(is_stub, tree.body))


def _reading_block(answer: Answer) -> str | None:
    """Return the last program that reads the input, rather one that prints, with its helpers.

    What follows it may be an example of its use, or explain it.
    """
    if answer.definition is not None:
        return None
    blocks = Blocks(answer.maybe_python)
    programs = {}
    for text in blocks.texts:
        program = blocks.with_helpers(text)
        if reads_input(program) and (len(program) > LONGEST or is_program(program)):
            programs[text] = program
    if not programs:
        return None
    running = [
        text for text, program in programs.items() if writes_output(program) and blocks.runs(text)
    ]

    def is_part(text: str, earlier: str) -> bool:
        return blocks.is_small_excerpt(text, earlier) or blocks.lacks(text, earlier)

    return programs[last_whole(running or list(programs), is_part)]


def _python_block(answer: Answer) -> str | None:
    """Return the last block that is marked as Python."""
    texts = answer.in_python
    return last_whole(texts, Blocks(texts).is_small_excerpt) if texts else None


def _unmarked_block(answer: Answer) -> str | None:
    """Return the last block without a language, a program where no name says what it defines."""
    texts = answer.unmarked[-MOST_BLOCKS:]
    if answer.definition is None:
        texts = list(filter(is_program, texts))
    return last_whole(texts, Blocks(texts).is_small_excerpt) if texts else None


def _unclosed_block(answer: Answer) -> str | None:
    return answer.unclosed


def _program_before(answer: Answer) -> str | None:
    """Return the program that stands before the first block without a fence of its own."""
    if not answer.blocks:
        return None
    program = longest_program(answer.text[: answer.blocks[0].start])
    return program if is_program(program) else None


def _other_block(answer: Answer) -> str | None:
    """Return the last block of any language, rather a program than what it prints."""
    if not answer.blocks:
        return None
    texts = [block.text for block in answer.blocks[-MOST_BLOCKS:]]
    return next(filter(is_program, reversed(texts)), texts[-1])


def _program_beside_sentences(answer: Answer) -> str | None:
    """Return the program that stands between sentences, in a text that is none and has no block.

    What it leaves out are sentences alone: a program with a wrong line remains one.
    """
    text = answer.text
    if answer.blocks or answer.unclosed is not None or len(text) > LONGEST or parsed(text):
        return None
    lines = text.strip("\n").split("\n")
    while lines and (not lines[0].strip() or _SENTENCE.fullmatch(lines[0])):
        del lines[0]
    code = "\n".join(lines)
    program = longest_program(code)
    following = code[len(program.rstrip()) :].strip().partition("\n\n")[0]
    if following and not _SENTENCE.fullmatch(following):
        return None
    if answer.definition is not None and not answer.definition.binding(program):
        return None
    return program if is_program(program) else None


_RULES: tuple[Callable[[Answer], str | None], ...] = (
    _defining_block,
    _reading_block,
    _python_block,
    _unmarked_block,
    _unclosed_block,
    _program_before,
    _other_block,
    _program_beside_sentences,
)
"""Each returns the program of an answer, or None where the next one decides."""


def normal_form(program: str) -> str:
    """Return a text that is equal for programs of one syntax tree.

    What Python cannot parse, or is longer, is text without blank lines and trailing spaces.
    """
    if len(program) <= _LONGEST:
        try:
            return "tree " + ast.dump(ast.parse(program, filename=FILE))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    return text_form(program)


PYTHON_3 = Language(
    name="python",
    title="Python 3",
    fence="python",
    marks=PYTHON,
    program_in=program_in,
    normal_form=normal_form,
    seven="print(7)",
    calls=True,
)
