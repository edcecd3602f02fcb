"""A name that is neither here nor on the hub is refused at once."""

import http.server
import os
import subprocess
import sys
import threading
import time

import pytest

from maxatk.errors import MissingFileError
from maxatk.jsonl import write_jsonl
from maxatk.models import refuse_missing_folder
from processes import patience


class Hub(http.server.BaseHTTPRequestHandler):
    """The hub as far as one question goes: it has `org/there`, and nothing else."""

    def do_GET(self):
        self.server.asked.append(self.path)
        known = self.path.startswith(("/api/models/org/there", "/api/datasets/org/there"))
        body = b'{"_id": "1", "id": "org/there", "siblings": []}' if known else b"{}"
        self.send_response(200 if known else 404)
        if not known:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asking(endpoint, *code, offline="0"):
    """Run code in a process whose hub is at this address."""
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": offline}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(("from maxatk.models import why_missing", *code))],
        capture_output=True,
        text=True,
        env=environment,
        timeout=patience(60),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_hub_is_asked_once_for_a_name(hub):
    address = f"http://127.0.0.1:{hub.server_port}"
    printed = asking(
        address,
        "print(why_missing('org/there'))",
        "print(why_missing('org/there', kind='dataset'))",
        "print(why_missing('org/thera'))",
    )
    assert printed.splitlines() == [
        *("None", "None", "the hub has no model of that name, or it is not yours to read")
    ]
    paths = [path.partition("?")[0] for path in hub.asked if "org/" in path]
    assert [path.removesuffix("/revision/main") for path in paths] == [
        *("/api/models/org/there", "/api/datasets/org/there", "/api/models/org/thera")
    ]


def test_a_hub_that_cannot_be_reached_is_not_asked_again_and_again():
    code = "import time; start = time.monotonic()"
    last = "print(why_missing('org/there')); print(time.monotonic() - start)"
    reason, seconds = asking("http://127.0.0.1:9", code, last).splitlines()
    assert reason.startswith("the hub does not give it (")
    assert float(seconds) < patience(5)  # the retries of the loaders take 26 s
    offline = asking("http://127.0.0.1:9", "print(why_missing('org/there'))", offline="1")
    assert offline.startswith("HF_HUB_OFFLINE is set and no model of that name is in the cache")
    assert asking("http://127.0.0.1:9", "print(why_missing('a name'))").startswith("the hub")


@pytest.mark.parametrize("missing", ["runs/mini/bas", "./base", "~/base"])
def test_what_can_only_be_a_folder_is_refused_without_the_hub(tmp_path, monkeypatch, missing):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFileError, match="there is no folder"):
        refuse_missing_folder(missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match=r"the folder 'empty' holds no config\.json"):
        refuse_missing_folder("empty")
    (tmp_path / "empty" / "adapter_config.json").write_text("{}")
    with pytest.raises(MissingFileError, match=r"--adapter takes an adapter"):
        refuse_missing_folder("empty")


def test_an_evaluation_of_a_model_that_is_not_there_ends_before_torch_is_imported(tmp_path):
    write_jsonl(tmp_path / "p.jsonl", [{"id": "q", "prompt": "1+1=", "answer": "2"}])
    probe = (
        "import sys; from maxatk.cli.main import main; status = main(sys.argv[1:]); "
        "print(status, 'torch' in sys.modules)"
    )
    files = ("--problems", "p.jsonl", "--out", "o", "--reward", "answer")
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", probe, "eval", "--model", "org/model", *files],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # Without what other tests of this process may have set.
        env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"},
    )
    assert time.monotonic() - started < patience(15)
    assert done.stdout == "2 False\n", done.stderr
    assert "model: 'org/model' is no folder here, and the hub does not give it" in done.stderr
