"""What the theme leaves out for readers with a keyboard or a screen reader."""

from typing import Any

_SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'


def on_post_page(output: str, **_: Any) -> str:
    """Let no hidden control be in reach of the keyboard, and give the search its name."""
    output = output.replace('<input class="md-option"', '<input class="md-option" tabindex="-1"')
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
