# Two commands for a newcomer: `make demo` and `make test`. Both set everything up in .venv first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup test lint types pytest demo bench bench-spark bench-cells bench-start bench-against fuzz fuzz-cql fuzz-policies fuzz-forms fuzz-errors fuzz-spark fuzz-late docs clean java chaos

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
# Processes for pytest, seconds for `make fuzz` and `make chaos`, and further arguments for `make bench`.
JOBS ?= 2
BUDGET ?= 600
PROGRAMS ?= 2000
STREAMS ?= 300
ARGS ?=
# The revision that `make bench-against` compares this tree with.
REV ?= HEAD
# Where the demo runs: spark or local.
RUNNER ?= spark

help: ## this list
	@echo "Panes: windows over streams. Commands:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with everything the other commands need

# The stamp is touched last, so an interrupted setup starts again, and a changed pyproject.toml installs again.
$(STAMP): pyproject.toml
	@found=""; \
	for python in $${PYTHON:-python3} python3.13 python3.12 python3.11 python3.10; do \
	  if command -v $$python >/dev/null && $$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; \
	  then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Panes needs Python 3.10 or newer, and none was found. On Debian or Ubuntu:" >&2; \
	  echo "  sudo apt-get install -y python3 python3-venv" >&2; exit 1; \
	fi; \
	if ! $$found -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$found has no venv module, which makes .venv. On Debian or Ubuntu:" >&2; \
	  echo "  sudo apt-get install -y python3-venv" >&2; exit 1; \
	fi; \
	[ -x $(BIN)/python ] || $$found -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(MAKE) --no-print-directory java
	@touch $@

# Spark runs on Java. Where it may not be installed, the rest works without, and pn.spark() says what is missing.
java:
	@if [ -n "$${JAVA_HOME:-}" ] || command -v java >/dev/null; then exit 0; fi; \
	as_root=""; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
	if command -v apt-get >/dev/null && { [ -z "$$as_root" ] || $$as_root true 2>/dev/null; }; then \
	  echo "Installing Java for Spark."; \
	  $$as_root apt-get update -qq >/dev/null || true; \
	  for package in openjdk-17-jre-headless openjdk-21-jre-headless; do \
	    if $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$package >/dev/null; then exit 0; fi; \
	  done; \
	fi; \
	echo "No Java was found, and it can't be installed from here. Spark needs it; on Debian or Ubuntu:" >&2; \
	echo "  sudo apt-get install -y openjdk-17-jre-headless" >&2

test: lint types pytest ## check style and types, then run the whole test suite

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

pytest: setup
	$(BIN)/python -m pytest -n $(JOBS)

demo: setup ## run the example job on Wikipedia edits, on Spark; RUNNER=local runs it in one process
	$(BIN)/python examples/$(if $(filter local,$(RUNNER)),wikipedia_edits,wikipedia_on_spark).py

bench: setup ## measure throughput against rival techniques; ARGS="--quick" for a short run
	$(BIN)/python -m bench $(ARGS)

bench-spark: setup ## measure Panes on Spark against Spark itself; ARGS="--quick" for a short run
	$(BIN)/python -m bench.spark $(ARGS)

bench-cells: setup ## is Panes' default on Spark ever slower than groupBy(window)? 24 cells, 40 minutes at most
	$(BIN)/python -m bench.spark.cells $(ARGS)

bench-start: setup ## from process start to the first results on Spark, Panes beside plain Spark; 10 minutes
	$(BIN)/python -m bench.spark.start $(ARGS)

bench-against: setup ## is this tree slower than git revision REV=HEAD? 25 minutes at most; ARGS="--only w1" for a part
	$(BIN)/python -m bench.against $(REV) $(ARGS)

fuzz: setup ## compare random programs with the naive oracle for BUDGET=600 seconds (SEED=n to repeat a run)
	$(BIN)/python -m tests.fuzz --budget $(BUDGET) $(if $(SEED),--seed $(SEED))

fuzz-cql: setup ## compare random CQL programs with their oracle for BUDGET=600 seconds (SEED=n to repeat a run)
	$(BIN)/python -m tests.cql_fuzz --budget $(BUDGET) $(if $(SEED),--seed $(SEED))

fuzz-policies: setup ## compare random policy windows with their flow as specified for BUDGET=600 seconds (SEED=n to repeat a run)
	$(BIN)/python -m tests.policy_fuzz --budget $(BUDGET) $(if $(SEED),--seed $(SEED))

fuzz-forms: setup ## compare windows in normal form with the same as written for BUDGET=600 seconds (SEED=n to repeat a run)
	$(BIN)/python -m tests.fuzz.forms --budget $(BUDGET) $(if $(SEED),--seed $(SEED))

fuzz-errors: setup ## raise errors at random lines of calls for BUDGET=600 seconds; nothing may have changed (SEED=n to repeat a run)
	$(BIN)/python -m tests.fuzz.errors --budget $(BUDGET) $(if $(SEED),--seed $(SEED))

fuzz-spark: setup ## compare PROGRAMS=2000 random programs on Spark with the embedded runner (SEED=n to repeat a run)
	$(BIN)/python -m tests.fuzz_spark --programs $(PROGRAMS) $(if $(SEED),--seed $(SEED))

fuzz-late: setup ## compare STREAMS=300 random streams with late rows with Spark's own windows (SEED=n to repeat a run)
	$(BIN)/python -m tests.spark_oracle --streams $(STREAMS) $(if $(SEED),--seed $(SEED))

chaos: setup ## kill a stream on Spark in mid-batch for BUDGET=600 seconds, compare what it wrote (KILLS=n, SEED=n)
	$(BIN)/python -m tests.chaos $(if $(KILLS),--kills $(KILLS),--budget $(BUDGET)) $(if $(SEED),--seed $(SEED))

docs: setup ## run the examples of README and docs and write their output into the pages
	$(BIN)/python -m tests.docs.pages

clean: ## remove .venv, caches and everything generated
	rm -rf $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
