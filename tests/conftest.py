import os
from pathlib import Path

import pytest

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_configure():
    """Let the processes that tests start import this copy of the package too."""
    source = str(Path(__file__).parents[1] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )


@pytest.fixture(scope="session")
def real_data():
    """Return the path of a real data set, kept outside the repository; skip where there is none."""

    def path(name):
        found = Path(os.environ.get("MAXATK_TEST_DATA", DEFAULT_DATA)) / name
        return found if found.is_file() else pytest.skip(f"the data set {found} is not here")

    return path
