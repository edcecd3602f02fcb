"""Values that cross between processes: builtins and a few more types by name, never pickled.

One letter names the type, a length or a count follows, then the content. No method of the sender
ever runs at the receiver. Depth is capped on both sides; the size by whoever reads.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAX_DEPTH = 200  # as deep as Python's parser lets brackets be nested
_CONSTANTS = {b"N": None, b"T": True, b"F": False}
_ATOMS = (bool, int, float, complex, str, bytes, bytearray)
_MANY = {list: b"l", tuple: b"t", set: b"S", frozenset: b"z"}
_CONTAINERS = {b"l": list, b"t": tuple, b"S": set, b"z": frozenset}
# What crosses between the two processes of a check test beside builtins: what makes it anew there,
# and of which builtins. A match is worth its truth alone.
_FOREIGN: dict[str, tuple[str, Callable[[Any], tuple[Any, ...]]]] = {
    "fractions.Fraction": ("fractions.Fraction", lambda v: (v.numerator, v.denominator)),
    "decimal.Decimal": ("decimal.Decimal", lambda v: (str(v),)),
    "collections.deque": ("collections.deque", lambda v: (list(v), v.maxlen)),
    "datetime.date": ("datetime.date.fromisoformat", lambda v: (v.isoformat(),)),
    "datetime.datetime": ("datetime.datetime.fromisoformat", lambda v: (v.isoformat(),)),
    "datetime.time": ("datetime.time.fromisoformat", lambda v: (v.isoformat(),)),
    "datetime.timedelta": ("datetime.timedelta", lambda v: (v.days, v.seconds, v.microseconds)),
    "builtins.range": ("builtins.range", lambda v: (v.start, v.stop, v.step)),
    "builtins.dict_keys": ("builtins.dict.keys", lambda v: (dict.fromkeys(v),)),
    "builtins.dict_values": ("builtins.dict.values", lambda v: (dict(enumerate(v)),)),
    "builtins.dict_items": ("builtins.dict.items", lambda v: (dict(v),)),
    "re.Match": ("builtins.bool", lambda v: (v is not None,)),
}


def encode(value: Any, depth: int = 0, *, foreign: bool = False) -> bytes:
    """Return the encoding of a value; an instance of a subclass counts as its builtin base.

    Raises ValueError for other types, but for those of `_FOREIGN` where `foreign` says so, and for
    values nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("the value is nested too deeply")
    if value is None:
        return b"N"
    if isinstance(value, _ATOMS):
        return _encode_atom(value)
    if isinstance(value, dict):
        items = [part for pair in dict.items(value) for part in pair]
        return container(b"d", [encode(item, depth + 1, foreign=foreign) for item in items])
    for base, tag in _MANY.items():
        if isinstance(value, base):
            parts = base.__iter__(value)
            return container(tag, [encode(part, depth + 1, foreign=foreign) for part in parts])
    if getattr(value, "shape", None) == ():  # a number of NumPy
        return encode(value.item(), depth + 1, foreign=foreign)
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if foreign and name in _FOREIGN:
        parts = (name, _FOREIGN[name][1](value))
        return container(b"r", [encode(part, depth + 1, foreign=True) for part in parts])
    raise ValueError(f"a value of type {kind.__name__} cannot leave the sandbox")


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
    size = int(data[at + 1 : colon])
    start = colon + 1
    if size < 0 or size > len(data) - start:  # every part takes at least one byte
        raise ValueError("a length does not fit")
    return tag, 2 * size if tag == b"d" else size, start


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    tag, size, at = header(data, at, depth)
    if tag not in _CONTAINERS and tag not in (b"d", b"r"):
        return atom(tag, data[at : at + size]), at + size
    parts = []
    for _ in range(size):
        part, at = _decode(data, at, depth + 1)
        parts.append(part)
    if tag == b"d":
        return dict(zip(parts[::2], parts[1::2], strict=True)), at
    if tag == b"r":
        return _anew(*parts), at
    return _CONTAINERS[tag](parts), at


def _anew(name: str, parts: tuple[Any, ...]) -> Any:
    """Return a value of a type of `_FOREIGN`; raises ValueError for another one."""
    if name not in _FOREIGN:
        raise ValueError(f"unknown type {name!r}")
    module, *path = _FOREIGN[name][0].split(".")
    made: Any = __import__(module)
    for step in path:
        made = getattr(made, step)
    try:
        return made(*parts)
    except ArithmeticError as error:  # a fraction over 0
        raise ValueError(f"not a {name}") from error


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
