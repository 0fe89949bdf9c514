# `make` lists the targets. Settings are environment variables, for example: PORT=8001 make run

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
READY_DEV := .venv/.ready-dev
# The locks name everything: pip would find newer releases of what a package needs with an extra, and no hash of them.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input install --no-deps --require-hashes --only-binary :all:
LOCKS := requirements.lock requirements-model.lock requirements-extras.lock requirements-dev.lock
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-config \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
UP_TO ?= 300000
CORES ?= 2
BENCHMARK_DATA = $(if $(DATA),--data locomo=$(DATA) samples=tests/retrieval)
PYTEST := $(BIN)/pytest --numprocesses $(CORES) --dist loadfile --no-loadscope-reorder
CHOSEN := not release and not agents
SCRATCH := env -u DATABASE_URL -u DATABASE_URL_FILE CONVMEMORY_VAR=$(CURDIR)/var/bench

# An update of the system can take the Python away that .venv was made from, or replace it: then all is installed again.
ifneq ($(wildcard $(READY)),)
ifneq ($(shell $(BIN)/python -c 'import django' >/dev/null 2>&1 && echo works),works)
$(shell rm -f $(READY) $(READY_DEV))
endif
endif

export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help run test test-essential test-rest test-all test-quick trials rolling-restart release-check release isolation agents lint fmt lock audit extras bench scoreboard pages messages settings commands formats plugins setup clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## Start everything: database, web server, worker. Ctrl-C stops it. PORT sets the port
	@SAMPLES=$${SAMPLES-1} exec $(BIN)/python manage.py up

test: $(READY_DEV) ## Check style, prose, types and layers, and run the tests but for most with processes or a browser
	@$(MAKE) --no-print-directory --jobs 2 test-essential lint

test-essential:
	ISOLATION_CASES=120 $(PYTEST) -m "$(CHOSEN) and (essential or not (slow or browser))"

test-rest: $(READY_DEV) ## Run the tests that `make test` leaves out, and those of random values with more of them
	$(PYTEST) --hypothesis-profile many -m "$(CHOSEN) and (hypothesis or (slow or browser) and not essential)"

test-all: test test-rest ## Run both

test-quick: $(READY_DEV) ## Run the tests of units, contracts and architecture that need no database
	$(PYTEST) -m "$(CHOSEN) and not slow and not django_db" tests/unit tests/contracts tests/architecture

trials: $(READY_DEV) ## Run the slow forms of tests: growth up to 100,000 characters, every foreign value
	LINEAR_CHARS=100000 EVERY_FOREIGN_VALUE=1 $(BIN)/pytest --hypothesis-profile trials tests/unit/linear \
	  tests/contracts/test_importers.py tests/unit/importers/test_robustness.py
	ANONYMOUS_REQUESTS=1000 $(BIN)/pytest tests/surfaces/test_anonymous_rows.py

rolling-restart: $(READY_DEV) ## Restart two web processes under load: no request may fail. CADDY=/usr/bin/caddy puts it in front
	$(BIN)/python -m tests.trials.rolling_restart $(if $(CADDY),--caddy $(CADDY))

release-check: $(READY_DEV) ## Check a release: complete translations, all window widths, isolation, trials
	EVERY_WIDTH=1 $(BIN)/pytest -m "browser or release"
	@$(MAKE) --no-print-directory isolation trials

release: $(READY_DEV) ## Make the release that heads CHANGELOG.md: version, packages in dist/, commit, tag; no push
	@$(BIN)/python .ci/release.py

agents: $(READY_DEV) ## Run the agents of other vendors, from npm, against the product. NEWEST=1 takes their newest versions
	@NEWEST=$(NEWEST) $(BIN)/pytest -q -rs -m agents tests/agents

isolation: $(READY_DEV) ## Send 10,000 random requests: none may return another owner's data
	ISOLATION_CASES=10000 $(BIN)/pytest tests/surfaces/test_isolation.py -o faulthandler_timeout=0

lint: $(READY_DEV) ## Check style, prose, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/prose.py
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY_DEV) ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(READY_DEV) ## Renew the locks: the newest packages that the requirements allow, each with its hashes
	$(LOCK) requirements.txt -o requirements.lock
	$(LOCK) --no-deps requirements-model.txt -o requirements-model.lock
	$(LOCK) --constraints requirements.lock requirements-extras.txt -o requirements-extras.lock
	$(LOCK) --constraints requirements.lock --constraints requirements-extras.lock requirements-dev.txt -o requirements-dev.lock

audit: $(READY_DEV) ## Fail if a locked package has a known vulnerability
	@$(BIN)/python .ci/audit.py $(LOCKS) $(if $(IGNORE),-- $(addprefix --ignore-vuln ,$(IGNORE)))

extras: $(READY) ## Install the optional packages: backups to s3://, Sentry, OpenTelemetry
	@$(PIP) -r requirements-extras.lock

bench: setup ## Measure speeds on a scratch database
	@rm -rf var/bench
	@$(SCRATCH) $(BIN)/python manage.py migrate --verbosity 0
	@$(SCRATCH) $(BIN)/python manage.py bench

scoreboard: setup ## Compare with other systems and write docs/benchmarks.md. DATA=locomo10.json for LoCoMo
	@$(BIN)/python -m benchmarks scoreboard $(BENCHMARK_DATA)
	@$(BIN)/python -m benchmarks ablation --each-feature $(BENCHMARK_DATA)
	@$(if $(DATA),$(BIN)/python -m benchmarks protocols --data locomo=$(DATA))
	@$(BIN)/python -m benchmarks sizes --up-to $(UP_TO)
	@$(BIN)/python -m benchmarks page

pages: $(READY_DEV) ## Take the screenshots of docs/pages.md, from the samples on a scratch database, in Chromium
	$(BIN)/python -m tests.pictures

messages: $(READY_DEV) ## Update the translation catalogues; needs GNU gettext
	$(BIN)/python manage.py makemessages --all --no-location --no-wrap --no-obsolete $(addprefix --ignore=,var tests .venv templates/admin)
	@for po in locale/*/LC_MESSAGES/django.po; do \
	  msgcat --sort-output --no-wrap --no-location $$po | sed '/^"\(POT-Creation-Date\|Report-Msgid-Bugs-To\)/d' > $$po.sorted && mv $$po.sorted $$po; done
	$(BIN)/python manage.py compilemessages --ignore=.venv

settings: $(READY_DEV) ## Write the table of docs/settings.md from the declarations in convmemory/core/config.py
	$(BIN)/python -m convmemory.core.config docs/settings.md

commands: $(READY_DEV) ## Write the usages of docs/commands.md from the declarations of the commands
	DJANGO_SETTINGS_MODULE=convmemory.settings $(BIN)/python -m tests.support.commands docs/commands.md

formats: $(READY_DEV) ## Write docs/formats.md and the table of README.md from the formats that importers read
	DJANGO_SETTINGS_MODULE=convmemory.settings $(BIN)/python -m convmemory.conversations.importers.registry docs/formats.md README.md

plugins: $(READY_DEV) ## Write the plug-ins for agents' marketplaces from the table of agents
	$(BIN)/python -m convmemory.push.plugins deploy/plugins

setup: $(READY) ## Create .venv and install the packages that running needs

clean: ## Remove everything that can be created again; your data in var/ stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis var/test var/bench
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock requirements-model.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "convmemory needs Python 3.11 or newer; '$(PYTHON)' is not. Name another: make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import platform as p, sys; \
	  sys.exit((sys.platform, p.machine()) == ("darwin", "x86_64") or sys.platform == "linux" and p.libc_ver()[0] != "glibc")' || { \
	  echo "Packages that convmemory needs (onnxruntime, PostgreSQL) do not exist for Macs with Intel processors and for" >&2; \
	  echo "Linux without glibc (Alpine). Use the container image (docs/deployment.md) or another machine." >&2; \
	  exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv || { \
	  rm -rf .venv; \
	  echo "The virtual environment could not be made. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; }
	@echo "Installing packages into .venv ..."
	@$(PIP) -r requirements.lock
	@$(PIP) -r requirements-model.lock
	@touch $@

$(READY_DEV): $(READY) requirements-dev.lock
	@echo "Installing the tools for tests ..."
	@$(PIP) -r requirements-dev.lock
	@touch $@
