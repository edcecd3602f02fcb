import os
from pathlib import Path


def pytest_configure():
    """Let the processes that tests start import this copy of the package too."""
    source = str(Path(__file__).parents[1] / "src")
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
