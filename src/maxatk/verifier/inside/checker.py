"""The files of a checker, called as `checker.py input correct_output solution_output`.

A checker runs like any other program, in a sandbox of its own, after the programs it verifies are
dead. Its three files are real files: in the scratch folder, or, where there is none, files in
memory that it opens by the names of their descriptors.
"""

from __future__ import annotations

import os

from maxatk.verifier.inside import protocol, scratch
from maxatk.verifier.inside.supervise import STANDARD, copy

_NAMES = ("input.txt", "correct_output.txt", "solution_output.txt")
_FIRST = len(STANDARD)


class Files:
    """The three files of one call: their paths, and the descriptors that must stay open."""

    def __init__(self, paths: list[str], descriptors: list[int]) -> None:
        self.paths, self.descriptors = paths, descriptors

    @property
    def first_closed(self) -> int:
        """The first descriptor that the checker does not need."""
        return _FIRST + len(self.descriptors)

    def move_descriptors(self) -> None:
        """Give the descriptors the numbers after the standard ones, in the checker's process.

        They were made in rising order, so none is overwritten before it has moved.
        """
        for number, descriptor in enumerate(self.descriptors, start=_FIRST):
            os.dup2(descriptor, number)

    def close(self) -> None:
        """Close the descriptors in the supervising process."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def place(job: int, offset: int, *, in_scratch: bool) -> Files:
    """Copy the three parts of a payload into files of their own."""
    sizes = protocol.CHECKER_SIZES.unpack(os.pread(job, protocol.CHECKER_SIZES.size, offset))
    offset += protocol.CHECKER_SIZES.size
    paths, descriptors = [], []
    for number, (name, size) in enumerate(zip(_NAMES, sizes, strict=True), start=_FIRST):
        if in_scratch:
            paths.append(f"{scratch.PATH}/{name}")
            file = os.open(paths[-1], os.O_WRONLY | os.O_CREAT, 0o600)
        else:
            paths.append(f"/proc/self/fd/{number}")
            file = os.memfd_create(name, 0)
            descriptors.append(file)
        copy(job, offset, file, size)
        offset += size
        if in_scratch:
            os.close(file)
    return Files(paths, descriptors)
