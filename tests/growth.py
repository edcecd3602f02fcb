"""How the time that a function takes grows with the text that it reads."""

import time

ATTEMPTS = 3
NOISE_S = 0.5  # of a machine that runs other tests beside


def cpu_seconds(read, text):
    """Return the CPU time that this process takes to read a text."""
    started = time.process_time()
    read(text)
    return time.process_time() - started


def assert_linear_time(read, make_text, size):
    """Assert that four times the text takes about four times as long, and not sixteen times.

    make_text returns the text of a size. Two times of one process are compared, since a limit in
    seconds would depend on the machine and on what else runs there. A neighbour may still slow
    down one of the two, so that one attempt of several is enough.
    """
    times = []
    for _ in range(ATTEMPTS):
        short = cpu_seconds(read, make_text(size // 4))
        long = cpu_seconds(read, make_text(size))
        if long < 8 * short + NOISE_S:
            return
        times.append((short, long))
    raise AssertionError(f"four times the text took (seconds before, after): {times}")
