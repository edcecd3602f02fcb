"""A program in machine code: a shared object that the process of a test loads and enters.

No test needs exec, which every layer goes on to refuse. The object lies where only supervising
processes can write, and none of them loads it: its constructors would run there.
"""

from __future__ import annotations

import _ctypes  # its parts that `ctypes` wraps: fewer pages
import _signal as signals  # type: ignore[import-not-found]  # `signal` would load `enum`
import ctypes
import os

from maxatk.verifier.inside import fresh_memory, given_files, protocol, supervise, syscalls

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from typing import NoReturn

_PATH = f"{given_files.OBJECT_FOLDER}/{given_files.OBJECT_NAME}"
_THREAD_STACK = 8 << 20  # bytes: the library's default would be the limit of the main stack
_ATTRIBUTES = 256  # bytes, more than a pthread_attr_t has
# What the interpreter handles or ignores, and a program in C finds at its default.
_SIGNALS = (signals.SIGINT, signals.SIGPIPE, signals.SIGXFSZ)
# What the loader says where the static data of a program are larger than its memory.
_NO_MEMORY = ("allocate memory", "map zero-fill", "map segment")
_MAIN = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Native:
    """A program whose object lies in its file; it has the parts of a `compiled.Program`."""

    names: frozenset[str] = frozenset()
    finalise = False
    code = None

    def __init__(self, *, threads: bool) -> None:
        self.threads = threads


def preload(libraries: list[str]) -> list[str]:
    """Load libraries that native programs need, once for all; return the folders they lie in."""
    attributes = ctypes.create_string_buffer(_ATTRIBUTES)
    syscalls.LIBC.pthread_attr_init(attributes)
    syscalls.LIBC.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_THREAD_STACK))
    syscalls.LIBC.pthread_setattr_default_np(attributes)
    for path in libraries:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    return [os.path.dirname(path) for path in libraries]


def place(request: supervise.Request, context: supervise.Context, offset: int) -> Native:
    """Copy the object of the job file, which begins at an offset, to where tests find it."""
    os.ftruncate(context.object_file, 0)
    os.lseek(context.object_file, 0, os.SEEK_SET)
    supervise.copy(context.job, offset, context.object_file, request.source_size)
    fresh_memory.forget_heap()
    return Native(threads=request.entry == protocol.ENTER_NATIVE_WITH_THREADS)


def run(arguments: list[bytes]) -> NoReturn:
    """Load the object, which runs its constructors, call its `main`, and end as C does."""
    for number in _SIGNALS:
        signals.signal(number, signals.SIG_DFL)
    try:
        handle = _ctypes.dlopen(_PATH, os.RTLD_NOW)
        main = _MAIN(_ctypes.dlsym(handle, "main"))
    except OSError as error:
        message = str(error)
        os.write(2, message.encode() + b"\n")
        without_memory = any(text in message for text in _NO_MEMORY)
        os._exit(protocol.EXIT_MEMORY if without_memory else 1)
    fresh_memory.forget_stack()
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    no_environment = ctypes.c_void_p(None)
    status = main(len(arguments), ctypes.addressof(argv), ctypes.addressof(no_environment))
    syscalls.FAST_LIBC.exit(status)
    os._exit(1)  # `exit` does not return
