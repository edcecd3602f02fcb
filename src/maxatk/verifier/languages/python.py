"""Python: what a completion's program is, and when two programs are the same."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from maxatk.verifier.excerpts import MOST_BLOCKS, Excerpt, Lines, last_whole
from maxatk.verifier.fences import PYTHON, Block, read_fences
from maxatk.verifier.languages.language import Language, text_form
from maxatk.verifier.python_source import FILE, LONGEST, is_program, longest_program, parsed

_TAG = re.compile(r"^[ \t]*(?:<(answer|solution|code)>|\[(PYTHON)\])", re.MULTILINE | re.IGNORECASE)
# An assignment to sys.stdin reads nothing.
_READS = re.compile(r"\binput\s*\(|\bstdin\b(?!\s*=(?!=))|\b(?:open|os\.read)\s*\(\s*0\b")
# A text of its own in the place of the input, as an example has it.
_HAS_INPUT = re.compile(r"\bstdin\s*=\s*(?:io\.)?StringIO\s*\(\s*(?!sys\b|stdin\b|os\b|open\b)")
_WRITES = re.compile(r"\bprint\b|write|\bstdout\b")
_BEHIND_LINE = re.compile(r"(?<=\n)")
_LONGEST = 1 << 16  # characters: what is longer is compared as text


class _Answer(NamedTuple):
    """The parts of an answer; `defining` matches what its program defines, where that is known."""

    text: str
    blocks: Sequence[Block]
    unclosed: str | None
    defining: re.Pattern[str] | None
    repair_truncated: bool

    @property
    def in_python(self) -> list[str]:
        """The closed blocks whose fences say that they are Python."""
        return [block.text for block in self.blocks if block.is_python]

    @property
    def unmarked(self) -> list[str]:
        """The closed blocks whose fences name no language."""
        return [block.text for block in self.blocks if not block.language]

    @property
    def maybe_python(self) -> list[str]:
        """Both of them, in the order of the text."""
        return [block.text for block in self.blocks if block.is_python or not block.language]


def program_in(answer: str, entry_point: str | None, *, repair_truncated: bool) -> str:
    """Return the program in an answer by the rule of `extract_code`."""
    parts = _parts(answer, entry_point, repair_truncated=repair_truncated)
    for rule in _RULES:
        program = rule(parts)
        if program is not None:
            return program
    return answer


def _parts(answer: str, entry_point: str | None, *, repair_truncated: bool) -> _Answer:
    defining = _definition(entry_point) if entry_point else None
    text = _tagged(answer, defining)
    fences = read_fences(text)
    blocks = [block._replace(text=_flush_left(block.text, defining)) for block in fences.closed]
    unclosed = fences.unclosed
    if unclosed is not None:
        unclosed = _flush_left(unclosed, defining)
        unclosed = longest_program(unclosed) if repair_truncated else unclosed
    return _Answer(text, blocks, unclosed, defining, repair_truncated)


def _defining_block(answer: _Answer) -> str | None:
    """Return the last block that defines the entry point, with the helpers that it lacks."""
    defining = answer.defining
    if defining is None:
        return None
    texts = answer.maybe_python
    if answer.unclosed and answer.repair_truncated:
        texts.append(answer.unclosed)
    matching = [text for text in texts if defining.search(text)]
    if not matching:
        return None
    complete = [text for text in matching if not _is_signature(text)]
    # A test may put a stand-in of its own in the place of the function, as in `f = Mock()`.
    with_definition = [text for text in complete if not _only_assigns(text, defining)]
    blocks = _Blocks(texts)

    def is_part(text: str, earlier: str) -> bool:
        excerpt = blocks.excerpt(text, earlier)
        stops_inside = excerpt is not None and excerpt.stops_inside
        return stops_inside or blocks.lacks(text, earlier)

    return blocks.with_helpers(last_whole(with_definition or complete or matching, is_part))


def _reading_block(answer: _Answer) -> str | None:
    """Return the last program that reads the input, rather one that prints, with its helpers.

    What follows it may be an example of its use, or explain it.
    """
    if answer.defining is not None:
        return None
    blocks = _Blocks(answer.maybe_python)
    programs = {}
    for text in blocks.texts:
        program = blocks.with_helpers(text)
        if _reads(program) and (len(program) > LONGEST or is_program(program)):
            programs[text] = program
    if not programs:
        return None
    running = [
        text for text, program in programs.items() if _WRITES.search(program) and blocks.runs(text)
    ]

    def is_part(text: str, earlier: str) -> bool:
        return blocks.is_small_excerpt(text, earlier) or blocks.lacks(text, earlier)

    return programs[last_whole(running or list(programs), is_part)]


def _python_block(answer: _Answer) -> str | None:
    """Return the last block that is marked as Python."""
    texts = answer.in_python
    return last_whole(texts, _Blocks(texts).is_small_excerpt) if texts else None


def _unmarked_block(answer: _Answer) -> str | None:
    """Return the last block without a language, a program where no name says what it defines."""
    texts = answer.unmarked[-MOST_BLOCKS:]
    if answer.defining is None:
        texts = list(filter(is_program, texts))
    return last_whole(texts, _Blocks(texts).is_small_excerpt) if texts else None


def _unclosed_block(answer: _Answer) -> str | None:
    return answer.unclosed


def _program_before(answer: _Answer) -> str | None:
    """Return the program that stands before the first block without a fence of its own."""
    if not answer.blocks:
        return None
    program = longest_program(answer.text[: answer.blocks[0].start])
    return program if is_program(program) else None


def _other_block(answer: _Answer) -> str | None:
    """Return the last block of any language, rather a program than what it prints."""
    if not answer.blocks:
        return None
    texts = [block.text for block in answer.blocks[-MOST_BLOCKS:]]
    return next(filter(is_program, reversed(texts)), texts[-1])


_RULES: tuple[Callable[[_Answer], str | None], ...] = (
    _defining_block,
    _reading_block,
    _python_block,
    _unmarked_block,
    _unclosed_block,
    _program_before,
    _other_block,
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


def _only_assigns(text: str, defining: re.Pattern[str]) -> bool:
    return all(match[0].endswith("=") for match in defining.finditer(text))


def _reads(program: str) -> bool:
    return _READS.search(program) is not None and not _HAS_INPUT.search(program)


def _definition(entry_point: str) -> re.Pattern[str]:
    """Return the pattern of a line that defines the name, or the class of a method's name."""
    name = re.escape(entry_point.partition(".")[0].removesuffix("()"))
    return re.compile(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.MULTILINE)


def _tagged(text: str, defining: re.Pattern[str] | None) -> str:
    """Return what the last of the tags `_TAG` holds, as a block, where that is a program."""
    openings = list(_TAG.finditer(text))
    if not openings:
        return text
    opening = openings[-1]
    name = opening[1] or opening[2]
    closing = re.compile(rf"</{name}>|\[/{name}\]", re.IGNORECASE).search(text, opening.end())
    inside = textwrap.dedent(text[opening.end() : closing.start() if closing else None])
    if defining is not None and not defining.search(inside):
        return text
    if "```" in inside or "~~~" in inside:
        return inside
    if not is_program(inside if closing else longest_program(inside)):
        return text
    return f"~~~python\n{inside.strip(chr(10))}\n" + ("~~~" if closing else "")


def _flush_left(text: str, defining: re.Pattern[str] | None) -> str:
    """Return a text without the indentation of its first line; the body of a function keeps it."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return text
    lines = "".join(line.removeprefix(indent) for line in _BEHIND_LINE.split(text))
    return lines if defining is None or defining.search(lines) else text


def _is_signature(text: str) -> bool:
    """Say whether every function of a text is without a body."""
    tree = parsed(text) or parsed(text.rstrip() + " ...")
    return tree is not None and bool(tree.body) and all(map(_is_stub, tree.body))


def _is_stub(node: ast.stmt) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return all(map(_is_stub, node.body))
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom))


class _Names(NamedTuple):
    """What a block defines at its top level and what it lacks, and if it does nothing else.

    `imports_all` says that it has an import of `*`, which may bring what it lacks.
    """

    defined: frozenset[str]
    lacking: frozenset[str]
    only_defines: bool
    imports_all: bool


class _Blocks:
    """The blocks of an answer, the last ones, and how they hang together."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts[-MOST_BLOCKS:]
        self._names: dict[str, _Names] = {}
        for text in self.texts:
            names = _names(text)
            if names is not None:
                self._names[text] = names
        self._lines: dict[str, Lines] = {}

    def with_helpers(self, program: str) -> str:
        """Return a program with the blocks that define what it lacks, in the order of the text.

        They do nothing but define: an example would run with the program.
        """
        if program not in self._names:
            return program
        joined = self._joined(program)
        return "\n".join(text for text in self._names if text in joined)

    def runs(self, program: str) -> bool:
        """Say whether a program with its helpers does more than define."""
        return any(
            text not in self._names or not self._names[text].only_defines
            for text in self._joined(program)
        )

    def lacks(self, program: str, earlier: str) -> bool:
        """Say whether a program lacks, with its helpers too, what an earlier block defines."""
        if program not in self._names or earlier not in self._names:
            return False
        joined = self._joined(program)
        if any(self._names[text].imports_all for text in joined):
            return False
        return bool(self._lacking(joined) & self._names[earlier].defined)

    def excerpt(self, text: str, earlier: str) -> Excerpt | None:
        """Return how a block stands in an earlier one, which is a program."""
        if earlier not in self._names and len(earlier) <= LONGEST:
            return None
        return self._lines_of(text).in_other(self._lines_of(earlier))

    def is_small_excerpt(self, text: str, earlier: str) -> bool:
        """Say whether a block is some lines of an earlier one, half of them at most."""
        excerpt = self.excerpt(text, earlier)
        return excerpt is not None and excerpt.share <= 0.5

    def _joined(self, program: str) -> set[str]:
        """Return a program and the blocks that define what it lacks."""
        joined = {program}
        if program not in self._names:
            return joined
        while True:
            lacking = self._lacking(joined)
            helpers = {
                text
                for text, names in self._names.items()
                if names.only_defines and names.defined & lacking
            }
            if helpers <= joined:
                return joined
            joined |= helpers

    def _lacking(self, joined: set[str]) -> frozenset[str]:
        """Return the names that some blocks use and none of them defines."""
        defined = frozenset().union(*(self._names[text].defined for text in joined))
        return frozenset().union(*(self._names[text].lacking for text in joined)) - defined

    def _lines_of(self, text: str) -> Lines:
        if text not in self._lines:
            self._lines[text] = Lines(text, comment="#")
        return self._lines[text]


def _names(text: str) -> _Names | None:
    """Return what a block defines and lacks; None for one that Python cannot compile."""
    tree = parsed(text)
    if tree is None:
        return None
    try:
        table = symtable.symtable(text, FILE, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # such as a return outside a function, or an expression of too many parts
    symbols = table.get_symbols()
    defined = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    used = {s.get_name() for s in symbols if s.is_referenced()}
    scopes = table.get_children()
    while scopes:
        scope = scopes.pop()
        for symbol in scope.get_symbols():
            if symbol.is_global():
                used.add(symbol.get_name())
            if symbol.is_declared_global() and symbol.is_assigned():
                defined.add(symbol.get_name())
        scopes += scope.get_children()
    lacking = frozenset(used - defined - set(dir(builtins)))
    lines = text.encode().splitlines()  # of bytes: at the ends of lines that Python knows
    only_defines = all(_only_defines(node, lines) for node in tree.body)
    return _Names(frozenset(defined), lacking, only_defines, any(map(_imports_all, tree.body)))


def _imports_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _only_defines(node: ast.stmt, lines: Sequence[bytes]) -> bool:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return not _READS.search(_source_of(node, lines))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return isinstance(node, definitions) or _is_stub(node)


def _source_of(node: ast.stmt, lines: Sequence[bytes]) -> str:
    """Return the source of a statement; `ast.unparse` cannot write a very deep expression."""
    own_lines = list(lines[node.lineno - 1 : node.end_lineno])
    own_lines[-1] = own_lines[-1][: node.end_col_offset]
    own_lines[0] = own_lines[0][node.col_offset :]
    return b"\n".join(own_lines).decode()


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
