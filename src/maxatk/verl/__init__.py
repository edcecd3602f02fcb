"""The plug-in for verl 0.9: `plugin` and `trainers` are its entry points (docs/engines.md)."""
