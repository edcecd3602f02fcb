from collections.abc import Iterator

import pytest

from maxatk.verifier import Verifier


@pytest.fixture(scope="session")
def verifier() -> Iterator[Verifier]:
    with Verifier(workers=2, time_limit=1.0, memory_limit=1 << 29) as shared:
        yield shared
