import json

import pytest


@pytest.fixture
def rows_file(tmp_path):
    def write(*rows, name="rows.jsonl"):
        path = tmp_path / name
        text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows))
        path.write_text(text)
        return path

    return write
