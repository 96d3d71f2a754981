# make demo [FROM=folder]   load, run and check everything once, then say what came out
# make faults               plant bad data: checks turn red, assets are held back, alerts go out
# make ui [PORT=3000]       Dagster's pages on 127.0.0.1, with a warm Spark (WARM=no without); results of checks at PORT + 1
# make test                 format, lint, types, layers, then every test, in WORKERS=3 processes
# make browser-tests        all tests in a browser; make test opens each kind of page once
# make slow-tests           slower variants of tests on Spark, and more that start everything; make test has one of each kind
# make chaos [TRIES=10]     faults of every kind, each counted: how many came, and what was lost or doubled (0)
# make examples             the tests that make their examples up, with all of them: make test tries a quarter
# make cluster-tests        tests of clusters, and those that share a Spark session on a master and two workers (ONLY=folder; HOMES=bucket: homes in one)
# make docs                 the pages' tables anew from the code, then the pages as a site, in site/
# make bench                the benchmarks behind the figures in docs/
# make nexmark              Nexmark beside Flink and stock Spark (QUERIES=all, EVENTS="500000 2000000", ENGINES=keyfold, MORE=--disorder)
# make clean                remove caches and .venv; make reset removes the data in .keyfold

export PORT ?= 3000
export WARM ?= yes
# Three on two cores: much of a test is waiting. 20 minutes, and 28 with two.
WORKERS ?= 3
# After so many seconds `make test` ends all tests that still run, and fails.
SECONDS_TO_TEST ?= 3600
export KEYFOLD_HOME ?= $(CURDIR)/.keyfold
export DAGSTER_HOME ?= $(CURDIR)/.keyfold/dagster
export DAGSTER_DISABLE_TELEMETRY ?= yes
# Pyright is in its wheel: it neither asks the network for a newer one nor needs a Node.js of the machine's.
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
export PYRIGHT_PYTHON_GLOBAL_NODE = 0
unexport PYRIGHT_PYTHON_FORCE_VERSION PYRIGHT_PYTHON_PYLANCE_VERSION

.DEFAULT_GOAL := help
.PHONY: help setup demo faults ui test browser-for-tests kafka-for-tests chaos examples browser-tests slow-tests cluster-tests lint docs bench nexmark clean reset

help:
	@sed -n 's/^# make/make/p' Makefile

setup:
	@scripts/setup

demo: setup
	.venv/bin/python -m dagster_project.demo.run $(if $(FROM),--from "$(FROM)")

faults: setup
	.venv/bin/python -m dagster_project.demo.faults

ui: setup
	@scripts/ui

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/pyright
	.venv/bin/lint-imports

# Side by side: types keep one core busy, and the others wait for the network. Each tells when it is done, where make can.
test: setup
	@$(MAKE) --no-print-directory -j4 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) lint browser-for-tests kafka-for-tests
	.venv/bin/python tests/bounded.py $(SECONDS_TO_TEST) .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

browser-for-tests:
	@scripts/browser

kafka-for-tests: setup
	@.venv/bin/python -m tests.kafka_broker

chaos: export TRIES ?= 10
chaos: setup kafka-for-tests
	.venv/bin/python -m pytest -n $(WORKERS) -o faulthandler_timeout=4000 -m "chaos or faults"

examples: export EXAMPLES = all
examples: setup
	.venv/bin/python -m pytest -n $(WORKERS) -m examples

browser-tests: setup browser-for-tests
	.venv/bin/python -m pytest -m browser

slow-tests: setup
	.venv/bin/python -m pytest -n $(WORKERS) -m slow

cluster-tests: setup kafka-for-tests
	$(if $(ONLY),,.venv/bin/python -m pytest -m cluster)
	.venv/bin/python -m pytest --cluster $(if $(filter bucket,$(HOMES)),--bucket) $(ONLY)

docs: setup
	.venv/bin/python scripts/docs_columns.py
	.venv/bin/python scripts/docs_commands.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

bench: setup
	.venv/bin/python -m benchmarks $(ARGS)
	.venv/bin/python -m benchmarks.jobs
	.venv/bin/python -m benchmarks.jobs.on_spark
	.venv/bin/python -m benchmarks.ingest
	.venv/bin/python -m benchmarks.small_runs --runs 200

# Less than ten minutes on two quiet cores; Flink comes from PyPI at the first time, into an environment of its own.
nexmark: setup
	.venv/bin/python -m benchmarks.nexmark $(if $(QUERIES),--queries $(QUERIES)) $(if $(EVENTS),--events $(EVENTS)) $(if $(ENGINES),--engines $(ENGINES)) $(MORE)

clean:
	rm -rf .venv .venv-flink site .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

reset:
	rm -rf .keyfold
