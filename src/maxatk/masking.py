"""Settings without their secrets, for every file and message that shows settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?:^|_)(?:token|key|password|passwd|secret)$", re.IGNORECASE)
# Tokens of a tokenizer, which say how a model is trained.
_TEXT = re.compile(r"^(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio)_token$", re.IGNORECASE)
_USER = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://)[^/?#\s@]*@(?=[^/?#\s])")


def masked(settings: Any) -> Any:
    """Return settings with every secret replaced by `HIDDEN`; mappings and sequences are copied.

    Secret are texts under a name that ends in token, key, password or secret, and what stands
    before the host in a URL.
    """
    if isinstance(settings, Mapping):
        return {
            name: HIDDEN if _is_secret(name, value) else masked(value)
            for name, value in settings.items()
        }
    if isinstance(settings, (list, tuple)):
        return type(settings)(masked(value) for value in settings)
    return masked_url(settings) if isinstance(settings, str) else settings


def masked_url(text: str) -> str:
    """Return a text in which no URL names a user or a password."""
    return _USER.sub(rf"\g<scheme>{HIDDEN}@", text)


def _is_secret(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str) or not value:
        return False
    return _SECRET.search(name) is not None and _TEXT.search(name) is None
