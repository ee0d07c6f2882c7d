# Every target makes what it needs: a virtual environment in .venv and the packages of one extra.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCHMARKS ?= benchmarks/rivals_exact.py benchmarks/lowrank.py benchmarks/memory.py benchmarks/papers/bach2004.py \
              benchmarks/papers/lowrank.py benchmarks/papers/mwumkl.py

EXTRAS_demo := plot,cli
EXTRAS_test := test
EXTRAS_torch := test,gpu
EXTRAS_lint := lint
EXTRAS_bench := bench,plot

.PHONY: demo test test-torch lint bench clean
.SECONDARY:

demo: $(VENV)/.with-demo
	$(BIN)/kernelweave demo

test: $(VENV)/.with-test
	$(BIN)/python -m pytest -q

test-torch: $(VENV)/.with-torch
	$(BIN)/python -m pytest -q tests -k torch

lint: $(VENV)/.with-lint
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.with-bench
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kernelweave needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.with-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS_$*)]'
	@touch $@
