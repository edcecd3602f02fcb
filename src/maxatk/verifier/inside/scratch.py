"""The scratch folder of a test: private, writable, small, and empty again before the next test.

A file system in memory of its own, mounted in the zygote's private root before it gives up its
privileges; the programs find it as `/tmp` and as their current folder. Size and number of files
are limited by the mount. Without a private root there is none: nothing else would bound it.
"""

import os

PATH = "/tmp"
MOUNT_OPTIONS = "size=16m,nr_inodes=1k,mode=700"


def empty() -> None:
    """Remove all that a test has left behind; the current folder must be `PATH`.

    It descends by changing the folder, because a test may have nested folders deeper than any
    path name, and without recursion. No process of the test is alive any more.
    """
    os.chmod(PATH, 0o700)
    above: list[str] = []
    while True:
        inner = _unlink_files()
        if inner:
            os.chmod(inner, 0o700)
            os.chdir(inner)
            above.append(inner)
        elif above:
            os.chdir("..")
            os.rmdir(above.pop())
        else:
            return


def _unlink_files() -> str:
    """Unlink the files of the current folder; return the name of a folder in it, if any."""
    inner = ""
    for name in os.listdir("."):
        try:
            os.unlink(name)
        except IsADirectoryError:
            inner = name
    return inner
