"""The page in a real browser, without a network: what it lays out, and what it asks for."""

import html
import json
import re
import shutil
import subprocess

import pytest

from maxatk.report import write_report
from processes import patience

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

# The page itself has no scripts: this one is added to a copy of it.
PROBE = """<script>
addEventListener("load", () => {
  const root = document.documentElement;
  const seen = (e) => e.getBoundingClientRect().width > 20 && e.getBoundingClientRect().height > 5;
  const shown = (selector) => [...document.querySelectorAll(selector)].filter(seen);
  document.body.dataset.found = JSON.stringify({
    beyond: root.scrollWidth - root.clientWidth,
    figures: shown("figure svg").length,
    tables: shown("table").map((table) => table.id),
    ground: getComputedStyle(document.body).backgroundColor,
    requests: performance.getEntriesByType("resource").map((entry) => entry.name),
  });
});
</script></body>"""
FRAME = """<body><iframe src="{}" style="width:400px;height:900px"
  onload="document.body.dataset.found = this.contentDocument.body.dataset.found"></iframe></body>"""


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Return a function: what the browser measures on a page of HTML."""
    assert BROWSER is not None

    def measured(text, *flags, narrow=False):
        folder = tmp_path_factory.mktemp("browser")
        page = folder / "page.html"
        page.write_text(text.replace("</body>", PROBE), encoding="utf-8")
        if narrow:
            page = folder / "frame.html"
            page.write_text(FRAME.format("page.html"), encoding="utf-8")
        command = [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(
                "--no-first-run",
                "--disable-background-networking",
                "--allow-file-access-from-files",
            ),
            *(f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *(*flags, "--dump-dom", page.as_uri()),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience(120), check=True
        )
        found = re.search(r'data-found="([^"]*)"', done.stdout)
        assert found is not None, done.stdout[-500:]
        return json.loads(html.unescape(found[1]))

    return measured


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(results, path, paper="mbpp").read_text(encoding="utf-8")


def test_figures_and_tables_are_laid_out_and_nothing_is_asked_for(probe, page):
    found = probe(page)
    assert found["figures"] == 3
    tables = {"overview", "differences", "every-1", "every-2", "paper-1", "paper-2", "outcomes"}
    assert tables <= set(found["tables"])
    assert found["requests"] == []


def test_a_request_would_be_noticed(probe, page):
    address = "http://elsewhere.invalid/x.png"
    assert probe(page.replace("<main>", f'<main><img src="{address}">'))["requests"] == [address]


def test_nothing_reaches_beyond_a_narrow_window(probe, page):
    found = probe(page, narrow=True)
    assert found["beyond"] == 0
    assert found["figures"] == 3
    broad = page.replace("<main>", '<main><div style="width:600px">x</div>')
    assert probe(broad, narrow=True)["beyond"] > 0


def test_the_ground_follows_the_reader(probe, page):
    light, dark = (probe(page, f"--blink-settings=preferredColorScheme={n}") for n in (1, 0))
    assert (light["ground"], dark["ground"]) == ("rgb(255, 255, 255)", "rgb(20, 23, 26)")
