"""From a benchmark to files: filtered, split, counted, and the same bytes every time."""
