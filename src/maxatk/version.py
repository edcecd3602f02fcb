"""The version of the package, for the modules that record it."""

VERSION = "0.1.0"
