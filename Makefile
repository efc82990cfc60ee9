# Everything sets itself up: only Python 3.11 or newer (with venv and pip) and make are needed.
# The set-up is done again when requirements.lock or pyproject.toml has changed, or the folder was moved.

.DEFAULT_GOAL := help
.SUFFIXES:

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
ARGS ?=

# Some environments tell Python to keep no bytecode. Each of a thousand processes would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# Tests wait for more than half of their time, so there are two workers more than there are processors.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

# The first Python that is new enough; `make PYTHON=/path/to/python3` names another.
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && break; done)

# A virtual environment cannot be moved with its folder: then a new one is made.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
$(shell rm -f $(READY))
endif

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none is on the PATH."; exit 1; }
	@test "$$(cat $(VENV)/.place 2>/dev/null)" = "$(CURDIR)" && $(PY) -m pip --version >/dev/null 2>&1 \
		|| { echo "Making the virtual environment ($(VENV))"; $(PYTHON) -m venv --clear $(VENV) && echo "$(CURDIR)" >$(VENV)/.place; }
	@echo "Installing what requirements.lock names"
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" >$(READY)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

.PHONY: setup
setup: $(READY) ## Install everything into .venv; every other target does this by itself

.PHONY: demo
demo: $(READY) ## Tell the whole story: drops, exports, a distribution that fails and is redriven; with figures
	@$(PY) -m bulk_pipelines_tests.demo

.PHONY: dev
dev: $(READY) ## Open Dagster's UI with its daemon on the embedded database; Ctrl-C stops all
	@exec $(VENV)/bin/bulk up

.PHONY: test
test: $(READY) ## Run the tests, except the long ones; DATABASE=15 uses an installed PostgreSQL 15
	$(PY) -m pytest -n $(WORKERS) -m "not long" $(ARGS)

.PHONY: test-quick
test-quick: $(READY) ## Run what needs no long-lived server, in less than a minute: while one is typing
	HYPOTHESIS_PROFILE=quick $(PY) -m pytest -q -n $(WORKERS) -m "not long" bulk_pipelines_tests/unit bulk_pipelines_tests/property $(ARGS)

.PHONY: test-long
test-long: $(READY) ## Run the long tests; DATABASE=15 uses an installed PostgreSQL 15
	$(PY) -m pytest -n logical --dist loadfile --no-loadscope-reorder -m long $(ARGS)

.PHONY: check
check: $(READY) ## Lint, formatting, types, boundaries between modules, and the lock
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) .ci/check_lock.py
	$(PY) -m pip check --disable-pip-version-check

.PHONY: format
format: $(READY) ## Format the code and mend what the linter can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

.PHONY: bench
bench: $(READY) ## Run every benchmark, and keep its figures for the docs; make bench-NAME runs one, benchmarks/NAME.py
	@for each in $$(cd benchmarks && grep -l '"__main__"' *.py | grep -v -e bare -e figures -e load | sed 's,[.]py$$,,'); do \
		BENCH_RESULTS=docs/benchmarks.json $(MAKE) --no-print-directory bench-$$each || exit 1; done

bench-%: $(READY)
	@$(PY) -m benchmarks.$(subst -,_,$*)

.PHONY: match-model
match-model: $(READY) ## Fit the matcher's model anew, from the data that BENCH_BRANDS names
	@$(PY) -c "from benchmarks.match_model import fit; fit()"

.PHONY: screenshots
screenshots: $(READY) ## Photograph every page of the console, into docs/images/console
	@$(PY) -m bulk_pipelines_tests.screenshots

.PHONY: docs
docs: $(READY) ## Write the generated pages of docs/ anew
	$(PY) -m bulk_pipelines.reference docs
	$(PY) -m benchmarks.figures docs/benchmarks.md README.md docs/comparison.md

.PHONY: site
site: $(READY) ## Write the docs as a site into site/; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet

.PHONY: lock
lock: $(READY) ## Make requirements.lock anew from pyproject.toml: names, versions and hashes only
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --extra bench --extra otel --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --output-file requirements.lock $(ARGS)
	$(PY) .ci/check_lock.py

.PHONY: wheel
wheel: $(READY) ## Build the source archive and the wheel into dist/
	$(PY) -m hatchling build --target sdist --target wheel

.PHONY: clean
clean: ## Remove the virtual environment and all caches; the data in .bulk stays
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info .tmp_dagster_home_*
	find . -name __pycache__ -not -path './.bulk/*' -prune -exec rm -rf {} +
