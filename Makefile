# Each target builds .venv from pyproject.toml and constraints.txt when they changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench docs clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0 -c constraints.txt
	$(BIN)/pip install --quiet -e '.[dev]' -c constraints.txt
	touch $@

demo: $(VENV)/.installed
	$(BIN)/maxatk demo

test: $(VENV)/.installed
	$(BIN)/pytest -n 2 --dist loadfile

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed
	for script in bench/*.py; do $(BIN)/python $$script || exit 1; done

docs: $(VENV)/.installed
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
