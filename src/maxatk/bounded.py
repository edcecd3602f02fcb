"""Read what others wrote within bounds: bytes, lines, JSON and packed data that fit the memory.

A small file can stand for much: a line without an end, zeros that were packed, brackets a million
deep. Every reader of files goes through here, and ends in a DataError that names the bound.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from maxatk.check import existing_file
from maxatk.errors import DataError

LONGEST = 1 << 27
"""Bytes of a line, of one row of a table and of a file that is read at once."""

MOST_VALUES = 1 << 22
"""Values of one JSON text: each of them takes up to 250 bytes of memory."""

_WIDEST = 1 << 28  # bytes of a text in memory, where a character may take four
_PART = 1 << 20  # characters of a JSON text that are looked at together
_ALWAYS_UNPACKED = 1 << 28  # bytes that any file may unpack to
_MOST_TIMES = 64  # as many times its size as a larger file may unpack to
_HEADS = {
    b"PK\x03\x04": "a zip archive, as an Excel workbook is; save the table as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the table as CSV in UTF-8",
    b"PAR1": "a parquet file; give it a name that ends in .parquet",
    b"\x1f\x8b": "packed by gzip; give it a name that ends in .gz",
    codecs.BOM_UTF16_LE: "text in UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "text in UTF-16; save it as UTF-8",
}


def read_whole(path: Path, *, most: int = LONGEST) -> bytes:
    """Return the bytes of a file, without the byte-order mark of UTF-8.

    Raises MissingFileError without the file, DataError for one of more than `most` bytes.
    """
    existing_file(path)
    with path.open("rb") as file:
        data = file.read(most + 1)
    _refuse_larger(path, len(data), most)
    return data.removeprefix(codecs.BOM_UTF8)


def _refuse_larger(path: Path, size: int, most: int) -> None:
    if size > most:
        raise DataError(f"{path}: is larger than {_mebibytes(most)}, the most that is read at once")


def text_of(data: bytes) -> str:
    """Return the text of UTF-8 bytes; raises DataError, without the place, that names the cure."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise DataError(
            f"not UTF-8: {error.reason} (0x{byte:02x}) at byte {error.start + 1}; save the file "
            "as UTF-8, such as by `iconv -f latin1 -t utf-8`"
        ) from error
    if sys.getsizeof(text) > _WIDEST:
        raise DataError(f"the text takes more than {_mebibytes(_WIDEST)} of memory")
    return text


def read_text(path: Path, *, most: int = LONGEST) -> str:
    """Return the text of a file in UTF-8; raises as `read_whole` and `text_of`, with the place."""
    data = read_whole(path, most=most)
    _refuse_other_kinds(path, data)
    with placed(str(path)):
        return text_of(data)


def json_value(data: bytes | str, *, parse_int: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text; `parse_int` makes its integers, as for `json.loads`.

    Raises DataError, without the place, for other text, for values nested too deeply, for more than
    `MOST_VALUES` of them, and for integers of thousands of digits.
    """
    if not isinstance(data, (str, bytes)):
        raise DataError(f"must be JSON text, got {type(data).__name__}")
    text = data if isinstance(data, str) else text_of(data)
    # A value is behind a comma or an opening bracket, or the first. In texts they only count more.
    if sum(map(text.count, ",[{")) > MOST_VALUES and _count_values(text) > MOST_VALUES:
        raise DataError(f"broken JSON: more than {MOST_VALUES:,} values")
    try:
        return json.loads(text, parse_int=parse_int)
    except json.JSONDecodeError as error:
        raise BrokenJSONError(error) from error
    except RecursionError as error:
        raise DataError("broken JSON: nested too deeply") from error
    except ValueError as error:  # of an integer that is too long for Python
        raise DataError(f"broken JSON: {error}") from error


class BrokenJSONError(DataError):
    """A text is no JSON, and within the bounds of one."""

    def __init__(self, error: json.JSONDecodeError) -> None:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        what = error.msg.removesuffix(" at")  # as of an unterminated string "starting at"
        super().__init__(f"broken JSON: {what} at {line}column {error.colno}")


def _count_values(text: str) -> int:
    """Return how many commas and opening brackets of a JSON text stand outside its strings.

    The count ends where there are too many.
    """
    count = 0
    start = 0
    inside_string = False
    while start < len(text) and count <= MOST_VALUES:
        end = start + _PART
        backslashes = len(text[start:end]) - len(text[start:end].rstrip("\\"))
        end += backslashes % 2  # what is escaped stays with its backslash
        parts = text[start:end].replace("\\\\", "").replace('\\"', "").split('"')
        first_outside = 1 if inside_string else 0
        for part in parts[first_outside::2]:
            count += sum(map(part.count, ",[{"))
        has_odd_quotes = len(parts) % 2 == 0
        if has_odd_quotes:
            inside_string = not inside_string
        start = end
    return count


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of every line that is not blank, without the byte-order mark.

    A file whose name ends in .gz is unpacked. Raises MissingFileError without the file, DataError
    for a line of more than `LONGEST` bytes, for what is no text, and for damaged packed data.
    """
    for number, line in raw_lines(path):
        if not line.isspace():
            yield number, line


def lines_or_whole(path: Path) -> Iterator[tuple[int, bytes]] | bytes:
    """Return the lines of a file as `lines_of` where each is JSON by itself, else all its bytes.

    The first of several lines tells. Lines may be more together than is read at once; of other
    bytes DataError is raised for more, and blank lines are left out. Raises as `lines_of`.
    """
    lines = lines_of(path)
    head = list(itertools.islice(lines, 2))
    lines = itertools.chain(head, lines)
    if len(head) > 1 and is_json(head[0][1]):
        return lines
    content = bytearray()
    for _, line in lines:
        content += line
        _refuse_larger(path, len(content), LONGEST)
    return bytes(content)


def is_json(line: bytes) -> bool:
    """Say whether a line is JSON by itself, and within the bounds of one value."""
    try:
        json_value(line)
    except DataError:
        return False
    return True


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield what `lines_of` does, blank lines too."""
    existing_file(path)
    with _opened(path) as (read_line, count):
        number = 0
        while True:
            number += 1
            with placed(f"{path}:{number}"):
                line = read_line(LONGEST + 1)
            if number == 1:
                _refuse_other_kinds(path, line)
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line:
                return
            if len(line) > LONGEST:
                raise DataError(f"{path}:{number}: the line is longer than {_mebibytes(LONGEST)}")
            count(len(line))
            yield number, line


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[Callable[[int], bytes], Callable[[int], None]]]:
    """Open a file; yield how a line is read, and what counts the bytes that were unpacked."""
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            yield file.readline, lambda _: None
        return
    import gzip
    import zlib

    most = most_unpacked(path.stat().st_size)
    unpacked = 0

    def count(size: int) -> None:
        nonlocal unpacked
        unpacked += size
        if unpacked > most:
            raise DataError(f"{path}: unpacks to more than {_mebibytes(most)}")

    def read_line(size: int) -> bytes:
        try:
            return packed.readline(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"damaged gzip data ({error})") from error

    with gzip.open(path, "rb") as packed:
        yield read_line, count


def inflated(data: bytes, *, most: int) -> bytes:
    """Return what zlib packed; raises ValueError for other or damaged data or more than `most`."""
    import zlib

    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if stream.unconsumed_tail:
        raise ValueError(f"larger than {most} bytes when decompressed")
    if not stream.eof:
        raise ValueError("the data ends too early")
    return plain


def refuse_packed(path: Path) -> None:
    """Raise DataError where a zip archive, such as a file of torch, has members that are packed.

    torch writes none; such a member may stand for a thousand times its size.
    """
    import zipfile

    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise DataError(f"{path}: its member {member.filename!r:.60} is packed")


def most_unpacked(size: int) -> int:
    """Return the bytes that a file of so many may stand for when it is unpacked."""
    return max(_ALWAYS_UNPACKED, _MOST_TIMES * size)


@contextlib.contextmanager
def placed(place: str) -> Iterator[None]:
    """Put a place before the message of a DataError of the block."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


def _refuse_other_kinds(path: Path, head: bytes) -> None:
    """Raise DataError where the first bytes of what should be text are those of something else."""
    for magic, name in _HEADS.items():
        if head.startswith(magic):
            raise DataError(f"{path}: is {name}")


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB"
