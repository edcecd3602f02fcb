"""The scratch folder of a test: private, writable, small, and empty again before the next test.

A file system in memory, which the programs find as `/tmp` and as their current folder; its mount
limits size and number of files. Without a private root there is none: nothing else would bound it.
"""

import os
import time

MOUNT_OPTIONS = "size=16m,nr_inodes=1k,mode=700"


def place(paths: list[str]) -> str:
    """Return where the folder is mounted: elsewhere if `/tmp` holds one of the libraries."""
    for folder in ("/tmp", "/scratch"):
        if not any(f"{path}/".startswith(folder + "/") for path in paths):
            return folder
    return "/maxatk-scratch"


def empty(folder: str) -> float:
    """Remove all that a test has left in the current folder; return the CPU seconds it took.

    `folder` is the path of the current folder. It descends by changing the folder and without
    recursion, because a test may nest folders deeper than any path name.
    """
    os.chmod(folder, 0o700)
    names = os.listdir(".")
    if not names:
        return 0.0
    start = time.process_time()
    above: list[str] = []
    folders = [_unlink_files(names)]
    while True:
        if folders[-1]:
            inner = folders[-1].pop()
            os.chmod(inner, 0o700)
            os.chdir(inner)
            above.append(inner)
            folders.append(_unlink_files(os.listdir(".")))
        elif above:
            os.chdir("..")
            os.rmdir(above.pop())
            folders.pop()
        else:
            return time.process_time() - start


def _unlink_files(names: list[str]) -> list[str]:
    """Unlink the files of the current folder; return the names of the folders in it."""
    folders = []
    for name in names:
        try:
            os.unlink(name)
        except IsADirectoryError:
            folders.append(name)
    return folders
