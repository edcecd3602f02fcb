"""Statistics over problems and seeds: arrays in, numbers out."""
