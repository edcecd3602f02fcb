"""Values that cross between processes: plain builtins, encoded by exact type, never pickled.

One letter names the type, a length or a count follows, then the content. Decoding makes nothing
but new builtins, so no method of the sender ever runs at the receiver. Depth is capped on both
sides; the size is capped by whoever reads.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 200  # as deep as Python's parser lets brackets be nested
_CONSTANTS = {b"N": None, b"T": True, b"F": False}
_ATOMS = (bool, int, float, complex, str, bytes, bytearray)
_MANY = {list: b"l", tuple: b"t", set: b"S", frozenset: b"z"}
_CONTAINERS = {b"l": list, b"t": tuple, b"S": set, b"z": frozenset}


def encode(value: Any, depth: int = 0) -> bytes:
    """Return the encoding of a value; an instance of a subclass counts as its builtin base.

    Raises ValueError for other types and for values nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("the value is nested too deeply")
    if value is None:
        return b"N"
    if isinstance(value, _ATOMS):
        return _encode_atom(value)
    if isinstance(value, dict):
        items = [part for pair in dict.items(value) for part in pair]
        return container(b"d", [encode(item, depth + 1) for item in items])
    for base, tag in _MANY.items():
        if isinstance(value, base):
            return container(tag, [encode(part, depth + 1) for part in base.__iter__(value)])
    if hasattr(type(value), "__index__"):
        return _encode_atom(int(value.__index__()))
    raise ValueError(f"a value of type {type(value).__name__} cannot leave the sandbox")


def decode(data: bytes) -> Any:
    """Return the value of an encoding; raises ValueError where it is not one."""
    try:
        value, end = _decode(data, 0, 0)
    except (IndexError, TypeError, OverflowError) as error:
        raise ValueError("not an encoded value") from error
    if end != len(data):
        raise ValueError("something follows the encoded value")
    return value


def _encode_atom(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return _sized(b"i", b"%x" % value)
    if isinstance(value, float):
        return _sized(b"f", float.hex(value).encode())
    if isinstance(value, complex):
        parts = float.hex(value.real), float.hex(value.imag)
        return _sized(b"c", " ".join(parts).encode())
    if isinstance(value, str):
        return _sized(b"s", str.encode(value, "utf-8", "surrogatepass"))
    return _sized(b"b" if isinstance(value, bytes) else b"a", bytes(value))


def container(tag: bytes, parts: list[bytes]) -> bytes:
    """Return the encoding of a container from those of its parts; `d` takes keys and values."""
    return b"%b%d:" % (tag, len(parts) // 2 if tag == b"d" else len(parts)) + b"".join(parts)


def _sized(tag: bytes, content: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(content), content)


def header(data: bytes, at: int, depth: int) -> tuple[bytes, int, int]:
    """Return tag, size and start of the content of the value at a place; the size may be a count.

    Raises ValueError where there is none, or it lies too deep; its content fits into `data`.
    """
    if depth > _MAX_DEPTH + 1:
        raise ValueError("the value is nested too deeply")
    tag = data[at : at + 1]
    if tag in _CONSTANTS:
        return tag, 0, at + 1
    colon = data.index(b":", at, at + 22)
    size, start = int(data[at + 1 : colon]), colon + 1
    if size < 0 or size > len(data) - start:  # every part takes at least one byte
        raise ValueError("a length does not fit")
    return tag, 2 * size if tag == b"d" else size, start


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    tag, size, at = header(data, at, depth)
    if tag not in _CONTAINERS and tag != b"d":
        return atom(tag, data[at : at + size]), at + size
    parts = []
    for _ in range(size):
        part, at = _decode(data, at, depth + 1)
        parts.append(part)
    if tag == b"d":
        return dict(zip(parts[::2], parts[1::2], strict=True)), at
    return _CONTAINERS[tag](parts), at


def atom(tag: bytes, content: bytes) -> Any:
    """Return the value of a tag that is no container's; raises ValueError."""
    if tag in _CONSTANTS:
        return _CONSTANTS[tag]
    if tag == b"i":
        return int(content, 16)
    if tag == b"f":
        return float.fromhex(content.decode())
    if tag == b"c":
        real, imaginary = content.decode().split(" ")
        return complex(float.fromhex(real), float.fromhex(imaginary))
    if tag == b"s":
        return content.decode("utf-8", "surrogatepass")
    if tag in (b"b", b"a"):
        return content if tag == b"b" else bytearray(content)
    raise ValueError(f"unknown type {tag!r}")
