"""The built site: complete, without a network, and laid out on a phone and on a desk."""

import html
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from chromium import BROWSER
from maxatk.cli.commands import COMMANDS
from processes import patience

ROOT = Path(__file__).parents[1]
WIDTHS = (390, 800, 1280)  # px: a phone, a tablet, a desk
API = {
    "core": ["objectives"],
    "code": ["verifier", "problems", "rewards"],
    "train": ["train", "training", "mini"],
    "evaluation": ["sampling", "evaluation", "report", "exchange"],
}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("mkdocstrings") is None,
        reason="the site's packages are not installed",
    ),
]

# Every page in a frame, which takes each width in turn; what does not fit is listed.
MEASURE = """<script>
function measure(frame) {
  const page = frame.contentDocument, found = [], still = page.createElement("style");
  still.textContent = "* { transition: none !important }"; // else a width is met half-way
  page.head.append(still);
  for (const width of WIDTHS) {
    frame.style.width = width + "px";
    const root = page.documentElement;
    if (root.scrollWidth > root.clientWidth) found.push([width, "page", root.scrollWidth]);
    const content = page.querySelector(".md-content").getBoundingClientRect();
    for (const table of page.querySelectorAll(".md-content table")) {
      const heading = table.innerText.trim().slice(0, 60);
      const box = table.getBoundingClientRect();
      if (box.right > content.right + 1) found.push([width, "table", heading, box.width]);
      for (const cell of table.querySelectorAll("th, td"))
        if (cell.scrollWidth > cell.clientWidth + 1)
          found.push([width, "cell", cell.innerText.slice(0, 60), cell.scrollWidth]);
      for (let outer = table.parentElement; outer; outer = outer.parentElement)
        if (getComputedStyle(outer).overflowX == "auto" && outer.scrollWidth > outer.clientWidth)
          found.push([width, "scrolls", heading, outer.scrollWidth]);
    }
  }
  frame.dataset.found = JSON.stringify(found);
  frame.dataset.tables = page.querySelectorAll(".md-content table").length;
}
</script>"""
FRAME = '<iframe src="{}" style="height:900px;border:0" onload="measure(this)"></iframe>'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(280),
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def pages(site):
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def text(path):
    return path.read_text(encoding="utf-8")


def test_every_page_of_the_folder_is_in_the_navigation():
    listed = set()

    def walk(entry):
        if isinstance(entry, str):
            listed.add(entry)
        else:
            for part in entry.values() if isinstance(entry, dict) else entry:
                walk(part)

    walk(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    docs = ROOT / "docs"
    written = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    assert listed == {name for name in written if not name.startswith("study/")}


def test_every_formula_is_rendered_and_nothing_is_loaded_from_elsewhere(site):
    formulas = 0
    for path in pages(site):
        shown = text(path)
        assert 'class="arithmatex"' not in shown, path.name
        formulas += shown.count("<math ")
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", shown
        )
        assert loaded == [], path.name
    assert formulas >= 30


def test_every_dialog_has_a_name_and_no_hidden_control_takes_the_keyboard(site):
    for path in pages(site):
        shown = text(path)
        dialogs = re.findall(r'<[^>]* role="dialog"[^>]*>', shown)
        assert dialogs, path.name
        assert all("aria-label" in dialog for dialog in dialogs), path.name
        hidden = re.findall(r'<input class="md-option"[^>]*>', shown)
        assert all('tabindex="-1"' in control for control in hidden), path.name


def test_every_exported_name_and_every_command_has_its_place(site):
    shown = {path.stem: text(path) for path in pages(site / "reference" / "api")}
    for page, packages in API.items():
        for package in packages:
            for place in exported(f"maxatk.{package}"):
                assert f'id="{place}"' in shown[page], place
    for name in importlib.import_module("maxatk").__all__:
        assert f"<code>{name}</code></a>" in shown["core"], name
    commands = html.unescape(text(site / "reference" / "commands.html"))
    for command in COMMANDS:
        assert f"usage: maxatk {command} " in commands, command
    assert "usage: maxatk problems prepare " in commands


def exported(package):
    """Return the dotted paths of what a package exports, also where a module has the same name."""
    module = importlib.import_module(package)
    for name in module.__all__:
        place = f"{package}.{name}"
        if importlib.util.find_spec(place):
            place = f"{getattr(module, name).__module__}.{name}"
        yield place


def test_figures_have_a_dark_form(site):
    figures = [path for path in site.rglob("*.svg") if "Matplotlib" in text(path)]
    assert len(figures) > 5
    for path in figures:
        shown = text(path)
        assert "prefers-color-scheme: dark" in shown, path.name
        assert "#ffffff" not in shown.split("</style>", 1)[1], path.name


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_no_table_is_clipped_at_any_width(site, tmp_path):
    # The tables of all studies are made alike: those of the widest one stand for them.
    other_studies = {path.parent.name for path in (site / "study").glob("*/*.html")} - {"table2"}
    names = [path for path in pages(site) if path.parent.name not in other_studies]
    measured = [
        measurement
        for start in range(0, len(names), 24)
        for measurement in frames(site, names[start:][:24], tmp_path)
    ]
    assert len(measured) == len(names)
    assert sum(int(tables) for tables, _ in measured) > 80
    wrong = {
        name.name: clipped for name, (_, clipped) in zip(names, measured, strict=True) if clipped
    }
    assert wrong == {}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_search_works_from_the_folder_and_leaves_out_the_tables_of_studies(site, tmp_path):
    for words, page in (("groups_with_signal", "training"), ("bon_loo1", "objectives")):
        address = f"{(site / 'index.html').as_uri()}?q={words}"
        shown = browsed(address, tmp_path, "--virtual-time-budget=60000")
        links = re.findall(r'href="([^"]*)" class="md-search-result__link"', shown)
        assert f"/{page}.html?" in links[0], words
        assert not any("/study/" in link for link in links), words


def frames(site, names, folder):
    """Return the number of tables of every page, and what does not fit on it."""
    harness = site / "harness.htm"
    script = MEASURE.replace("WIDTHS", json.dumps(WIDTHS))
    parts = [FRAME.format(path.relative_to(site)) for path in names]
    harness.write_text(f"<body>{script}{''.join(parts)}</body>")
    shown = browsed(harness.as_uri(), folder, "--allow-file-access-from-files")
    harness.unlink()
    measured = re.findall(r'<iframe [^>]*data-found="([^"]*)" data-tables="(\d+)"', shown)
    return [(tables, json.loads(html.unescape(one))) for one, tables in measured]


def browsed(address, folder, *flags):
    """Return the document at an address as it is after its scripts, without a network."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--no-first-run", "--disable-background-networking", "--window-size=1400,1000"]
    command += [f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    done = subprocess.run(
        [*command, *flags, "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=patience(200),
        check=True,
    )
    return done.stdout
