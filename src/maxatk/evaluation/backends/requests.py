"""What backends share: requests that are checked, samples in the order of the requests."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence

from maxatk.errors import InvalidValueError
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.records import Sample


def check_indices(requests: Iterable[Request], settings: SamplingSettings) -> None:
    """Raise InvalidValueError for an index that the settings have no sample for."""
    for request in requests:
        for index in request.indices:
            if not 0 <= index < settings.samples:
                raise InvalidValueError(
                    f"sample index: must be in [0, {settings.samples}), got {index!r}"
                )


def check_lengths(lengths: Mapping[str, int], new_tokens: int, limit: int | None) -> int:
    """Return the longest of the prompts' lengths in tokens, by problem id.

    Raises InvalidValueError for an empty prompt, or one that the context does not hold together
    with the new tokens.
    """
    for problem_id, length in lengths.items():
        if length == 0:
            raise InvalidValueError(f"problem {problem_id!r}: the prompt has no tokens")
        if limit is not None and length + new_tokens > limit:
            raise InvalidValueError(
                f"problem {problem_id!r}: prompt of {length} tokens and max_new_tokens="
                f"{new_tokens} exceed the model's context of {limit}"
            )
    return max(lengths.values(), default=0)


def in_order(
    requests: Iterable[Request], found: Generator[Sequence[Sample], None, None]
) -> Generator[list[Sample], None, None]:
    """Yield the samples as soon as all those asked for before them are there.

    Closing this iterator closes `found`.
    """
    keys = ((request.problem_id, index) for request in requests for index in request.indices)
    early: dict[tuple[str, int], Sample] = {}
    wanted = next(keys, None)
    try:
        for some in found:
            early.update({(sample.problem_id, sample.sample): sample for sample in some})
            ready = []
            while wanted is not None and wanted in early:
                ready.append(early.pop(wanted))
                wanted = next(keys, None)
            if ready:
                yield ready
    finally:
        found.close()
