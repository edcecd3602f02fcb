"""Memory as a new process finds it: zeros, where an interpreter has left something behind.

Programs that forget to initialise an array pass the tests of a judge: its processes are new.
"""

from __future__ import annotations

import ctypes
import os

from maxatk.verifier.inside import syscalls

_PAGE = 4096
# Of chunks on the C heap, the largest first: one of each kind that the library keeps apart.
_SIZES = (*(1 << power for power in range(16, 10, -1)), *range(1016, 8, -16))
_LARGE = 100_000  # bytes of a chunk that lies behind all free ones, and is not mapped on its own
_MADV_DONTNEED = 4
_STACK_BELOW = 8 << 20  # bytes below the stack's end that may have been used
_MARGIN = 2 * _PAGE  # for the frames of the call itself
_CONTEXT = 4096  # bytes, more than a ucontext_t has
_STACK_POINTER = {"x86_64": 160, "aarch64": 432}[os.uname().machine]  # in a ucontext_t


def forget_heap() -> None:
    """Take all free chunks out of the C heap, so that what is allocated next is new memory."""
    malloc = syscalls.FAST_LIBC.malloc
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = (ctypes.c_size_t,)
    last = max(malloc(_LARGE) for _ in range(2))
    for size in _SIZES:
        while malloc(size) < last:
            continue  # this one was used before; nobody will get it again
    syscalls.FAST_LIBC.malloc_trim(ctypes.c_size_t(0))
    malloc(_PAGE)  # the rest of a page that could not be given back


def forget_stack() -> None:
    """Give back the pages below the end of the stack, which earlier calls have written."""
    context = ctypes.create_string_buffer(_CONTEXT)
    syscalls.FAST_LIBC.getcontext(context)
    pointer = int.from_bytes(context.raw[_STACK_POINTER : _STACK_POINTER + 8], "little")
    end = (pointer - _MARGIN) // _PAGE * _PAGE
    # Pages that were never used are not there, which is no error of ours.
    syscalls.FAST_LIBC.madvise(
        ctypes.c_void_p(end - _STACK_BELOW), ctypes.c_size_t(_STACK_BELOW), _MADV_DONTNEED
    )
