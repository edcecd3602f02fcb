"""The files of a checker: input, correct output and the output of the solution.

A checker runs in a sandbox of its own, after the programs it verifies are dead. Its files lie in a
folder that only the supervising processes can write; where there is no private root, they are
files in memory that the checker opens by the names of their descriptors.
"""

from __future__ import annotations

import os

from maxatk.verifier.inside import protocol
from maxatk.verifier.inside.given_files import CHECKER_FOLDER, CHECKER_NAMES
from maxatk.verifier.inside.supervise import STANDARD, copy

_FIRST = len(STANDARD)


class Files:
    """The three files of one call: their paths, and the descriptors that must stay open.

    `written` are descriptors of the supervising process, `descriptors` those of them that the
    checker needs, because its files have no other name.
    """

    def __init__(self, paths: list[str], written: list[int], descriptors: list[int]) -> None:
        self.paths = paths
        self._written = written
        self._descriptors = descriptors

    def move_descriptors(self) -> int:
        """Move the descriptors behind the standard ones; return the first that is not needed."""
        # They were made in rising order, so none is overwritten before it has moved.
        for number, descriptor in enumerate(self._descriptors, start=_FIRST):
            os.dup2(descriptor, number)
        return _FIRST + len(self._descriptors)

    def close(self) -> None:
        """Empty the files, and close the descriptors in the supervising process."""
        for descriptor in self._written:
            os.ftruncate(descriptor, 0)
        for descriptor in self._descriptors:
            os.close(descriptor)


def place(job: int, offset: int, folder: list[int]) -> Files:
    """Copy the three parts of a payload into files of their own.

    `folder` are descriptors of the files in `CHECKER_FOLDER`; none where there is no such folder.
    """
    sizes = protocol.CHECKER_SIZES.unpack(os.pread(job, protocol.CHECKER_SIZES.size, offset))
    offset += protocol.CHECKER_SIZES.size
    written = folder or [os.memfd_create(name, 0) for name in CHECKER_NAMES]
    for file, size in zip(written, sizes, strict=True):
        os.lseek(file, 0, os.SEEK_SET)
        copy(job, offset, file, size)
        offset += size
    if folder:
        return Files([f"{CHECKER_FOLDER}/{name}" for name in CHECKER_NAMES], written, [])
    paths = [f"/proc/self/fd/{number}" for number in range(_FIRST, _FIRST + len(CHECKER_NAMES))]
    return Files(paths, written, written)
