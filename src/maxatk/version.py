"""The version of the package, for the boxes that record it."""

VERSION = "0.1.0"
