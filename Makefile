# Every target makes what it needs: a virtual environment in .venv and the packages of one extra.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCHMARKS ?= benchmarks/rivals_exact.py benchmarks/lowrank.py benchmarks/memory.py benchmarks/products.py
PAPERS ?= $(sort $(wildcard benchmarks/papers/*.py))

EXTRAS_demo := plot,cli
EXTRAS_test := test
EXTRAS_torch := test,gpu
EXTRAS_lint := lint
EXTRAS_docs := docs
EXTRAS_bench := bench,plot

.PHONY: demo test test-torch fuzz lint docs wheel data bench papers clean
.SECONDARY:

demo: $(VENV)/.with-demo
	$(BIN)/kernelweave demo

# One thread each: several processes with several threads each would wait for one another.
test test-torch: export OMP_NUM_THREADS = 1
test: $(VENV)/.with-test
	$(BIN)/python -m pytest -q -n auto

test-torch: $(VENV)/.with-torch
	$(BIN)/python -m pytest -q -n auto tests -k "torch or tensor or elsewhere or libraries"

# Random problems for so many minutes, each judged by code of its own; what goes wrong becomes a test in tests/.
MINUTES ?= 5
SEED ?= 0
fuzz: export OMP_NUM_THREADS = 1
fuzz: $(VENV)/.with-test
	$(BIN)/python tests/fuzz.py --minutes $(MINUTES) --seed $(SEED) --record docs/fuzz.md --failures tests

lint: $(VENV)/.with-lint
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site, into docs/_build/html; a warning is an error, and so is a link that leads nowhere. The gallery is run, so it takes some minutes.
docs: export OMP_NUM_THREADS = 1
docs: $(VENV)/.with-docs
	$(BIN)/python docs/make_api.py
	$(BIN)/python docs/make_messages.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html
	@echo "the site is in docs/_build/html/index.html"

# Wheel and sdist into dist/, and the wheel tried in an empty environment: a fit, and the demonstration.
wheel: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	rm -rf dist build/try
	$(BIN)/python -m build --quiet
	$(PYTHON) -m venv build/try
	build/try/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[plot,cli]"
	cd build && try/bin/python -c "import kernelweave as kw, numpy as np; X = np.eye(20); y = np.arange(20) % 2; \
		print(kw.MKLClassifier().fit(X, y).dual_gap_, kw.__file__)" && try/bin/kernelweave demo --out demo

# The data of the benchmarks, by their public names, into the folder named by KERNELWEAVE_DATA.
data: $(VENV)/.with-bench
	$(BIN)/python benchmarks/fetch.py

bench: $(VENV)/.with-bench
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done

# Every table and figure of the papers, into docs/results/. It takes four hours or so, and goes on where it stopped: what
# is there already is not measured again, unless its files are removed. With FAST=1 it takes minutes, to see that
# everything runs. A script that fails does not keep the others from running.
papers: $(VENV)/.with-bench
	@failed=; for script in $(PAPERS); do echo "== $$script"; \
		$(BIN)/python $$script $(if $(FAST),--fast --cap 3) || failed="$$failed $$script"; done; \
		test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/generated docs/api.md src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kernelweave needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.with-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS_$*)]'
	@touch $@
