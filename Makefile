PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where tests that measure time are: they run after all others, alone.
QUIET := tests/evaluation/test_judge.py tests/orchestrator/test_cli.py tests/orchestrator/test_store.py

.PHONY: sweep test lint types clean

sweep: $(STAMP)
	@$(BIN)/kernelsweep run experiment=quickstart

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -rs -n 3 --dist worksteal -m 'not gpu and not quiet'
	$(BIN)/pytest -q -n 1 -m 'quiet and not gpu' $(QUIET)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --constraint constraints.txt -e '.[dev]'
	@touch $@
