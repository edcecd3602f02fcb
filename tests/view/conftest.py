"""A browser that looks at the page."""

from chromium import browser  # noqa: F401
