"""The results that the tests of the report use, for those of studies."""

from report.conftest import make, results

__all__ = ["make", "results"]
