"""A thread that scores samples while others are drawn, so that no draw waits for a score."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence

from maxatk.evaluation.submissions import Submission
from maxatk.verifier import quick_turns

BATCH = 256


@contextlib.contextmanager
def scoring_thread(
    work: Callable[[Sequence[Submission]], None], *, ahead: int = 8 * BATCH
) -> Iterator[Callable[[Sequence[Submission]], None]]:
    """Yield what queues submissions, on which `work` is called in a thread, in the order given.

    At most `ahead` submissions wait, then queueing does. An error of `work` is raised by the next
    call that queues, or on leaving, which waits for the queue, or with an error drops it.
    """
    waiting: queue.Queue[Submission | None] = queue.Queue(ahead)
    errors: list[BaseException] = []

    def put(batch: Sequence[Submission]) -> None:
        for submission in batch:
            if errors:
                raise errors[0]
            waiting.put(submission)

    def run() -> None:
        for batch in _batches(waiting):
            # It empties the queue after an error too: a sampler in `put` must not wait forever.
            if errors:
                continue
            try:
                work(batch)
            except BaseException as error:
                errors.append(error)

    thread = threading.Thread(target=run, name="maxatk-verify", daemon=True)
    with quick_turns():
        thread.start()
        try:
            yield put
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            waiting.put(None)
            thread.join()
    if errors:
        raise errors[0]


def _batches(waiting: queue.Queue[Submission | None]) -> Iterator[list[Submission]]:
    """Yield what waits, up to `BATCH` submissions at a time, until None comes."""
    ended = False
    while not ended:
        # The first is waited for. The others of its batch are those that wait behind it by then.
        submission = waiting.get()
        batch: list[Submission] = []
        while submission is not None:
            batch.append(submission)
            if len(batch) == BATCH or waiting.empty():
                break
            submission = waiting.get()
        ended = submission is None
        if batch:
            yield batch
