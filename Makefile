# `make` lists the targets. One environment, .venv, serves them all; it is made on first use and brought up to date
# when what it is made from changes.

PYTHON ?= python3
PYTEST_ARGS ?=
# Processes that run the tests; each uses one thread.
TEST_PROCESSES ?= 2
TORTURE_ARGS ?=
# An index of torch packages without CUDA, several GB smaller: TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
QUICK_TESTS := tests/core tests/support tests/evaluation tests/docs/test_doctests.py tests/package/test_tour_command.py
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SMALL := $(VENV)/.installed-for-demo
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test check coverage torture lint docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(SMALL))  ## search the embedded collection with and without TouR, and evaluate both
	@$(BIN)/python -m tour_pyserini.demo

test: lint  ## everything that has to pass: lint, types, tests (PYTEST_ARGS="tests/core -k loop" for some)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

check: lint  ## a quick look before a commit: lint, types, and the quick tests
	$(BIN)/python -m pytest -q --durations=0 --durations-min=2 -m "not slow" $(QUICK_TESTS)

coverage: $(STAMP)  ## all tests, with the lines that they do not run; htmlcov/index.html has the details
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered --cov-report=html $(PYTEST_ARGS)

torture: $(STAMP)  ## kills, full disks and damaged files, for about an hour (TORTURE_ARGS="--share 0.1 --seed 7")
	$(BIN)/python tests/torture $(TORTURE_ARGS)

lint: $(STAMP)  ## ruff, mypy and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(STAMP)  ## build the docs site into site/; open site/index.html
	@$(PIP) install -qq -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:  ## remove the environment and what tools left behind
	rm -rf $(VENV) build dist site *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "tour_pyserini needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The interpreter is an order-only prerequisite: it keeps the date of the Python it was copied from.
$(STAMP): EXTRAS := models,test
$(SMALL): EXTRAS := models
$(STAMP) $(SMALL): setup.cfg pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV) (several minutes the first time)"
	$(if $(TORCH_INDEX),@$(PIP) install -qq -c constraints.txt --extra-index-url $(TORCH_INDEX) torch)
	@$(PIP) install -qq -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@
