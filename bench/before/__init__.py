"""The objectives before one rule for all of them, for comparisons within one run."""
