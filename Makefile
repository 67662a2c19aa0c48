# Two commands do everything: `make demo` and `make test`. The rest are their parts.
PYTHON ?=
PORT ?= 0
SEEDS ?= 20
JOBS ?= 1
MINUTES ?= 60
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
FIND_PYTHON := scripts/find-python "$(PYTHON)"
INSTALL := $(BIN)/python -m pip install --quiet --no-warn-script-location

.PHONY: help demo test tests check coverage format bench soak chaos clean lock chromium proof sbom docs dist pythons
help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.runtime ## run Postroom on simulated mailboxes and print a sign-in link [PORT=8025]
	@exec $(BIN)/postroom demo --port $(PORT)

test: ## every check and every test
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.dev chromium
	@$(MAKE) --no-print-directory -j 2 check tests

# Beside the check, which leaves one core free for most of its time.
tests:
	@scripts/test

# Tracing doubles the CPU time of a test. The folders left out repeat what the others run.
UNMEASURED := chaos rules scenarios simulator upgrades
coverage: $(VENV)/.dev chromium ## the coverage of src/postroom; fails below 90 %
	@scripts/test --cov --cov-report=term $(UNMEASURED:%=--ignore=tests/%)

check: $(VENV)/.dev ## format, lint, types, import rules
	@scripts/check

format: $(VENV)/.dev ## format the sources
	@$(BIN)/ruff check --quiet --fix-only src mailsim chaos tests bench training scripts
	@$(BIN)/ruff format --quiet src mailsim chaos tests bench training scripts

bench: $(VENV)/.dev ## every benchmark; each prints a ratio measured side by side
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

pythons: ## every test with each supported Python of this machine [PYTHONS="/path/to/python3.13 python3.14"]
	@scripts/pythons $(PYTHONS)

soak: $(VENV)/.dev ## the slow tests that `make test` leaves out, and more examples of the others
	@TEST_EXAMPLES=all $(BIN)/python -m pytest -m "soak or examples or hypothesis" -n 2 -o timeout=3600 tests

chaos: $(VENV)/.dev ## the whole system while everything fails [SEEDS=20 JOBS=1 MINUTES=60]
	@$(BIN)/postroom-chaos --seeds $(SEEDS) --jobs $(JOBS) --minutes $(MINUTES)

proof: $(VENV)/.dev ## 200 chaos seeds and every planted bug; writes docs/proof.md (takes hours)
	@scripts/proof --seeds 200 --jobs 3

dist: $(VENV)/.runtime ## a release: wheels, sdists and the hash-locked lists, in dist/
	@scripts/dist $(BIN)/python dist

sbom: ## dist/sbom.json (CycloneDX) and dist/licenses.txt
	@python=$$($(FIND_PYTHON)) && "$$python" scripts/sbom

docs: ## the documentation as a site in dist/docs, with every link checked
	@python=$$($(FIND_PYTHON)) && "$$python" scripts/docs

clean: ## remove the environment and everything made by these commands
	rm -rf $(VENV) .demo .chaos .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-emit-package mailsim
lock: $(VENV)/.dev ## compile the hash-locked requirements
	@$(INSTALL) uv
	$(LOCK) pyproject.toml --extra demo --group build -o requirements/runtime.txt
	$(LOCK) pyproject.toml $(addprefix --extra ,aws gcs llm mcp otel parquet) --group build -c requirements/runtime.txt -o requirements/extras.txt
	$(LOCK) pyproject.toml --all-extras --group build --group dev -c requirements/runtime.txt -c requirements/extras.txt -o requirements/dev.txt
	$(LOCK) --group sbom --group build -o requirements/sbom.txt
	$(LOCK) --group docs -o requirements/docs.txt
	@for list in tests/simulator/referees/locks/*.in; do $(LOCK) --no-annotate $$list -o $${list%.in}.txt || exit 1; done
	@for folder in tests/simulator/referees/locks/*/; do \
	  (cd $$folder && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund) || exit 1; done
	@for version in 3.11 3.12 3.13 3.14; do for list in runtime extras dev; do \
	  $(BIN)/uv pip install --quiet --dry-run --target build/lock --python-version $$version --only-binary :all: --no-deps --require-hashes \
	    -r requirements/$$list.txt || exit 1; done; done

chromium:
	@scripts/chromium

# Also missing where its interpreter was removed by an upgrade of the system; hence --clear.
$(BIN)/python:
	@python=$$($(FIND_PYTHON)) && echo "creating $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml mailsim/pyproject.toml | $(BIN)/python
	@echo "installing Postroom; the first time this takes a minute or two"
	@scripts/install $(BIN)/python requirements/runtime.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable . --editable ./mailsim
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml mailsim/pyproject.toml chaos/pyproject.toml | $(BIN)/python
	@echo "installing what the tests need"
	@scripts/install $(BIN)/python requirements/dev.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable . --editable ./mailsim --editable ./chaos
	@touch $@ $(VENV)/.runtime
