# All commands of this repository. Each installs what it needs inside the clone, from lock files; the second run starts
# immediately. `make` alone lists them.

# Directory for the jars of real Kafkas. Set it to share them between clones.
CHRONIK_CACHE ?= $(CURDIR)/.cache
# Processes of the simulator and the fuzzer.
JOBS ?= 2
# Test processes. Tests with several nodes spend most of their time waiting, so there is one more than cores.
TEST_JOBS ?= 3
# Inputs of `make fuzz` for all decoders together, and frames for the quorum port.
FUZZ_INPUTS ?= 1000000
FUZZ_FRAMES ?= 1000000
# Kills per `make kills`.
KILLS ?= 50
# Kills of drivers and workers per `make spark`.
SPARK_KILLS ?= 30
# Runs of each scenario per `make sim`, and the first seed.
SEEDS ?= 100
FIRST ?= 0
SCENARIOS ?= quorum metadata topics members records groups damage upkeep moves recreated swarm wire loss lasting transactions access
# More arguments for pytest, the demo or the benchmark: make quick ARGS="-k records -x"
ARGS ?=

KAFKA_VERSIONS := 4.3.1 3.9.1
# Spark's own Kafka source, for the version of Spark in the lock file.
SPARK_KAFKA_VERSION := 4.2.0
KAFKA_JARS := $(KAFKA_VERSIONS:%=$(CHRONIK_CACHE)/kafka-%)
SPARK_JARS := $(CHRONIK_CACHE)/spark-kafka-$(SPARK_KAFKA_VERSION)

# The type checker of the console's pages, of the version in requirements/web.lock.
TYPESCRIPT := $(CHRONIK_CACHE)/typescript-$(shell sed -n 's/^typescript==\([^ ]*\).*/\1/p' requirements/web.lock)

BENCHMARKS := $(wildcard benchmarks/*.py)

BIN := .venv/bin
# tests/distribution.py says which tests run in one process, and in which order.
PYTEST := $(BIN)/pytest -n $(TEST_JOBS) --dist loadgroup
PREPARE := sh tools/python tools/prepare_venv.py
REQUIRE := sh tools/require
FETCH_WEB := sh tools/python tools/fetch_web.py
# Without npm, lint fails in CI and says so elsewhere.
OPTIONAL := $(if $(CI),,--optional)

export CHRONIK_CACHE
# The user's own packages must not replace packages of the lock file.
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test spark quick lint fmt docs image bench compat clients fuzz hostile kills sim sim-night setup jars web browser lock clean venv libraries jdk

# A command whose subject does not exist yet says so and fails.
exists = @test -e $(1) || { echo "chronik: nothing to $@ yet: there is no $(1)" >&2; exit 1; }

help:  ## show this list
	@echo "Chronik. Needs Python 3.11+, and a JDK 17+ with Maven for the tests against real Kafka; everything else is installed."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: venv libraries  ## run the demo
	@$(BIN)/python tools/demo.py $(ARGS)

test: jdk lint $(if $(CI),browser) $(KAFKA_JARS) $(SPARK_JARS)  ## run everything that CI runs: lint and all tests except the long ones; about 18 minutes on 2 cores
	$(PYTEST) -m "not long" $(ARGS)

spark: jdk venv $(SPARK_JARS) $(KAFKA_JARS)  ## run all tests that need Spark, long ones included; SPARK_KILLS=30 sets how often drivers and workers are killed
	CHRONIK_SPARK_KILLS=$(SPARK_KILLS) $(PYTEST) -m spark $(ARGS)

quick: venv  ## run the fast tests, without JVM; under 60 seconds
	$(PYTEST) -m "not slow and not java" --hypothesis-profile quick $(ARGS)

lint: venv  ## check style, types and the imports between packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(FETCH_WEB) check $(TYPESCRIPT) $(OPTIONAL)

fmt: venv  ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: venv  ## generate the reference pages and build the documentation site into build/site; fails on broken links
	$(BIN)/python tools/reference_pages.py
	$(BIN)/zensical build --clean --strict --config-file zensical.toml

image: venv  ## build a container image without a daemon, in build/image.tar; needs umoci and skopeo
	$(BIN)/python tools/build_image.py $(ARGS)

bench: $(BENCHMARKS:benchmarks/%.py=bench-%)  ## run all benchmarks, print and store the results; bench-wire runs one

bench-broker bench-security bench-spark bench-transactions: jdk $(CHRONIK_CACHE)/kafka-4.3.1

bench-spark: $(SPARK_JARS)

bench-%: venv
	$(BIN)/python benchmarks/$*.py $(ARGS)

compat: venv jdk $(KAFKA_JARS)  ## compare Chronik with real Kafkas, and test it with other clients
	$(PYTEST) -m "java and not spark" $(ARGS)

clients: jdk venv $(KAFKA_JARS)  ## run all tests with clients of other projects, long ones included
	$(PYTEST) tests/clients $(ARGS)

fuzz: venv  ## feed a million mutated inputs to the decoders, and a million frames to the quorum port, to logins and behind them; FUZZ_INPUTS=1000 FUZZ_FRAMES=1000 for fewer
	$(BIN)/python -m tests.fuzz.run --inputs $(FUZZ_INPUTS) --jobs $(JOBS) $(ARGS)
	$(BIN)/python -m tests.fuzz.quorum_port --frames $(FUZZ_FRAMES) $(ARGS)
	$(BIN)/python -m tests.fuzz.logins --frames $(FUZZ_FRAMES) $(ARGS)
	$(BIN)/python -m tests.fuzz.client_port --frames $(FUZZ_FRAMES) $(ARGS)

hostile: venv  ## measure how long each request of a hostile client blocks the event loop, in ms of CPU
	$(BIN)/python -m tests.broker.hold_table $(ARGS)

kills: venv  ## kill, stop, restart and disconnect nodes under load, 50 times each; KILLS=500 for more
	CHRONIK_KILLS=$(KILLS) $(BIN)/pytest tests/broker/test_kills.py tests/cluster -m "not java" --timeout 7200 $(ARGS)

sim: venv  ## run clusters in virtual time under faults; SEEDS=1000 for more, FIRST=5000 for other seeds
	for scenario in $(SCENARIOS); do \
		$(BIN)/chronik sim --scenario $$scenario --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS) $(ARGS) || exit 1; \
	done

sim-night: venv  ## run thousands of seeds of every storage fault and scenario, for hours; continues after Ctrl-C when run again
	$(BIN)/chronik sim night $(ARGS)

setup: venv libraries  ## create .venv with all extras, and fetch the console's libraries

web:  ## fetch the console's libraries, which a wheel contains; needs npm
	@$(FETCH_WEB) libraries

browser: web  ## install Chromium, which the tests of the console's pages need; CI does
	@command -v chromium >/dev/null 2>&1 || sh tools/install_browser

jars: $(KAFKA_JARS) $(SPARK_JARS)  ## download the jars of Kafka and of Spark's Kafka source, which the tests compare with

lock:  ## update the lock files after a change of dependencies
	@$(REQUIRE) uv
	@sh tools/lock

clean:  ## remove everything that the other commands created, except downloaded jars
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@$(PREPARE) all

libraries:
	@$(FETCH_WEB) libraries --optional

jdk:
	@$(REQUIRE) jdk maven

# A folder that is there is complete, however old it is, so it has no prerequisites.
$(KAFKA_JARS) $(SPARK_JARS):
	@$(REQUIRE) jdk maven
	@sh tools/python tools/fetch_jars.py $(lastword $(subst -, ,$(notdir $@))) $@
