"""Figures follow the reader's choice of light or dark, as the pages around them do."""

from pathlib import Path
from typing import Any

# The colours the figures are drawn with: see report/figures.py.
_GROUND = "#ffffff"
_INK = "#010203"
_STYLE = """<style>
:root { --ground: #ffffff; --ink: #1c2024; }
@media (prefers-color-scheme: dark) { :root { --ground: #1e2129; --ink: #e2e4e9; } }
</style>"""


def on_post_build(config: Any, **_: Any) -> None:
    """Rewrite the SVG files of the built site."""
    for path in Path(config.site_dir).rglob("*.svg"):
        text = path.read_text(encoding="utf-8")
        if _INK in text:
            path.write_text(_adaptive(text), encoding="utf-8")


def _adaptive(text: str) -> str:
    for plain, variable in ((_GROUND, "ground"), (_INK, "ink"), ("#000000", "ink")):
        text = text.replace(f": {plain}", f": var(--{variable})")
    return text.replace("<defs>", f"<defs>{_STYLE}", 1)
