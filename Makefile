# The commands of a newcomer: `make demo` and `make test`. Both set everything up by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
JOBS ?= 2
LOCK_VENV := $(VENV)/lock
NIGHTLY := $(VENV)/nightly
MODULES := runtime protocol operation nameserver controller broker client proxy pipeline cluster testing simulation

.DEFAULT_GOAL := help
.PHONY: help setup system-tools demo lint test rewritten-tests quick check mutants compat bench bench-spark docs lock nightly release clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

# A process starts in half the time from byte code, which a machine may keep Python from writing
# (PYTHONDONTWRITEBYTECODE, as containers have it).
setup: $(STAMP) system-tools ## .venv with everything; system tools for some tests when root
	@$(BIN)/python -m compileall -q $(MODULES)

# A second run installs nothing: the stamp is newer than pyproject.toml and the lock. Everything comes in
# the locked versions, checked by hash. What has no wheel (PySpark) is built by the setuptools among
# them, which is there first, and the project itself by the hatchling: no build fetches anything.
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "PocketMQ needs Python 3.11 or later; set PYTHON=python3.x" >&2; exit 1; }
	@test -x $(BIN)/python && { command -v uv >/dev/null 2>&1 || test -x $(BIN)/pip; } \
		|| $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), about 1.1 GB with PySpark; the first time this takes minutes"
	@if command -v uv >/dev/null 2>&1; then \
		install="uv pip install --quiet --compile-bytecode --python $(BIN)/python"; \
	else \
		install="$(BIN)/python -m pip install --quiet --disable-pip-version-check"; \
	fi; \
	sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock >$(VENV)/build.lock && \
		$$install --require-hashes -r $(VENV)/build.lock && \
		$$install --require-hashes --no-build-isolation -r requirements.lock && \
		$$install --no-deps --no-build-isolation -e .
	@touch $@

system-tools:
	@.ci/system-tools

demo: setup ## 336,776 flights through a cluster of processes; DEMO_ARGS='--replicas 3 --kill-master'
	$(BIN)/pocketmq demo $(DEMO_ARGS)

check: lint ## lint, format, types, layers
	$(BIN)/mypy

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

# Tests that start processes wait (those with RocketMQ's own for two thirds of their time), so four
# processes keep two cores busy, and types are checked beside them; quick ones wait less. What belongs
# together stays in one process, and what takes longest begins first (tests/support/groups.py).
test: JOBS = 4
quick: JOBS = 3
test: ## check and every test; DURATIONS=tests/durations.tsv notes how long they took
	@$(MAKE) --no-print-directory -j 2 lint rewritten-tests
	@$(BIN)/mypy & types=$$!; \
		PYTHONDONTWRITEBYTECODE= $(PYTEST) -n $(JOBS) --dist loadgroup \
			$(if $(DURATIONS),--durations-to=$(DURATIONS)); tests=$$?; \
		wait $$types && exit $$tests

# pytest rewrites the asserts of 400 modules: once here, while others have the second core, and not for
# ten seconds in each process. Later only what has changed is rewritten, by the tests themselves.
rewritten-tests: setup
	@ls tests/*/__pycache__/*-pytest-*.pyc >/dev/null 2>&1 || \
		PYTHONDONTWRITEBYTECODE= $(PYTEST) --collect-only -qq >/dev/null 2>&1 || true

quick: ## check, then the pure and in-memory tests, under 3 minutes
	@$(MAKE) --no-print-directory -j 2 check rewritten-tests
	PYTHONDONTWRITEBYTECODE= HYPOTHESIS_PROFILE=quick $(PYTEST) -n $(JOBS) --dist loadgroup \
		--loops one -m "not cluster and not java and not browser and not slow"

compat: setup ## what users run: Spring, ali-ons, Java, Go; COMPAT_ARGS='--only spring'
	$(BIN)/python scripts/compat.py $(COMPAT_ARGS)

mutants: setup ## break a line for each behaviour; its tests must notice: 5 to 15 minutes
	$(BIN)/python tests/mutants/run.py --jobs $(JOBS)

bench: setup ## ratios to a floor measured in the same run
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/features.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/rebalance.py
	$(BIN)/python benchmarks/desk.py
	$(BIN)/python benchmarks/turns.py

bench-spark: setup ## the Spark sources and sink beside what they are measured against: half an hour
	$(BIN)/python benchmarks/spark.py

docs: setup ## rewrite docs/generated and docs/behaviour.md from code and tests
	$(BIN)/python -m docs.generate

# What is locked now is kept where it still fits; LOCK_ARGS=--upgrade takes the newest.
lock: ## requirements.lock anew from pyproject.toml; LOCK_ARGS=--upgrade for newer versions
	@$(PYTHON) -m venv $(LOCK_VENV) && $(LOCK_VENV)/bin/python -m pip install --quiet uv
	$(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --extra dev --extra demo $(LOCK_ARGS) \
		pyproject.toml -o requirements.lock

# Nothing is locked here, so that a release of others is seen before users see it.
nightly: system-tools ## every test with the newest of everything, in .venv/nightly; looks longer
	$(PYTHON) -m venv $(NIGHTLY)
	$(NIGHTLY)/bin/python -m pip install --quiet --upgrade -e '.[dev,demo]'
	PATH="$(abspath $(NIGHTLY))/bin:$$PATH" HYPOTHESIS_PROFILE=nightly \
		$(NIGHTLY)/bin/python -m pytest --nightly -n $(JOBS) --dist loadgroup \
			--deselect tests/parity/test_parity.py --deselect tests/parity/test_clients.py
	# Alone: beside other tests RocketMQ may answer before its queues are filled.
	PATH="$(abspath $(NIGHTLY))/bin:$$PATH" $(NIGHTLY)/bin/python -m pytest --nightly \
		tests/parity/test_parity.py tests/parity/test_clients.py

release: setup ## wheel and sdist in dist/, checked and tried in an empty environment; a git tag
	$(BIN)/python scripts/release.py $(RELEASE_ARGS)

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
