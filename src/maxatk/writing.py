"""Write files and folders: one process at a time, whole or not at all, and over nobody's work."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from maxatk.bounded import json_value, read_whole
from maxatk.errors import DataError, InvalidValueError

LOCK = "maxatk.lock"  # in a folder that is written, until all is there; it says by which command
_PARTIAL = ".partial"
_MOST_SHOWN = 3  # names of files of a folder


def open_alone(path: Path, *, buffering: int = -1) -> BinaryIO:
    """Open a file to read it and append to it, held against everybody else until it is closed.

    Raises InvalidValueError where it is held already, or where the path is a link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        try:
            descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise InvalidValueError(
                f"{path}: is a link, which nothing is written through"
            ) from None
        file = os.fdopen(descriptor, "a+b", buffering)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InvalidValueError(f"{path}: another process is writing there") from None
        # Whoever held it before may have moved or removed it: then this is not the file any more.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return file
        file.close()


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield the path to write to; what is there replaces `path` whole if the block ends well.

    The folder is made where it is missing. Raises InvalidValueError where `path` is a folder or a
    device, and where another process is writing the same file.
    """
    _refuse_other_kind(str(path), path)
    make_folder(path.parent)
    partial = path.with_name(path.name + _PARTIAL)
    if partial.is_symlink():
        partial.unlink()  # it would lead out of the folder
    with open_alone(partial) as held:
        try:
            held.truncate(0)  # of what a kill has left there
            yield partial
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)  # on a full disk it would keep the space
            raise


def without_lone_surrogates(text: str) -> str:
    """Return a text as UTF-8 can hold it: a lone surrogate, which a model can write, becomes ?."""
    return text.encode("utf-8", "replace").decode("utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text as `atomic_write` does; what UTF-8 cannot hold, a lone surrogate, becomes ?."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")


def make_folder(path: Path) -> None:
    """Make a folder with those above it; raise InvalidValueError where one of them is a file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidValueError(f"{path}: is a file, or below one, and must be a folder") from None


@dataclasses.dataclass(frozen=True)
class Mark:
    """A file by which a command knows a folder that it has left.

    Others have files of the same name, so that the content decides.

    Args:
        name: The file, below the folder.
        is_ours: Says whether only the command can have written these bytes.
    """

    name: str
    is_ours: Callable[[bytes], bool]

    def is_in(self, folder: Path) -> bool:
        """Say whether a folder has the file, with what the command writes there."""
        path = folder / self.name
        if not path.is_file():
            return False
        try:
            return self.is_ours(read_whole(path))
        except (DataError, ValueError):
            return False


def json_mark(name: str, is_ours: Callable[[dict[str, Any]], bool]) -> Mark:
    """Return the mark of a file with a JSON object, of which `is_ours` says who has written it."""

    def is_object_of_ours(data: bytes) -> bool:
        value = json_value(data)
        return isinstance(value, dict) and is_ours(value)

    return Mark(name, is_object_of_ours)


@dataclasses.dataclass(frozen=True)
class OutFolder:
    """The folder that a command writes, which may be empty, missing, or what it left there before.

    Args:
        path: The folder.
        command: The command.
        marks: Files of the command: one of them is in every folder that the command has left.
        foreign: Names of what is only in folders of others, whatever else lies there.
        reads: What the command reads, by field: folders such as a model's, or names of the hub.
    """

    path: Path
    command: str
    marks: tuple[Mark, ...]
    foreign: tuple[str, ...] = ()
    reads: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def check(self, *, for_reading: bool = False) -> None:
        """Raise InvalidValueError as `check_content`, and where nothing can be written there."""
        self.check_content(for_reading=for_reading)
        _refuse_unwritable("out", self.path)

    def check_content(self, *, for_reading: bool = False) -> None:
        """Raise InvalidValueError where the folder is not for this command; nothing is written.

        Another process may be writing there only where this one goes on `for_reading` alone, and
        the other one runs the same command.
        """
        for field, source in self.reads.items():
            if source is not None:
                self._refuse_overlap(field, Path(source))
        if self.path.exists() and not self.path.is_dir():
            raise InvalidValueError(f"out: {str(self.path)!r} is a file, and must be a folder")
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        strangers = names & set(self.foreign)
        if not self._is_begun() and not any(mark.is_in(self.path) for mark in self.marks):
            strangers = names - {LOCK}
        if strangers:
            shown = ", ".join(sorted(strangers)[:_MOST_SHOWN])
            if len(strangers) > _MOST_SHOWN:
                shown += f" and {len(strangers) - _MOST_SHOWN} more"
            raise InvalidValueError(
                f"out: the folder {str(self.path)!r} has {shown}, which `maxatk "
                f"{self.command}` did not write; allowed: a new folder, an empty one, or one of "
                "its own"
            )
        if LOCK in names and not (for_reading and self._is_begun()):
            self._hold().close()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder, made where it is missing, while the block writes it; raise as `check`.

        A block that does not end well leaves the lock's file, which says whose the folder is.
        """
        self.check()
        make_folder(self.path)
        with self._hold() as lock:
            if not self._is_begun():
                lock.truncate(0)
                lock.write(self.command.encode())
                lock.flush()
            yield
            (self.path / LOCK).unlink(missing_ok=True)

    def is_held(self) -> bool:
        """Return whether another process is writing there."""
        if not (self.path / LOCK).is_file():
            return False
        try:
            self._hold().close()
        except InvalidValueError:
            return True
        return False

    def _hold(self) -> BinaryIO:
        try:
            return open_alone(self.path / LOCK)
        except InvalidValueError as error:
            raise InvalidValueError(f"out: {error}") from None

    def _is_begun(self) -> bool:
        """Say whether the command has begun to write here before."""
        try:
            return (self.path / LOCK).read_bytes() == self.command.encode()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _refuse_overlap(self, field: str, source: Path) -> None:
        out = self.path.resolve()
        other = source.resolve()
        relation = ""
        if out == other:
            relation = "is"
        elif source.is_dir():  # else it is a name on the hub
            relation = "lies inside" if other in out.parents else ""
            relation = "has inside it" if out in other.parents else relation
        if relation:
            raise InvalidValueError(
                f"out: {str(self.path)!r} {relation} {field}, {str(source)!r}, which would be "
                "written over; name a folder beside it"
            )


def check_file(field: str, out: Path, *, reads: Iterable[Path | str | None] = ()) -> None:
    """Raise InvalidValueError where `out` is one of the files that are read, or cannot be written.

    To be called before any work, by the `field` that names `out`; nothing is written.
    """
    for source in reads:
        if source is not None and out.resolve() == Path(source).resolve():
            raise InvalidValueError(
                f"{field}: {str(out)!r} is read, and would be lost; name another file"
            )
    _refuse_other_kind(f"{field}: {str(out)!r}", out)
    _refuse_unwritable(field, out.parent)


def _refuse_other_kind(called: str, path: Path) -> None:
    """Raise InvalidValueError for what is there and no file: a device's place would be taken."""
    if path.is_dir():
        raise InvalidValueError(f"{called} is a folder, and must be a file")
    if path.exists() and not path.is_file():
        raise InvalidValueError(f"{called} is a device or a pipe, and must be a file")


def _refuse_unwritable(field: str, folder: Path) -> None:
    """Raise InvalidValueError unless a file can be made in a folder, or where it will be made.

    Only an attempt tells: file systems and their rights know more reasons than modes of folders.
    """
    there = folder
    if there.parts[:1] == ("~",) and not Path("~").exists():  # in a recipe no shell replaces it
        raise InvalidValueError(
            f"{field}: {str(folder)!r} begins with ~, which would be a new folder of that name "
            "here; write out the path of your home"
        )
    try:
        while not there.exists():
            there = there.parent
        if not there.is_dir():
            raise InvalidValueError(f"{field}: {str(there)!r} is a file, and must be a folder")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise InvalidValueError(
            f"{field}: nothing can be written to {str(folder)!r}: {str(there)!r} takes no file "
            f"({error.strerror}); name another place"
        ) from None
