"""Bring what the studies found into the documents: results, tables, figures, and tables in pages.

    python docs/fill.py [runs/study]

Copies results.json and the SVG figures of every finished study to docs/study/NAME, writes the
tables of every study there from its results, and fills every place of a page that is marked like
this, from the results:

    <!-- study: table2/scores -->
    <!-- end of study -->
"""

import argparse
import json
import re
import shutil
from pathlib import Path

from maxatk.report.tables import format_table
from maxatk.studies.findings import Study, study_tables, write_tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "study"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PLACE = re.compile(
    r"(<!-- study: (?P<study>\w+)/(?P<table>\w+) -->\n).*?(<!-- end of study -->)", re.DOTALL
)


def load(name: str) -> Study:
    """Return the committed study of that name."""
    return Study.from_json(json.loads((DOCS / name / "results.json").read_text(encoding="utf-8")))


def filled(text: str) -> str:
    """Return a page with every marked place filled from the committed results."""

    def table(place: re.Match[str]) -> str:
        found = study_tables(load(place["study"]))[place["table"]]
        return f"{place[1]}{format_table(found, 'md')}{place[4]}"

    return _PLACE.sub(table, text)


def copy(runs: Path) -> None:
    """Copy results and figures of the finished studies below `runs`."""
    for results in sorted(runs.glob("*/results.json")):
        to = DOCS / results.parent.name
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(results, to)
        for figure in results.parent.glob("figures/*.svg"):
            shutil.copy(figure, to)
        print(f"{to.relative_to(ROOT)}: copied")


def main() -> None:
    """Copy, and write tables and pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs/study"))
    copy(parser.parse_args().runs)
    for results in DOCS.glob("*/results.json"):
        write_tables(load(results.parent.name), results.parent)
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
