# make demo [FROM=folder]   ingest, run and check everything once on Spark, and print the results; RUNNER=local needs no Java
# make ui [PORT=3000]       serve Dagster's pages on 127.0.0.1
# make test                 check format, lint, types and layers, then run the tests in WORKERS=3 processes
# make browser-tests        run all browser tests; make test opens each kind of page once
# make slow-tests           run slower variants of tests on Spark and of whole systems; make test has one of each kind
# make chaos [TRIES=10]     inject faults of all kinds, and count faults, lost rows and duplicates (0)
# make examples             run property-based tests with all examples; make test runs 5 % of them
# make cluster-tests        run cluster tests, and the other Spark tests on two workers (ONLY=folder; HOMES=bucket: in a bucket)
# make release-check [OLDEST=1]  build the sdist and the wheel, and run README's lines from it in an empty environment; OLDEST=1: tests with the oldest versions
# make image-in-a-root      run the steps of deploy/Dockerfile, and the image's commands, in a clean root of Debian; as root, by debootstrap
# make dagster-versions     add Keyfold to a guest's code location with the oldest and the newest supported Dagster
# make docs                 regenerate the tables of the pages from the code, and build the site in site/
# make screenshots          run the demo, and take the pictures of Dagster's pages in docs/images
# make bench                run the benchmarks behind the figures in docs/
# make nexmark              Nexmark beside Flink and stock Spark (QUERIES=3,11, EVENTS="500000 2000000", ENGINES=keyfold, MORE=--disorder)
# make clean                remove caches and .venv; make reset removes the data in .keyfold

export PORT ?= 3000
# Where `make demo` works: spark, local (in one process, without Java) or auto.
RUNNER ?= spark
# Three workers on two cores, since tests wait a lot: 11 minutes.
WORKERS ?= 3
# `make test` ends all running tests and fails after this many seconds.
SECONDS_TO_TEST ?= 3600
export KEYFOLD_HOME ?= $(CURDIR)/.keyfold
export DAGSTER_HOME ?= $(CURDIR)/.keyfold/dagster
export DAGSTER_DISABLE_TELEMETRY ?= yes
# Use the Pyright in its wheel: do not look for a newer one on the network or for the machine's Node.js.
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
export PYRIGHT_PYTHON_GLOBAL_NODE = 0
# With it, each process would compile the 500 modules that it imports, in 0.2 to 0.3 s.
unexport PYTHONDONTWRITEBYTECODE
unexport PYRIGHT_PYTHON_FORCE_VERSION PYRIGHT_PYTHON_PYLANCE_VERSION

.DEFAULT_GOAL := help
.PHONY: help setup demo ui test browser-for-tests kafka-for-tests nginx-for-tests postgres-for-tests azurite-for-tests fake-gcs-for-tests chaos examples browser-tests slow-tests cluster-tests dagster-versions image-in-a-root lint release-check docs screenshots bench nexmark clean reset

help:
	@sed -n 's/^# make/make/p' Makefile

setup:
	@scripts/setup

demo: export KEYFOLD_RUNNER = $(RUNNER)
demo: setup
	.venv/bin/python -m dagster_project.demo.run $(if $(FROM),--from "$(FROM)")

ui: setup
	.venv/bin/python -m keyfold.dagster.serving

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/pyright
	.venv/bin/lint-imports

# In parallel: type checks keep one core busy, and the others wait for the network. With output-sync, outputs do not mix.
test: setup
	@$(MAKE) --no-print-directory -j4 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) lint browser-for-tests kafka-for-tests nginx-for-tests azurite-for-tests
	.venv/bin/python tests/bounded.py $(SECONDS_TO_TEST) .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

browser-for-tests:
	@scripts/browser

kafka-for-tests: setup
	@.venv/bin/python -m tests.kafka_broker

nginx-for-tests: setup
	@scripts/nginx >/dev/null

postgres-for-tests: setup
	@scripts/postgres >/dev/null

azurite-for-tests: setup
	@scripts/azurite >/dev/null

fake-gcs-for-tests: setup
	@scripts/fake-gcs >/dev/null

chaos: export TRIES ?= 10
chaos: setup kafka-for-tests
	.venv/bin/python -m pytest -n $(WORKERS) -o faulthandler_timeout=4000 -m "chaos or faults"

examples: export EXAMPLES = all
examples: setup
	.venv/bin/python -m pytest -n $(WORKERS) -m examples

browser-tests: setup browser-for-tests
	.venv/bin/python -m pytest -m browser

slow-tests: setup postgres-for-tests azurite-for-tests fake-gcs-for-tests
	.venv/bin/python -m pytest -n $(WORKERS) -m slow

cluster-tests: setup kafka-for-tests
	$(if $(ONLY),,.venv/bin/python -m pytest -m cluster)
	.venv/bin/python -m pytest --cluster $(if $(filter bucket,$(HOMES)),--bucket) $(ONLY)

release-check: setup
	@scripts/release-check $(if $(OLDEST),oldest)

dagster-versions: setup
	@scripts/dagster_versions

image-in-a-root:
	@scripts/image_in_a_root.py

docs: setup
	.venv/bin/python scripts/docs_architecture.py
	.venv/bin/python scripts/docs_columns.py
	.venv/bin/python scripts/docs_commands.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

screenshots: setup
	.venv/bin/python -m tests.browser.screenshots

bench: setup
	.venv/bin/python -m benchmarks.jobs_on_spark
	.venv/bin/python -m benchmarks.ingest
	.venv/bin/python -m benchmarks.small_runs --runs 200

# Takes less than ten minutes on two idle cores. The first run installs Flink from PyPI into its own environment.
nexmark: setup
	.venv/bin/python -m benchmarks.nexmark $(if $(QUERIES),--queries $(QUERIES)) $(if $(EVENTS),--events $(EVENTS)) $(if $(ENGINES),--engines $(ENGINES)) $(MORE)

clean:
	rm -rf .venv .venv-dagster .venv-flink site .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

reset:
	rm -rf .keyfold
