# `make run` and `make test` on a fresh clone do all their own set-up.

PYTHON := .venv/bin/python
JOBS ?= 2

.PHONY: help setup run test test-full coverage lint type bench verilog docs clean

help:
	@echo "make setup      .venv and everything in it; nothing on a second run"
	@echo "make run        the main job: ResNet-50 through Themis to the RTL and back"
	@echo "make test       all tests but the wide matrices, on $(JOBS) cores (JOBS=)"
	@echo "make test-full  all tests"
	@echo "make coverage   what the benches reach in the RTL, in build/coverage"
	@echo "make lint       ruff check, ruff format"
	@echo "make type       mypy on sw_model, sim_top and testbenches"
	@echo "make bench      the benchmarks, appended to their history"
	@echo "make verilog    SystemVerilog of ACE, FRED and the platform, in build/verilog"
	@echo "make docs       check the links and the examples of the documentation"
	@echo "make clean      remove builds and results; .venv stays"

setup:
	@scripts/setup.sh

run: setup
	@.venv/bin/antiphon cosim examples/resnet50.yaml

test: setup
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal

test-full: setup
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal -m "full or not full"

coverage: setup
	@rm -rf build/coverage
	@$(PYTHON) -m tests.coverage_benches build/coverage

lint: setup
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check

type: setup
	@$(PYTHON) -m mypy

bench: setup
	@.venv/bin/antiphon bench

verilog: setup
	@for top in ace fred platform; do .venv/bin/antiphon emit $$top --out build/verilog || exit; done

docs: setup
	@$(PYTHON) -m pytest -q tests/test_docs.py

clean:
	rm -rf build results .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
