"""Problems from files and benchmarks."""
