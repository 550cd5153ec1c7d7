# Needs make and Python >= 3.11; everything else is installed inside this folder.
# ARGS reaches the tool:  make test ARGS="-k leip"   make lock ARGS=--upgrade
# PYTHON picks the interpreter:  make test PYTHON=python3.13

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow lint format docs lock spark bench clean

ARGS ?=
# The first of these that is new enough; empty when there is none.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)
SYSTEM_UV := $(shell command -v uv 2>/dev/null)
UV := $(if $(SYSTEM_UV),uv,.uv/bin/uv)
UV_READY := $(if $(SYSTEM_UV),,.uv/bin/uv)
VENV_READY := .venv/.ready
BIN := .venv/bin

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: $(VENV_READY) ## replay a drift, and draw report.html
	@$(BIN)/stream-leip replay $(ARGS)

# A file's tests run in one process: the blocks of a page go on from each other.
test: $(VENV_READY) ## run the tests and doctests
	@$(BIN)/pytest -n auto --dist loadfile $(ARGS)

test-slow: $(VENV_READY) ## run only the slow statistical tests
	@$(BIN)/pytest -n auto --dist loadfile -m slow $(ARGS)

lint: $(VENV_READY) ## ruff, mypy strict and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV_READY) ## mend what ruff can mend
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

docs: $(VENV_READY) ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)  # with --quiet it would count no warnings
	@echo "open site/index.html"

lock: $(UV_READY) ## rewrite requirements.lock after a change of pyproject.toml
	@$(UV) pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
		--all-extras --group dev --group bench --group docs --no-emit-index-url \
		--no-emit-package pyspark --no-emit-package py4j \
		--custom-compile-command "make lock" --quiet --output-file requirements.lock $(ARGS)
	@sed -n 's/^spark = \["\(pyspark[^"]*\)".*/\1/p' pyproject.toml | $(UV) pip compile - --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
		--custom-compile-command "make lock" --quiet --output-file requirements-spark.lock $(ARGS)
	@echo "requirements.lock and requirements-spark.lock written"

# Apart from the others: it is an archive of 400 MB, and most people want to see a demo first.
spark: $(VENV_READY) ## add pyspark to .venv, for the tests that need it (and Java 17 or 21)
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements-spark.lock

bench: ## say how to run the benchmarks
	@echo "Benchmarks are scripts in benchmarks/, each with its command in its docstring."
	@echo "Set up once with 'make test', then for example: $(BIN)/python -m benchmarks.estimators --quick"

clean: ## remove the environments, caches and builds
	@rm -rf .venv .uv dist build site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

define CHECK_PYTHON
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "stream-leip needs Python >= 3.11; '$(or $(PYTHON),python3)' is missing or older. Install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
endef

$(VENV_READY): requirements.lock pyproject.toml $(UV_READY)
	$(CHECK_PYTHON)
	@echo "Setting up .venv from requirements.lock ..."
	@test -x $(BIN)/python || $(UV) venv --quiet --python "$(PYTHON)" .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@echo "Compiling the kernels, once, about a minute ..."
	@$(BIN)/stream-leip replay --events 3000 --no-report --json >/dev/null 2>&1 || { \
		echo "The kernels did not compile. See why: $(BIN)/stream-leip replay --events 3000 --no-report" >&2; exit 1; }
	@touch $@

.uv/bin/uv: requirements.lock
	$(CHECK_PYTHON)
	@echo "Installing uv into .uv ..."
	@"$(PYTHON)" -m venv .uv || { echo "'$(PYTHON) -m venv' does not work here. On Debian and Ubuntu: apt install python3-venv" >&2; rm -rf .uv; exit 1; }
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check \
		"$$(sed -n 's/^\(uv==[0-9.]*\).*/\1/p' requirements.lock)"
	@touch $@
