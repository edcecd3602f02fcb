"""Objects of programs: built once each, whoever asks, and kept up to a bound in bytes."""

from __future__ import annotations

import collections
import hashlib
import logging
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from maxatk.errors import SandboxError
from maxatk.records import Outcome
from maxatk.verifier.builder_process import CPU_SECONDS, WALL_SECONDS, Builder, Reply
from maxatk.verifier.inside import protocol
from maxatk.verifier.languages import LANGUAGES, Language
from maxatk.verifier.payloads import MAX_SOURCE
from maxatk.verifier.sandbox_process import new_uid
from maxatk.verifier.toolchain import Toolchain, toolchain

_log = logging.getLogger(__name__)

_MOST_BYTES = 1 << 27  # of objects that are kept
_ATTEMPTS = 3
_HEADER_MEBIBYTES = 1024  # of the scratch folder in which a header is compiled
_MESSAGE = 2000  # characters of what a compiler says that are kept
# A part of the compiler that was killed: by the kernel for want of memory, or by somebody. The
# driver says so, in the words of GNU and of clang.
_KILLED = re.compile(
    r"^[^:\n]*: (?:fatal error: Killed signal terminated|error: unable to execute command: Killed)",
    re.MULTILINE,
)
# Static data that no distance of 32 bits spans.
_TOO_LARGE = re.compile("relocation truncated to fit|failed to convert GOTPCREL relocation")
_INCLUDES_TESTLIB = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]testlib\.h[>\"].*$", re.MULTILINE)
_START_THREADS = (b"pthread_create", b"thrd_create", b"_M_start_thread")

BuilderFor = Callable[[Toolchain], Builder]
"""Returns the running builder of a thread."""


class Built(NamedTuple):
    """A program that can be entered, or why there is none: an outcome and what to say.

    `lasts` says that another build of the source would end like this one.
    """

    entry: int = protocol.ENTER_PYTHON
    data: bytes = b""
    outcome: Outcome | None = None
    message: str = ""
    lasts: bool = True


class Builds:
    """What a verifier has built; its threads share it.

    `flags` are those of the settings by language, `testlib` is the text of testlib.h, "" without.
    A program is built by the first thread that asks for it, and the others wait.
    """

    def __init__(self, flags: Mapping[str, tuple[str, ...]], *, testlib: str = "") -> None:
        self._flags = flags
        self._testlib = testlib
        self._lock = threading.Lock()
        self._builds: collections.OrderedDict[bytes, Future[Built]] = collections.OrderedDict()
        self._bytes = 0
        self._header_lock = threading.Lock()
        self._headers: dict[str, Path | None] = {}
        self.seconds = 0.0
        """CPU seconds that compilers took."""

    def built(self, language: Language, source: str, builder_for: BuilderFor) -> Built:
        """Return the object of a source; raises SandboxDiedError, SandboxError without a compiler.

        A build that fails for a reason of its own is kept like one that does not. One whose
        compiler was killed every time is not: the machine may have more memory later. One whose
        compiler got too little of a core raises SandboxError, and is not kept either.
        """
        tools = toolchain(language)
        data = source.encode("utf-8", "surrogatepass")
        if len(data) > MAX_SOURCE:
            message = f"the source is longer than {MAX_SOURCE} bytes"
            return Built(outcome=Outcome.COMPILE_ERROR, message=message)
        key = hashlib.sha256(language.name.encode() + b"\0" + data).digest()
        with self._lock:
            future = self._builds.get(key)
            is_new = future is None
            if future is None:
                future = self._builds[key] = Future()
            else:
                self._builds.move_to_end(key)
        if not is_new:
            return future.result()  # of the thread that builds it, or has built it
        try:
            built = self._build(language, tools, source, data, builder_for(tools))
        except BaseException as error:
            self._forget(key)
            future.set_exception(error)
            raise
        if not built.lasts:
            self._forget(key)
        future.set_result(built)
        self._keep(len(built.data))
        return built

    def with_testlib(self, checker: str) -> str:
        """Return a checker with the text of testlib.h in the place of the line that includes it."""
        if not self._testlib:
            return checker
        name = "checker.cpp"

        def text(line: re.Match[str]) -> str:
            number = checker.count("\n", 0, line.start()) + 2
            return f'#line 1 "testlib.h"\n{self._testlib}\n#line {number} "{name}"'

        return _INCLUDES_TESTLIB.sub(text, checker, count=1)

    def header_folder(self, tools: Toolchain) -> Path | None:
        """Return the folder of the precompiled header; None where there is none to use."""
        compiler = tools.compiler
        if not compiler.header or tools.is_clang:
            return None
        with self._header_lock:
            if tools.path not in self._headers:
                try:
                    self._headers[tools.path] = self._compiled_header(tools)
                except (OSError, SandboxError) as error:
                    _log.warning("%s is not compiled ahead: %s", compiler.header, error)
                    self._headers[tools.path] = None
            return self._headers[tools.path]

    def _flags_of(self, tools: Toolchain) -> tuple[str, ...]:
        names = (name for name, lang in LANGUAGES.items() if lang.compiler is tools.compiler)
        return self._flags.get(next(names), tools.compiler.flags)

    def _command(self, tools: Toolchain, source: str, folder: Path | None) -> list[str]:
        flags = self._flags_of(tools)
        include = () if folder is None else (f"-I{folder}",)
        return tools.command((*include, *flags), source)

    def _build(
        self, language: Language, tools: Toolchain, source: str, data: bytes, builder: Builder
    ) -> Built:
        assert language.compiler is not None
        command = self._command(tools, source, self.header_folder(tools))
        for _ in range(_ATTEMPTS):
            reply = builder.build(command, language.compiler.source_name, data)
            self.seconds += reply.cpu_seconds
            if _was_starved(reply):
                raise SandboxError(
                    f"compiling took longer than {WALL_SECONDS:.0f} s, of which the compiler had "
                    f"{reply.cpu_seconds:.1f} s of CPU; the machine is too busy"
                )
            was_killed = _was_killed(reply)
            if not was_killed:
                break
        if reply.code == 0 and reply.made.size:
            made = builder.printed(reply.made)
            builder.forget()
            threads = any(name in made for name in _START_THREADS)
            entry = protocol.ENTER_NATIVE_WITH_THREADS if threads else protocol.ENTER_NATIVE
            return Built(entry, made)
        builder.forget()
        if _TOO_LARGE.search(reply.message):
            return Built(outcome=Outcome.MEMORY_LIMIT, message="its static data exceed 2 GiB")
        message = _explained(reply)
        return Built(outcome=Outcome.COMPILE_ERROR, message=message, lasts=not was_killed)

    def _forget(self, key: bytes) -> None:
        """Let the next that asks for this program build it anew; it is being built."""
        with self._lock:
            del self._builds[key]

    def _keep(self, size: int) -> None:
        """Count a new object, and drop those that nobody has asked for longest."""
        with self._lock:
            self._bytes += size
            for key in list(self._builds):
                if self._bytes <= _MOST_BYTES:
                    break
                if self._builds[key].done():
                    self._bytes -= len(self._builds.pop(key).result().data)

    def _compiled_header(self, tools: Toolchain) -> Path:
        """Return the folder of the header that was compiled with these flags, making it if needed.

        It lies in the user's cache, so that all processes share one copy in memory.
        """
        flags = self._flags_of(tools)
        words = [tools.path, tools.version, str(os.stat(tools.path).st_mtime_ns), *flags]
        words += [*tools.compiler.fixed, tools.compiler.header]
        digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "maxatk" / "headers" / digest
        file = folder / f"{tools.compiler.header}.gch"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            _make_header(tools, flags, file)
        status = file.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise SandboxError(f"{file} may be written by others")
        return folder


def _make_header(tools: Toolchain, flags: tuple[str, ...], file: Path) -> None:
    """Compile the header in a builder that has never seen a program."""
    source = f"#include <{tools.compiler.header}>\n"
    name = "header.hpp"
    compiling = [flag for flag in tools.compiler.fixed if not flag.startswith(("-Wl,", "-shared"))]
    command = [tools.path, *compiling, *flags, "-x", "c++-header", name]
    builder = Builder(uid=new_uid(), folders=tools.folders, scratch_mebibytes=_HEADER_MEBIBYTES)
    try:
        reply = builder.build([*command, "-o", "program.so"], name, source.encode())
        if reply.code != 0 or not reply.made.size:
            raise SandboxError(_explained(reply))
        with tempfile.TemporaryDirectory(dir=file.parent) as partial:
            made = Path(partial) / file.name
            builder.save(reply.made, made)
            made.chmod(0o444)
            made.replace(file)
    finally:
        builder.close()


def _was_killed(reply: Reply) -> bool:
    """Say whether something outside ended the compiler or a part of it, and no limit of a build."""
    driver_was_killed = reply.code == -signal.SIGKILL and not reply.timed_out
    return driver_was_killed or _KILLED.search(reply.message) is not None


def _was_starved(reply: Reply) -> bool:
    """Say whether the wall clock ended a compiler before it had the CPU time of a build."""
    return reply.timed_out and reply.cpu_seconds < CPU_SECONDS


def _explained(reply: Reply) -> str:
    """Return the first lines of what a compiler said, or what ended it."""
    message = reply.message.strip()[:_MESSAGE]
    if reply.timed_out or "CPU time limit exceeded" in message:
        return f"compiling took more than {CPU_SECONDS:.0f} s of CPU"
    if "File size limit exceeded" in message:
        return "a file that the compiler makes is too large"
    return message or f"the compiler ended with {reply.code} and said nothing"
