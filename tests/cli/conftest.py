"""The recipes of small studies, for the commands that carry them out."""

from studies.conftest import of_a_llama, recipe

__all__ = ["of_a_llama", "recipe"]
