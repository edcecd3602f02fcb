"""The printed form of the report: where Chromium breaks the pages of its PDF.

An element that a link of the page leads to has a named destination in the PDF, which says its page.
"""

import base64
import itertools
import re

import pytest

from maxatk.report import write_report

SHEET = 900  # pixels that any sheet of A4 has room for
# Marks begin and end of every part, and links to the marks at the end of the page.
MARK = """(() => {
dispatchEvent(new Event("beforeprint"));
const spacer = document.createElement("div");
spacer.style.height = "%dpx";
document.querySelector("main").prepend(spacer);
const links = document.createElement("p");
let marks = 0;
const mark = (element, place) => {
  const [point, link] = [document.createElement("i"), document.createElement("a")];
  point.id = `mark-${marks++}`; link.href = `#${point.id}`; link.textContent = ".";
  element.insertAdjacentElement(place, point); links.append(link);
  return point.id; };
const parts = [];
const kinds = "main > :is(h2, p, .legend), [data-metric] > p, figure, table, tr";
for (const part of document.querySelectorAll(kinds)) {
  if (!part.offsetParent) continue;
  const [first, last] = {
    TABLE: () => [part.caption, [...part.rows].pop().lastElementChild],
    TR: () => [part.firstElementChild, part.lastElementChild],
  }[part.tagName]?.() || [part, part];
  parts.push({ tag: part.tagName, name: part.closest("[id]")?.id, height: part.offsetHeight,
    text: part.textContent.slice(0, 40),
    begin: mark(first, "afterbegin"), end: mark(last, "beforeend") });
}
document.body.append(links);
return parts; })()"""


def pages_of(pdf):
    """Return the page of every named destination."""
    text = pdf.decode("latin-1")
    below = {
        int(node): [int(child) for child in re.findall(r"(\d+) 0 R", children)]
        for node, children in re.findall(
            r"(\d+) 0 obj\n<</Type /Pages\b(?:(?!endobj).)*?/Kids \[(.*?)\]", text, re.DOTALL
        )
    }
    (root,) = below.keys() - {child for children in below.values() for child in children}

    def leaves(node):
        inner = (leaves(child) for child in below.get(node, ()))
        return list(itertools.chain(*inner)) if node in below else [node]

    order = {page: number for number, page in enumerate(leaves(root))}
    return {name: order[int(page)] for name, page in re.findall(r"/(mark-\d+) \[(\d+) 0 R", text)}


@pytest.fixture(scope="module")
def printed(browser):
    """Return a function: the parts of a page with the sheets on which each begins and ends."""

    def parts(page, *, above):
        browser.call("Page.navigate", url="about:blank")
        browser.call("Page.navigate", url=page.as_uri())
        browser.until("document.getElementById('problem-table') !== null")
        marked = browser.evaluate(MARK % above)
        paper = browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        pages = pages_of(base64.b64decode(paper["data"]))
        return [
            {**part, "begin": pages[part["begin"]], "end": pages[part["end"]]} for part in marked
        ]

    return parts


@pytest.fixture(scope="module")
def with_curves(results, tmp_path_factory):
    """A page with the curves of two trainings."""
    log = [{"step": s, "reward": s / 9, "max@4": s / 8, "loss": 1 / s} for s in range(1, 9)]
    curves = [{"name": name, "log_history": log} for name in ("sharp", "same")]
    return write_report(results, tmp_path_factory.mktemp("page") / "report.html", curves=curves)


@pytest.mark.parametrize("above", range(0, 1000, 125))
def test_no_heading_is_alone_and_no_figure_or_row_or_small_table_is_cut(
    printed, with_curves, above
):
    parts = printed(with_curves, above=above)
    assert {part["tag"] for part in parts} == {"H2", "P", "UL", "FIGURE", "TABLE", "TR"}
    for part, after in itertools.pairwise(parts):
        if part["tag"] in ("FIGURE", "TR") or (part["tag"] == "TABLE" and part["height"] < SHEET):
            assert part["begin"] == part["end"], part
        if part["tag"] in ("H2", "UL") or (part["tag"] == "P" and after["tag"] == "UL"):
            assert part["end"] == after["begin"], (part, after)


def test_a_long_table_breaks_between_its_rows(printed, results, make, tmp_path):
    runs = {
        "base": results["base"],
        **{f"a_rather_long_name_{i}": make(i, 0.1, 0.1) for i in range(8)},
    }
    parts = printed(write_report(runs, tmp_path / "report.html"), above=0)
    rows = [part for part in parts if part["tag"] == "TR"]
    assert all(part["begin"] == part["end"] for part in rows)
    (problems,) = (p for p in parts if p["tag"] == "TABLE" and p["name"] == "problem-table")
    assert problems["height"] > SHEET
    assert problems["begin"] < problems["end"]
