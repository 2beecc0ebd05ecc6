# Everything a person runs here. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo $(CURDIR)/$(BIN)/uv)
MEMBERS := templates controller components local
export UV_PYTHON_DOWNLOADS := never
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help setup tools demo test parity check lint format types imports golden bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make .venv with everything that development and the demo need

$(VENV)/.ready: pyproject.toml $(MEMBERS:%=%/pyproject.toml) .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name it with: make setup PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "python3 -m venv failed: install the venv package (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@command -v uv >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet uv
	$(UV) pip install --quiet --python $(BIN)/python --constraint .ci/constraints.txt \
	  $(MEMBERS:%=-e %) --group dev
	@touch $@

tools: setup ## Find or build the servers of the laptop cluster (about half an hour, once per machine)
	$(BIN)/nodewright local tools

demo: tools ## Show the main job, from pulumi up to destroy, on the laptop cluster
	$(BIN)/nodewright local demo

test: tools ## Run every test, also those on the real engine and API server
	$(BIN)/python -m pytest -m "not bench and not parity"

parity: setup ## Compare our decisions with Karpenter's own scheduler on generated worlds
	$(BIN)/python -m pytest -m parity -s

check: setup lint types imports ## Everything but the slow tests: style, types, import rules, quick tests
	$(BIN)/python -m pytest -m "not cluster and not bench and not parity"

lint: setup ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## Put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## Check types
	$(BIN)/mypy

imports: setup ## Check that imports point downward
	$(BIN)/lint-imports

golden: setup ## Rewrite the golden files and the CRDs; review the diff
	NODEWRIGHT_GOLDEN=write $(BIN)/python -m pytest -q -m "not cluster" -p no:randomly

bench: setup ## Measure scheduling beside Karpenter's (SIZES="1000 5000" for a quick run)
	$(BIN)/python -m tests.bench $(if $(SIZES),--sizes $(SIZES))

clean: ## Remove what was built here (not the tools' cache)
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
