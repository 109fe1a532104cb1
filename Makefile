PYTHON ?= python3
BIN := .venv/bin

run: .venv/ready
	$(BIN)/python docs/examples/match.py

test: .venv/ready
	$(BIN)/python -m pytest -q -n auto

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python tests/bench/bench_classad.py

soak: export POOLBOOK_SOAK_EXAMPLES ?= 20000
soak: .venv/ready
	$(BIN)/python -m pytest -q -n auto -m soak

coverage: .venv/ready
	$(BIN)/coverage run -m pytest -q
	$(BIN)/coverage report

# Removes all that the targets above make, .venv included.
clean:
	rm -rf .venv build dist .coverage .hypothesis .benchmarks .pytest_cache .mypy_cache .ruff_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

.PHONY: run test check bench soak coverage clean
