"""Python: what a completion's program is, and when two programs are the same."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from maxatk.verifier.fences import (
    FILE,
    LONGEST,
    PYTHON,
    Block,
    is_program,
    longest_program,
    parsed,
    read_fences,
)
from maxatk.verifier.languages.language import Language, text_form

_TAG = re.compile(r"^[ \t]*(?:<(answer|solution|code)>|\[(PYTHON)\])", re.MULTILINE | re.IGNORECASE)
_READS = re.compile(r"\binput\s*\(|\bstdin\b|\b(?:open|os\.read)\s*\(\s*0\b")
_BEHIND_LINE = re.compile(r"(?<=\n)")
_MOST_BLOCKS = 32  # the last ones, among which helpers are looked for
_LONGEST = 1 << 16  # characters: what is longer is compared as text


def program_in(answer: str, entry_point: str | None, *, repair_truncated: bool) -> str | None:
    """Return the program in an answer by the rule of `extract_code`; None for all of its text."""
    defining = _definition(entry_point) if entry_point else None
    text = _tagged(answer, defining)
    fences = read_fences(text)
    blocks = [block._replace(text=_flush_left(block.text, defining)) for block in fences.closed]
    unclosed = fences.unclosed
    if unclosed is not None:
        unclosed = _flush_left(unclosed, defining)
        unclosed = longest_program(unclosed) if repair_truncated else unclosed
    program = None
    if defining is not None:
        programs = [block.text for block in blocks if block.is_python or not block.language]
        if unclosed and repair_truncated:
            programs.append(unclosed)
        program = _defining_program(programs, defining)
    if program is None:
        program = _last_program(blocks, reads_input=defining is None)
    if program is None:
        program = unclosed
    if program is None and blocks:
        program = _program_before(text, blocks[0]) or blocks[-1].text
    return program


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


def _defining_program(texts: Sequence[str], defining: re.Pattern[str]) -> str | None:
    """Return the last text that defines the entry point, with the helpers that it lacks."""
    matching = [text for text in texts if defining.search(text)]
    if not matching:
        return None
    complete = [text for text in matching if not _is_signature(text)]
    # A test may put a stand-in of its own in the place of the function, as in `f = Mock()`.
    with_definition = [text for text in complete if not _only_assigns(text, defining)]
    return _Helpers(texts).added_to((with_definition or complete or matching)[-1])


def _only_assigns(text: str, defining: re.Pattern[str]) -> bool:
    return all(match[0].endswith("=") for match in defining.finditer(text))


def _last_program(blocks: Sequence[Block], *, reads_input: bool) -> str | None:
    """Return the last program among closed blocks, None without a block that is Python.

    With `reads_input` one that reads the input wins, because what follows it is an example of its
    use, and a block of output is no program.
    """
    marked = [block.text for block in blocks if block.is_python]
    unmarked = [block.text for block in blocks if not block.language]
    if not reads_input:
        texts = marked or unmarked
        return texts[-1] if texts else None
    texts = [block.text for block in blocks if block.is_python or not block.language]
    helpers = _Helpers(texts)
    for text in reversed(texts[-_MOST_BLOCKS:]):
        program = helpers.added_to(text)
        if _READS.search(program) and (len(program) > LONGEST or is_program(program)):
            return program
    if marked:
        return marked[-1]
    return next((text for text in reversed(unmarked[-_MOST_BLOCKS:]) if is_program(text)), None)


def _program_before(text: str, block: Block) -> str | None:
    """Return the program that stands before the first block without a fence of its own."""
    program = longest_program(text[: block.start])
    return program if is_program(program) else None


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
    """What a block defines at its top level and what it lacks, and if it does nothing else."""

    defined: frozenset[str]
    lacking: frozenset[str]
    only_defines: bool


class _Helpers:
    """The blocks of a completion, the last ones, as helpers of one of them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._names: dict[str, _Names] = {}
        for text in texts[-_MOST_BLOCKS:]:
            names = _names(text)
            if names is not None:
                self._names[text] = names

    def added_to(self, program: str) -> str:
        """Return a program with the blocks that define what it lacks, in the order of the text.

        They do nothing but define: an example would run with the program.
        """
        if program not in self._names:
            return program
        taken = {program}
        while True:
            defined = frozenset().union(*(self._names[text].defined for text in taken))
            lacking = frozenset().union(*(self._names[text].lacking for text in taken)) - defined
            helpers = {
                text
                for text, names in self._names.items()
                if names.only_defines and names.defined & lacking
            }
            if helpers <= taken:
                return "\n".join(text for text in self._names if text in taken)
            taken |= helpers


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
        used |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
        scopes += scope.get_children()
    lacking = frozenset(used - defined - set(dir(builtins)))
    lines = text.encode().splitlines()  # of bytes: at the ends of lines that Python knows
    only_defines = all(_only_defines(node, lines) for node in tree.body)
    return _Names(frozenset(defined), lacking, only_defines)


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
