# Every command of this repository. Each sets up what it needs inside the clone, from lock files, and starts at once the
# second time. `make` alone lists them.

# Where the jars of the real Kafkas are kept; point it at a folder of yours to share them between clones.
CHRONIK_CACHE ?= $(CURDIR)/.cache
# Test processes; the suites are written for two cores.
JOBS ?= 2
# Inputs of one `make fuzz`, shared among its tests, and frames for the quorum's port.
FUZZ_INPUTS ?= 1000000
FUZZ_FRAMES ?= 1000000
# Kills of one `make kills`.
KILLS ?= 50
# Kills of drivers and workers of one `make spark`.
SPARK_KILLS ?= 30
# Runs of one `make sim` of each scenario, and the first of their seeds.
SEEDS ?= 100
FIRST ?= 0
SCENARIOS ?= quorum metadata topics members records groups damage upkeep moves recreated swarm wire loss lasting
# More words for pytest, the demo or the benchmark: make quick ARGS="-k records -x"
ARGS ?=

KAFKA_VERSIONS := 4.3.1 3.9.1
# Spark's own Kafka source, for Spark as the lock has it.
SPARK_KAFKA_VERSION := 4.2.0
KAFKA_JARS := $(KAFKA_VERSIONS:%=$(CHRONIK_CACHE)/kafka-%)
SPARK_JARS := $(CHRONIK_CACHE)/spark-kafka-$(SPARK_KAFKA_VERSION)

BENCHMARKS := $(wildcard benchmarks/*.py)

BIN := .venv/bin
# One process for tests that share what is dear to start: a pair of real Kafkas.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadgroup
PREPARE := sh tools/python tools/prepare_venv.py
REQUIRE := sh tools/require

export CHRONIK_CACHE
# Packages of the user's own must neither satisfy nor break what the lock says.
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test spark quick lint fmt bench compat fuzz hostile kills sim sim-night setup jars lock clean venv jdk

# A command whose subject has not been written yet says so, and fails.
exists = @test -e $(1) || { echo "chronik: nothing to $@ yet: there is no $(1)" >&2; exit 1; }

help:  ## this list
	@echo "Chronik. Needs Python 3.11+, a JDK 17+ with Maven for the tests against real Kafka; the rest it sets up itself."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: venv  ## shows what works today
	@$(BIN)/python tools/demo.py $(ARGS)

test: jdk lint $(KAFKA_JARS) $(SPARK_JARS)  ## everything that CI runs: lint, types, layers, all tests but the long ones; about 13 minutes on 2 cores
	$(PYTEST) -m "not long" $(ARGS)

spark: jdk venv $(SPARK_JARS) $(KAFKA_JARS)  ## all tests with a real Spark, the long ones too; SPARK_KILLS=30 kills of drivers and workers
	CHRONIK_SPARK_KILLS=$(SPARK_KILLS) $(PYTEST) -m spark $(ARGS)

quick: venv  ## the tests to run all day: no JVM, nothing slow; under 60 seconds
	$(PYTEST) -m "not slow and not java" --hypothesis-profile quick $(ARGS)

lint: venv  ## style, types, and who may import whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fmt: venv  ## formats the code and mends what can be mended
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(BENCHMARKS:benchmarks/%.py=bench-%)  ## measures what benchmarks/ holds, prints and stores it; bench-wire for one

bench-broker bench-spark: jdk $(CHRONIK_CACHE)/kafka-4.3.1

bench-spark: $(SPARK_JARS)

bench-%: venv
	$(BIN)/python benchmarks/$*.py $(ARGS)

compat: venv jdk $(KAFKA_JARS)  ## compares us with real Kafkas and with other people's clients
	$(PYTEST) -m "java and not spark" $(ARGS)

fuzz: venv  ## feeds a million mutated inputs to the decoders, and a million frames to the quorum's port; FUZZ_INPUTS=1000 FUZZ_FRAMES=1000 for fewer
	$(BIN)/python -m tests.fuzz.run --inputs $(FUZZ_INPUTS) --jobs $(JOBS) $(ARGS)
	$(BIN)/python -m tests.fuzz.quorum_port --frames $(FUZZ_FRAMES) $(ARGS)

hostile: venv  ## how long each request of a hostile client holds a node's event loop, in milliseconds of CPU
	$(BIN)/python -m tests.broker.hold_table $(ARGS)

kills: venv  ## kills, hangs, restarts and cut cables under load, 50 times each; KILLS=500 for more
	CHRONIK_KILLS=$(KILLS) $(BIN)/pytest tests/broker/test_kills.py tests/cluster -m "not java" --timeout 7200 $(ARGS)

sim: venv  ## runs whole clusters in virtual time under faults; SEEDS=1000 for more, FIRST=5000 for others
	for scenario in $(SCENARIOS); do \
		$(BIN)/chronik sim --scenario $$scenario --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS) $(ARGS) || exit 1; \
	done

sim-night: venv  ## thousands of seeds of every storage fault and scenario, for hours; stops at Ctrl-C and continues when run again
	$(BIN)/chronik sim night $(ARGS)

setup:  ## makes .venv with broker, dev and spark extras
	@$(PREPARE) all

jars: $(KAFKA_JARS) $(SPARK_JARS)  ## fetches the jars of the real Kafkas, and of Spark's source for them, that we are compared with

lock:  ## writes the lock files anew after a change of dependencies
	@$(REQUIRE) uv
	@sh tools/lock

clean:  ## removes everything the other commands made, except fetched jars
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@$(PREPARE) all

jdk:
	@$(REQUIRE) jdk maven

# A folder that is there is complete, however old it is, so it has no prerequisites.
$(KAFKA_JARS) $(SPARK_JARS):
	@$(REQUIRE) jdk maven
	@sh tools/python tools/fetch_jars.py $(lastword $(subst -, ,$(notdir $@))) $@
