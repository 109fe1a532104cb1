PYTHON ?= python3
BIN := .venv/bin

# Tests start some hundred commands: where bytecode may not be written, each of them compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# 24 jobs that estimate pi, run for real; the log, the results and all that stands beside them go to build/pi/.
run: .venv/ready
	@mkdir -p build/pi
	@$(BIN)/poolbook run docs/examples/pi.sub here=docs/examples results=../../build/pi -log build/pi/pool.db
	@echo && $(BIN)/python docs/examples/pi.py --sum build/pi/pi.*.out

# Four workers, however few cores there are: many tests wait for processes. A file's tests share what they have set up.
# The files come in the order of tests/conftest.py: those that take longest first. A test that waits for ever fails.
test test-all: PYTEST = $(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder
test: .venv/ready
	$(PYTEST) -m "not long and not soak and not realpool and not network"

# With the slowest files, too, which start daemons, browsers and servers, and replay many recordings.
test-all: .venv/ready
	$(PYTEST)

# The documentation as a website with search, in build/site. A broken link is an error.
site: export NO_MKDOCS_2_WARNING = 1
site: .venv/ready
	$(BIN)/mkdocs build --strict --quiet

# The seconds that a test may take, where they are not those of pyproject.toml.
limit = --timeout=$(1) -o faulthandler_timeout=0

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_plain_english.py

# Writes the measurements to a file in build/bench/. `make bench PEER=DIR` also measures the HTCondor pool in DIR with
# PEER_SCRIPT; `make bench BENCH="-only bench_log.py"` runs some scripts.
PEER_SCRIPT ?= ../shared/realpool/peer
bench: .venv/ready
	$(BIN)/python -m tests.bench.run $(BENCH) $(if $(PEER),--peer $(PEER) --peer-script $(PEER_SCRIPT))

soak: export POOLBOOK_SOAK_EXAMPLES ?= 20000
soak: .venv/ready
	$(BIN)/python -m pytest -q -n auto -m soak $(call limit,$$((600 + POOLBOOK_SOAK_EXAMPLES / 2)))

# Tries all attacks of tests/attack, as root more of them; `make attack ATTACK="-only full-disk -seed 7"` says which.
ATTACK ?= -seconds 300
attack: .venv/ready
	$(BIN)/python -m tests.attack $(ATTACK)

# Follows a real HTCondor pool while it runs. REALPOOL is the pool's folder, REALPOOL_SCRIPT what builds and runs it (as
# root, with debootstrap and chroot).
realpool: export POOLBOOK_REALPOOL ?= $(or $(REALPOOL),/var/tmp/poolbook-realpool)
realpool: export POOLBOOK_REALPOOL_SCRIPT ?= $(or $(REALPOOL_SCRIPT),../shared/realpool/pool)
realpool: .venv/ready
	@test -f "$$POOLBOOK_REALPOOL_SCRIPT" || { echo "name the script that runs a pool: make realpool REALPOOL_SCRIPT=..."; exit 2; }
	$(BIN)/python -m pytest -q -m realpool $(call limit,7200)

# Runs pools whose roles are on several machines (namespaces) through the recorded scenarios of HTCondor pools, and for an
# hour through failures, as root. POOLBOOK_NETWORK_SECONDS=600 shortens the hour, POOLBOOK_NETWORK_SEED repeats a story.
network: export POOLBOOK_NETWORK_SECONDS ?= 3600
network: .venv/ready
	$(BIN)/python -m pytest -q -m network $(call limit,$$((1800 + POOLBOOK_NETWORK_SECONDS)))

coverage: .venv/ready
	$(BIN)/coverage run -m pytest -q $(call limit,600)
	$(BIN)/coverage report

# Plants faults and counts those that the tests notice; takes an hour or two. `make mutants MUTANTS="-count 30 -of adapters/stores"`.
mutants: .venv/ready
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Figures of how the tree is built; of two trees, before / after: `make structure BEFORE=DIR`.
structure:
	$(PYTHON) tests/structure.py $(if $(BEFORE),$(BEFORE)) .

# Removes all that the targets above make, .venv included.
clean:
	rm -rf .venv build dist .coverage .hypothesis .benchmarks .pytest_cache .mypy_cache .ruff_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml
	@echo 'Setting up .venv (once): downloading and installing packages takes about a minute.'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --progress-bar on --editable '.[dev]'
	touch $@

.PHONY: run test test-all check site bench soak attack mutants realpool network coverage structure clean
