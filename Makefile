# Each target makes what it needs in .venv. Nothing here touches the system's Python.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -q --disable-pip-version-check
STAMP  := $(VENV)/.ready
JOBS   ?= 2

# A machine with a GPU keeps the torch and triton that it has; any other takes CPU builds.
GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1 && echo yes)

.PHONY: help setup tune test test-gpu test-slow lint format clean
.DEFAULT_GOAL := help

help:  ## Say what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## Make .venv with everything that the targets below need.

$(STAMP): pyproject.toml
ifeq ($(GPU),yes)
	test -d $(VENV) || $(PYTHON) -m venv --system-site-packages $(VENV)
	$(PIP) 'pip>=25.1'
	$(PIP) -e '.[gpu]' 'numpy<2.4' --group dev
else
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(PIP) 'pip>=25.1'
	$(PIP) torch==2.13.0
	$(PIP) 'triton==3.6.*' 'numpy<2.4' xgboost-cpu
	$(BIN)/python -c "$$LIST_DEPENDENCIES" > $(VENV)/dependencies.txt
	$(PIP) -r $(VENV)/dependencies.txt \
	    'triton==3.6.*' 'numpy<2.4' hatchling editables --group dev
	$(PIP) --no-deps --no-build-isolation -e .
endif
	touch $(STAMP)

# The project's dependencies, less the one that xgboost-cpu stands in for.
define LIST_DEPENDENCIES
import pathlib, tomllib
project = tomllib.loads(pathlib.Path('pyproject.toml').read_text())['project']
print(*(d for d in project['dependencies'] if not d.startswith('xgboost')), sep='\n')
endef
export LIST_DEPENDENCIES

tune: setup  ## Tune a matmul with what is here (a GPU, else what was recorded on one) and load the result.
	$(BIN)/autosched tune matmul:m=1024,n=1024,k=1024,dtype=float16 --effort quick -o tuned.jsonl
	@$(BIN)/python -c 'import autosched; print(autosched.load("tuned.jsonl").summary())'

test: setup lint  ## Everything that needs no GPU and little time.
	$(BIN)/python -m pytest -m 'not gpu and not slow' -n $(JOBS)

test-slow: setup  ## The rest of what needs no GPU.
	$(BIN)/python -m pytest -m 'slow and not gpu' -n $(JOBS)

test-gpu: setup  ## What needs a GPU; one test at a time, since they time things.
	$(BIN)/python -m pytest -m gpu

lint: setup  ## Style, types and layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## Rewrite the sources in the house style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what the targets above made, .venv included.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
