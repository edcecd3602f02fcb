import json
import os
from pathlib import Path

import pytest

DEFAULT_DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def rows_file(tmp_path):
    def write(*rows, name="rows.jsonl"):
        path = tmp_path / name
        text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows))
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def real_data():
    """Return the path of a real data set, kept outside the repository; skip where there is none."""

    def path(name):
        found = Path(os.environ.get("MAXATK_TEST_DATA", DEFAULT_DATA)) / name
        return found if found.is_file() else pytest.skip(f"the data set {found} is not here")

    return path
