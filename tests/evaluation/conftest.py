"""The tiny model and problems that it sometimes solves."""

import pytest

from maxatk.records import Problem, TestCase
from maxatk.verifier import Verifier
from tiny import one_thread, tiny_model  # noqa: F401


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as opened:
        yield opened


@pytest.fixture(scope="session")
def problems():
    return [
        Problem(f"p{i}", "print(1)\n" * (i + 1), (TestCase(input="", output=f"{1 + i % 2}\n"),))
        for i in range(3)
    ]
