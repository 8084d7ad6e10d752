# Every target works on a fresh clone; `make` alone lists them.
PYTHON ?= python3
WORKERS ?= 3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Each newer than its requirements when .venv holds them, so that nothing is installed twice: what
# running needs, and all the tools on top of it.
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
PROTO := src/tgpu/wire/scheduler.proto
# The synchronous client is made of the asynchronous one.
ASYNC_CLIENT := src/tgpu/client/aio.py
SYNC_CLIENT := src/tgpu/client/http.py
PROCESSES := $(addprefix tests/integration/,crash engines gateway telemetry) tests/acceptance
CODE := src tests benchmarks examples
LOCK := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras --allow-unsafe

.DEFAULT_GOAL := help
.PHONY: help install run test suite check fuzz smoke bench quality ci format lock clean system-packages

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) $(SYNC_CLIENT) ## Make .venv with the package and every tool in it

$(RUNS): requirements/base.txt requirements/build.txt pyproject.toml hatch_build.py $(PROTO)
	@PYTHON="$(PYTHON)" sh scripts/system_packages.sh venv
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python scripts/install.py requirements/base.txt requirements/build.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(RUNS)

$(STAMP): $(RUNS) requirements/dev.txt
	@$(BIN)/python scripts/install.py requirements/dev.txt
	@touch $(STAMP)

$(SYNC_CLIENT): $(ASYNC_CLIENT) scripts/sync_client.py | $(RUNS)
	@$(BIN)/python scripts/sync_client.py $(ASYNC_CLIENT) $(SYNC_CLIENT)

run: $(RUNS) $(SYNC_CLIENT) ## Start the service on embedded defaults (ARGS="--port 8081" for flags)
	$(BIN)/tgpu serve $(ARGS)

test: suite check ## Run the whole test suite, then check

# Tests that kill and time real processes run apart from the others and two at a time, those of a file
# one after the other, so that they do not compete with many for the machine's few cores.
suite: install system-packages ## Run the tests alone (ARGS="-k quota" for some of them)
ifeq ($(strip $(ARGS)),)
	$(BIN)/python -m pytest --durations=15 --numprocesses $(WORKERS) $(addprefix --ignore=,$(PROCESSES))
	$(BIN)/python -m pytest --durations=15 --numprocesses 2 --dist loadfile $(PROCESSES)
else
	$(BIN)/python -m pytest $(ARGS)
endif

check: install ## Check format, lint, types, layers and the rules about this repository
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest --quiet tests/meta

fuzz: install ## Send generated input to every door: REST, streams, gRPC, the supervisor (ARGS="-k grpc")
	$(BIN)/python -m pytest --hypothesis-profile=fuzz --timeout=3600 --durations=10 tests/fuzz $(ARGS)

smoke: install ## Start the real service, exercise it over HTTP, stop it
	$(BIN)/python -m tests.smoke

bench: install system-packages ## Measure what is promised (ARGS="cycle" for one of them)
	$(BIN)/python -m benchmarks.run $(ARGS)

quality: install ## Measure scheduling quality on the public traces: TRACES=DIR (writes docs/results.md)
	$(BIN)/python -m benchmarks.quality $(if $(TRACES),$(TRACES),$(error say TRACES=DIR)) $(ARGS)

ci: check test smoke ## All of the above that must pass before a change is merged

format: install ## Format the code and mend what lint can mend
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

lock: ## Pin the newest allowed versions of all requirements, with hashes
	$(LOCK) --upgrade --output-file requirements/base.txt pyproject.toml
	$(LOCK) --upgrade --output-file requirements/build.txt requirements/build.in
	$(LOCK) --upgrade --output-file requirements/dev.txt requirements/dev.in

system-packages: ## Install what the tests need (a C compiler, promtool, servers), or say so
	@sh scripts/system_packages.sh compiler screen systemd promtool postgres redis

clean: ## Remove what was made here: .venv, caches, builds
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f $(PROTO:.proto=_pb2*.py*) $(SYNC_CLIENT)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
