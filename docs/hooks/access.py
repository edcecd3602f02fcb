"""What the theme leaves out for readers with a keyboard or a screen reader."""

from typing import Any


def on_post_page(output: str, **_: Any) -> str:
    """Let no control that is hidden from readers be in reach of the keyboard."""
    return output.replace('<input class="md-option"', '<input class="md-option" tabindex="-1"')
