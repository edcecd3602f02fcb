"""Take the program out of what a language model wrote."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import textwrap
import warnings
from collections.abc import Sequence
from typing import NamedTuple

_LANGUAGE = re.compile(r"[\w+#.-]*")
_PYTHON = ("python", "python3", "py", "py3")
_BLANK = " \t\u200b\u200c\u200d\u2060\ufeff"  # what may stand before a fence; some are not seen
_TAG = re.compile(r"^[ \t]*(?:<(answer)>|\[(PYTHON)\])", re.MULTILINE | re.IGNORECASE)
_READS = re.compile(r"\binput\s*\(|\bstdin\b|\bopen\s*\(\s*0\b")
_BEHIND_LINE = re.compile(r"(?<=\n)")  # nothing else ends a line, as splitlines would have it
_FILE = "<truncated program>"

# A program of a model may hold an invalid escape; the warning would be about this file name alone.
warnings.filterwarnings("ignore", module=re.escape(_FILE))

_MOST_ATTEMPTS = 32
_MOST_BLOCKS = 32  # the last ones, among which helpers are looked for
_LONGEST = 1 << 14  # characters: what is longer is left as it is


def extract_code(
    completion: str, entry_point: str | None = None, *, repair_truncated: bool = False
) -> str:
    """Return the program in a completion: the last complete fenced block, Python ones first.

    The rule, in order: the last closed block that defines `entry_point` and not its signature
    alone, where that is known; the last closed block marked as Python; the last closed block
    without a language; if a fence was opened and never closed, all that follows it; the last closed
    block of any language; the text itself. A block that defines the entry point, or that reads the
    input, gets the blocks beside it that define what it lacks. What <answer> or [PYTHON] holds is
    all that counts, and what follows </think>. With `repair_truncated` what follows a fence that
    was never closed is cut to `longest_program`, and the first rule counts it as a closed block.
    """
    completion = without_thoughts(completion)
    defining = _definition(entry_point) if entry_point else None
    blocks, unclosed = _blocks(_tagged(completion, defining))
    closed = [(language, _flush_left(text, defining)) for language, text in blocks]
    if unclosed is not None:
        unclosed = _flush_left(unclosed, defining)
        unclosed = longest_program(unclosed) if repair_truncated else unclosed
    ours = [text for language, text in closed if language in ("", *_PYTHON)]
    if defining is not None:
        whole = [*ours, unclosed] if unclosed and repair_truncated else ours
        found = [text for text in whole if defining.search(text)]
        chosen = [text for text in found if not _is_signature(text)] or found
        if chosen:
            return _with_helpers(chosen[-1], whole)
    for wanted in (_PYTHON, ("",)):
        matching = [text for language, text in closed if language in wanted]
        if matching:
            reads = _READS.search(matching[-1])
            return _with_helpers(matching[-1], ours) if reads else matching[-1]
    if unclosed is not None:
        return unclosed
    return closed[-1][1] if closed else completion


def without_thoughts(completion: str) -> str:
    """Return what follows the reasoning of a completion, or all of it where nothing does."""
    answer = completion.rpartition("</think>")[2]
    return answer if answer.strip() else completion


def longest_program(text: str) -> str:
    """Return the longest prefix of whole lines that Python can parse, or the text without one.

    No prefix that holds the line of a syntax error can be parsed, so that each attempt ends before
    the error of the last one. Attempts and characters are bounded.
    """
    lines = text.split("\n")
    if len(text) > _LONGEST:
        return text
    for _ in range(_MOST_ATTEMPTS):
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines:
            break
        try:
            ast.parse("\n".join(lines), filename=_FILE)
        except SyntaxError as error:
            del lines[min((error.lineno or 1) - 1, len(lines) - 1) :]
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            return "\n".join(lines) + "\n"
    return text


def _definition(entry_point: str) -> re.Pattern[str]:
    """Return the pattern of a line that defines the name, or the class of a method's name."""
    name = re.escape(entry_point.partition(".")[0].removesuffix("()"))
    return re.compile(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.MULTILINE)


def _tagged(text: str, defining: re.Pattern[str] | None) -> str:
    """Return what the last <answer> or [PYTHON] holds, as a block, where that is a program."""
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
    if not _is_program(inside if closing else longest_program(inside)):
        return text
    return f"~~~python\n{inside.strip(chr(10))}\n" + ("~~~" if closing else "")


class _Fence(NamedTuple):
    indent: str
    mark: str  # of backticks or tildes
    language: str


def _blocks(text: str) -> tuple[list[tuple[str, str]], str | None]:
    """Return language and text of each closed block, and the text of one left open.

    A fence after text on its line or indented by four more, and a first one without a language,
    which the prompt may have opened, closes what is a program up to there; else it opens a block.
    """
    closed: list[tuple[str, str]] = []
    opened: _Fence | None = None
    content: list[str] = []
    attempts = _MOST_ATTEMPTS
    for line in _BEHIND_LINE.split(text):
        before, fence = _fence(line)
        if fence is None:
            content.append(line)
            continue
        if opened is None:
            closes, must_parse = not closed and not fence.language, True
        else:
            closes = fence.mark.startswith(opened.mark) and not fence.language
            deeper = len(fence.indent) > len(opened.indent) + 3  # as in the docstring of a function
            must_parse = bool(before) or (deeper and opened.language.lower() in _PYTHON)
        if closes and must_parse:
            attempts -= 1
            closes = attempts >= 0 and _is_program(textwrap.dedent("".join(content) + before))
        if closes:
            content += [before.rstrip() + "\n"] if before else []
            closed.append(_block(opened, content))
            opened, content = None, []
        elif opened is None:
            opened, content = fence, []
        else:
            content.append(line)
    return closed, _block(opened, content)[1] if opened is not None else None


def _block(opened: _Fence | None, content: list[str]) -> tuple[str, str]:
    """Return a block, whose lines lose the indentation of the fence if the first one has it."""
    indent, _, language = opened or _Fence("", "", "")
    first = next((line for line in content if line.strip()), "")
    indent = indent if first.startswith(indent) else ""
    return language.lower(), "".join(line.removeprefix(indent) for line in content)


def _fence(line: str) -> tuple[str, _Fence | None]:
    """Return the text before the fence at the end of a line, and the fence, if there is one."""
    body = line.lstrip(_BLANK)
    if body.startswith(("```", "~~~")):
        rest = body.lstrip(body[0])
        if "`" in rest:
            return "", None
        language = _LANGUAGE.match(rest.lstrip(" \t"))
        mark = body[: len(body) - len(rest)]
        return "", _Fence(line[: -len(body)], mark, language[0] if language else "")
    before, found, rest = line.rstrip().rpartition("```")
    if not found or not _LANGUAGE.fullmatch(rest.strip()) or "```" in before.rstrip("`"):
        return "", None
    text = before.rstrip("`")
    return text, _Fence("", "`" * (3 + len(before) - len(text)), rest.strip())


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
    tree = _parsed(text) or _parsed(text.rstrip() + " ...")
    return tree is not None and bool(tree.body) and all(map(_is_stub, tree.body))


def _is_stub(node: ast.stmt) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return all(map(_is_stub, node.body))
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom))


def _is_program(text: str) -> bool:
    """Say whether Python can parse a text and finds more in it than words."""
    tree = _parsed(text)
    return tree is not None and any(not _is_prose(node) for node in tree.body)


def _is_prose(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, (ast.Call, ast.Await))
    return isinstance(node, ast.AnnAssign) and node.value is None  # such as "Note: this"


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text, filename=_FILE) if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Names(NamedTuple):
    """What a block defines at its top level and what it lacks, and if it does nothing else."""

    defined: frozenset[str]
    lacking: frozenset[str]
    only_defines: bool


def _with_helpers(chosen: str, texts: Sequence[str]) -> str:
    """Return a program with the blocks that define what it lacks, in the order of the text.

    They do nothing but define: an example would run with the program.
    """
    names = {text: found for text in texts[-_MOST_BLOCKS:] if (found := _names(text))}
    if chosen not in names or len(names) == 1:
        return chosen
    taken = {chosen}
    while True:
        defined = frozenset().union(*(names[text].defined for text in taken))
        lacking = frozenset().union(*(names[text].lacking for text in taken)) - defined
        more = {t for t, n in names.items() if n.only_defines and n.defined & lacking} - taken
        if not more:
            return "\n".join(text for text in names if text in taken)
        taken |= more


def _names(text: str) -> _Names | None:
    tree = _parsed(text)
    if tree is None:
        return None
    try:
        table = symtable.symtable(text, _FILE, "exec")
    except SyntaxError:  # such as a return outside a function
        return None
    symbols = table.get_symbols()
    defined = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    used = {s.get_name() for s in symbols if s.is_referenced()}
    scopes = table.get_children()
    while scopes:
        scope = scopes.pop()
        used |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
        scopes += scope.get_children()
    lacking = frozenset(used - defined - set(dir(builtins)))
    return _Names(frozenset(defined), lacking, all(map(_only_defines, tree.body)))


def _only_defines(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return not _READS.search(ast.unparse(node))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return isinstance(node, definitions) or _is_stub(node)
