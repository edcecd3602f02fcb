"""Studies: models x seeds from one recipe, their tests, tables, figures and page."""
