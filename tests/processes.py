"""Processes that tests start: how long they may take, and what is left of them."""

import contextlib
import os
import time

import psutil

ENDLESS = "while True: pass"


def patience(seconds):
    """Return a limit on the wall clock, times the factor MAXATK_TEST_PATIENCE of a loaded machine.

    Every limit on waiting in the tests goes through it. It is there to end what hangs, never to
    measure how fast something is.
    """
    return seconds * float(os.environ.get("MAXATK_TEST_PATIENCE", "1"))


def wait_for(folder, pattern, *, seconds=120):
    """Return a path in a folder as soon as one matches the pattern."""
    end = time.monotonic() + patience(seconds)
    paths = list(folder.glob(pattern))
    while not paths:
        assert time.monotonic() < end, f"{folder / pattern} did not appear"
        time.sleep(0.05)
        paths = list(folder.glob(pattern))
    return paths[0]


def family(pid):
    """Return a process and all its descendants, or nothing if it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_for_busy_family(pid, *, seconds=40):
    """Return a process with its descendants as soon as a verified program of it uses a core."""
    deadline = time.monotonic() + patience(seconds)
    while time.monotonic() < deadline:
        members = family(pid)
        for member in members[1:]:
            try:
                if "boot.py" in " ".join(member.cmdline()) and member.cpu_times().user > 0.5:
                    return members
            except psutil.NoSuchProcess:
                pass
        time.sleep(0.1)
    raise AssertionError(f"no program of process {pid} became busy")


def kill(members):
    """Kill processes, of which some may be gone, or end because another one was killed."""
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()


def names_of(members):
    """Return the names of those processes that have not gone meanwhile."""
    names = []
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(member.name())
    return names


def still_alive(members, *, seconds=60):
    """Return those members that are alive after at most so many seconds."""
    alive = psutil.wait_procs(members, timeout=patience(seconds))[1]
    return [member for member in alive if not has_ended(member)]


def has_ended(process):
    """Tell whether a process is gone, or a zombie that nobody has waited for yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def read_terminal(leader):
    """Return all bytes that processes write to a pseudo-terminal until its other end is closed."""
    shown = b""
    while True:
        try:
            shown += os.read(leader, 1 << 16)
        except OSError:  # the other end is closed
            return shown
