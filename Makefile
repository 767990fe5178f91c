# Everything runs in .venv, which the targets make themselves. uv is used when it is there.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null)
# The newest Python that is there and new enough.
PYTHON := $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$p; break; fi; done)
T ?= tests
BENCHMARKS := a320_scoring robot_records score_many frame_preparation judge_cost submissions queue_efficiency queue_size memory harness

##@ Use it
.PHONY: demo
demo: .venv/demo ## Grade 24 sample robot trials and 3 cockpit runs: no key, no Docker, no Redis
	$(BIN)/python -m examples.demo

.PHONY: up
up: .venv/demo ## Run the service with a stub model until Ctrl-C
	$(BIN)/autograder up --stub

##@ Work on it
.PHONY: test
test: .venv/dev ## Run the tests (T=tests/api for some of them)
	$(BIN)/python -m pytest $(T)

.PHONY: test-transformers
test-transformers: .venv/dev ## Run the judge against `transformers serve` (installs torch apart: 1.2 GB)
	test -x .venv/transformers/bin/transformers || { $(PYTHON) -m venv .venv/transformers && \
		.venv/transformers/bin/python -m pip install -q 'torch==2.13.0' 'transformers[serving]>=5.24' pillow; }
	TRANSFORMERS_PYTHON=$(abspath .venv/transformers/bin/python) \
		$(BIN)/python -m pytest -n 0 tests/judging/test_transformers_serve.py

.PHONY: check
check: .venv/dev ## Lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: .venv/dev ## Format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: .venv/dev ## Run the benchmarks (benchmarks/README.md says what each one shows)
	for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name; done

.PHONY: fuzz
fuzz: .venv/dev ## Fuzz what reads bytes from outside (SECONDS_EACH=60)
	$(BIN)/uv pip install -q --python $(BIN)/python 'atheris>=3'
	$(BIN)/python -m fuzz --seconds $(or $(SECONDS_EACH),60)

.PHONY: chaos
chaos: .venv/dev ## Kill, freeze and stop everything in turn, and count (SEED=1)
	$(BIN)/python -m tests.chaos.run --seed $(or $(SEED),1)

.PHONY: lock
lock: .venv/dev ## Resolve the dependencies anew
	$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --extra server --group demo --group build pyproject.toml -o requirements/demo.txt
	$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --extra server --extra postgres --group dev --group build pyproject.toml \
		-c requirements/demo.txt -o requirements/dev.txt
	$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --extra server --extra postgres pyproject.toml \
		-c requirements/dev.txt -o requirements/server.txt

.PHONY: clean
clean: ## Remove the virtual environment, caches and the embedded service's data
	rm -rf .venv .autograder .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/python:
ifneq ($(UV),)
	$(UV) venv -q --allow-existing --python '>=3.11' .venv
else
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on the PATH"; echo "fix: install one, or install uv"; exit 2; }
	$(PYTHON) -m venv .venv
endif
	@touch $@

.venv/demo: .venv/python requirements/demo.txt pyproject.toml
	$(call install,requirements/demo.txt)
	@touch $@

.venv/dev: .venv/python requirements/dev.txt pyproject.toml
	$(call install,requirements/dev.txt)
	@touch $@ .venv/demo

# The lock file brings the build backend too, so that nothing unpinned is installed.
define install
	@echo "installing $(1) into .venv"
	$(if $(UV),$(UV) pip install -q --python $(BIN)/python --require-hashes -r $(1),$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(1))
	$(if $(UV),$(UV) pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .,$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .)
endef
