"""What a process does that another one of this package has started."""

from __future__ import annotations

import os
import stat
import threading


def end_with_parent() -> None:
    """End this process when its standard input closes, if that is a pipe or a socket.

    The parent never closes it, so it closes when the parent is gone, however it died.
    """
    if not _held_by_parent(0):  # what else it may be, such as /dev/null, ends by itself
        return

    def wait() -> None:
        # os.read: a thread inside sys.stdin would hold its lock when the interpreter ends.
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _held_by_parent(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # closed from the start
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)  # asyncio's and Node's pipes are sockets
