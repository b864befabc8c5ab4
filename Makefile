# FlintMQ's task runner. `make` alone prints what there is; the same verbs run in CI (.ci/run).
#
# Everything happens in the environment .venv, made on first use. Variables:
#   PYTHON=python3.12   the interpreter that .venv is made of (default: the first that is there and new enough)
#   ARGS="-k walk -x"   passed on by test, demo and bench
#   LINES="7 P9b"       which lines bench measures, by number or id
#   SECONDS=60          how long fuzz runs
#   SPARK=4.1           the version of Spark of test-spark (4.0, the oldest)
#   WORKERS=2           how many files of tests run at a time

VENV := .venv
BIN := $(VENV)/bin
SPARK ?= 4.0
OTHER_SPARK := .venv-spark-$(SPARK)
NEWEST := .venv-newest
OLDEST := .venv-oldest
SITE := .venv-site
PROTOC := .venv-protoc
KERNELS := $(wildcard $(foreach suffix,py pxd h,src/flintmq/kernels/*.$(suffix) src/flintmq/kernels/*/*.$(suffix)))
DOOR := $(shell find src/flintmq/spark/door/java -type f) src/flintmq/version.py tools/door_jar.py
SERVERS := build/object-servers
COPY_JARS := org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
ARGS ?=
SECONDS ?= 60
WORKERS ?= 2
# A worker that dies is not replaced: its file would be run again from the beginning, and may take the next one with it.
PARALLEL = -n $(WORKERS) --dist loadfile --max-worker-restart=0
# Python keeps the bytecode of what it compiled, also where a container says otherwise: without it each process compiles
# all tests anew, which took 24 s of processor time instead of 8, and each command of a test its part of the sources.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install compile demo test test-core test-lake test-live test-pure test-spark lake-writers test-newest test-oldest test-nogil check lint lint-labs format types imports bench crash power power-cuts syscalls torture torture-spark torture-cluster docs coverage fuzz hostile sanitize clean distclean debian mutants mutmut branches soak matrix damage crash-sim crash-sim-pairs dist site object-servers definitions

help: ## Print this list
	@echo "FlintMQ: Apache RocketMQ's message store in Python. Start with: make demo, make test"
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

install: $(VENV)/.compiled $(VENV)/.jar ## Make .venv with everything in it: extras, tools, Java for Spark, compiled kernels, Spark's jar

compile: $(VENV)/.compiled $(VENV)/.jar ## Compile the kernels that changed, and the source of Spark in the JVM (install does so too)

demo: install ## The whole story: orders, a stream into Delta, kill -9, the count, Spark, a report (under three minutes)
	$(BIN)/python -m examples.demo $(ARGS)

test: install ## Run the tests, WORKERS (2) files at a time; ARGS="tests/store -k recovery" for some of them
	$(if $(ARGS),,$(BIN)/python -m tests.harness.class_archive)
	$(BIN)/python -m pytest $(or $(ARGS),$(PARALLEL))

test-core test-lake test-live: install ## Run the tests of one quarter (ARCHITECTURE.md): of the core, the lake, or what is live
	$(BIN)/python -m tests.harness.class_archive
	$(BIN)/python -m pytest $(PARALLEL) --quarter $(@:test-%=%) $(ARGS)

object-servers: ## Build the servers that tests of object storage run (Go, npm, Maven) into build/object-servers
	GOBIN=$(CURDIR)/$(SERVERS)/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	GOBIN=$(CURDIR)/$(SERVERS)/bin go install github.com/fsouza/fake-gcs-server@v1.56.1
	npm install --silent --no-audit --no-fund --prefix $(SERVERS)/azurite azurite@3.35.0
	mvn -B -q -f tests/support/servers/pom.xml $(COPY_JARS) -DoutputDirectory=$(CURDIR)/$(SERVERS)/hadoop

test-pure: install ## Run the tests of format/ and kernels/ on uncompiled kernels
	FLINTMQ_PURE=1 FLINTMQ_TURN=all $(BIN)/python -m pytest $(PARALLEL) tests/format tests/kernels

test-spark: install ## Run the tests of spark/ on another PySpark: the oldest that is supported, or SPARK=4.1 (makes .venv-spark-4.1)
	test -x $(OTHER_SPARK)/bin/python || $(BIN)/python -m venv $(OTHER_SPARK)
	FLINTMQ_PURE=1 $(OTHER_SPARK)/bin/python -m pip install --quiet -e '.[all,dev]' 'pyspark==$(SPARK).*'
	$(OTHER_SPARK)/bin/python -m pytest $(or $(ARGS),tests/spark)

lake-writers: ## Get Delta's and Iceberg's own writers for a version of Spark (SPARK=4.1; Maven), which a test of tests/spark then runs
	mvn -B -q -f tests/support/lake_writers/pom.xml $(COPY_JARS) -Dspark=$(SPARK) -DincludeGroupIds=io.delta,io.unitycatalog,org.apache.iceberg -DoutputDirectory=$(CURDIR)/build/lake-writers/$(SPARK)

test-newest: install ## Run the tests of arrow/ and cli/ on the newest releases of everything (makes .venv-newest)
	test -x $(NEWEST)/bin/python || $(BIN)/python -m venv $(NEWEST)
	FLINTMQ_PURE=1 $(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e '.[all,dev]'
	$(NEWEST)/bin/python -m pip list | grep -iE '^(duckdb|polars|pyarrow|pyspark|pandas|deltalake) '
	$(NEWEST)/bin/python -m pytest tests/arrow tests/cli $(ARGS)

test-oldest: install ## Run the tests of readers, tables and object storage on the oldest releases that are supported, or on PINS='pyarrow==24.*'; Python 3.11 (makes .venv-oldest)
	test -x $(OLDEST)/bin/python || $(BIN)/python -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet -e '.[all,dev]'
	$(BIN)/python -m tools.oldest $(PINS) > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --upgrade -r $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pytest $(or $(ARGS),$(PARALLEL) tests/arrow tests/frames tests/lake tests/objects tests/cli)

test-nogil: ## Run the engine's tests on PYTHON, free-threaded: with pytest, pytest-timeout, pytest-xdist, hypothesis, cython, setuptools, pyarrow, lz4, obstore
	@test -n "$(PYTHON)" || { echo "name the interpreter: make test-nogil PYTHON=/path/to/python3.14t"; exit 1; }
	$(PYTHON) setup.py -q build_ext --inplace
	PYTHONPATH=src:. $(PYTHON) -m pytest $(or $(ARGS),$(PARALLEL) tests/storage tests/store tests/kernels tests/format)

check: lint types imports test test-pure ## Everything that must be green before a commit lands

mutants: install ## Put each known fault into a copy of the sources: do its tests fail? ARGS="3 17", ARGS="--changed main"
	$(BIN)/python -m labs.mutants $(ARGS)

mutmut: install ## Let mutmut change format, storage and recovery; goes on where it stopped; docs/internals/reliability.md (hours)
	$(BIN)/python -m labs.mutants.scores $(ARGS)
	$(BIN)/python -m labs.mutants.scores --write >/dev/null

branches: install ## Branches of format, storage and recovery that their own tests take; docs/internals/reliability.md
	$(BIN)/python -m labs.mutants.branches --write

lint: install ## Find mistakes and unformatted files, and calls in tests that do not fit (changes nothing)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy tests

lint-labs: install ## The same of labs/, whose programs are not looked at with every change
	$(BIN)/ruff check labs
	$(BIN)/ruff format --check labs
	$(BIN)/mypy labs

format: install ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install ## Check the types, strictly
	$(BIN)/mypy --strict src examples bench tools

imports: install ## Check that imports point one way (the layers in pyproject.toml)
	NO_COLOR=1 $(BIN)/lint-imports

bench: install ## Measure the ratios into bench/RESULTS.md; LINES="7 P9b" some, ARGS=--resume goes on, ARGS=--report only judges
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python bench/run.py $(if $(LINES),--only "$(LINES)") $(ARGS)

crash: install ## kill -9 a store CYCLES times (1000) and check it; goes on where it stopped; docs/internals/reliability.md
	$(BIN)/python -m labs.crash.loop --cycles $(or $(CYCLES),1000) --report docs/internals/reliability.md

power-cuts: install ## Cut the power of ext4 and XFS under a store CUTS (1000) times, as root; docs/internals/reliability.md
	$(BIN)/python -m labs.crash.cuts --cuts $(or $(CUTS),1000) --report docs/internals/reliability.md

syscalls: install ## Fail every system call of a store's life, with each error; goes on; docs/internals/reliability.md
	$(BIN)/python -m labs.failing_calls.syscalls --report docs/internals/reliability.md

torture: install ## All long forms in turn, ARGS="--seconds 28800" long; goes on where it stopped; docs/internals/reliability.md
	nice $(BIN)/python -m labs.torture --report docs/internals/reliability.md $(ARGS)

soak: install ## Puts, readers, retention, restarts and kills for MINUTES (30); docs/internals/reliability.md
	$(BIN)/python -m labs.soak.run --minutes $(or $(MINUTES),30) --report docs/internals/reliability.md

matrix: install ## Ask every command, job and reader about every kind of real store (an hour); docs/internals/reliability.md
	$(BIN)/python -m labs.matrix --report docs/internals/reliability.md
	$(BIN)/python -m labs.matrix --spark --report docs/internals/reliability.md

damage: install ## Flip every bit of records, lose pages, cut files to every length (half an hour); goes on
	$(BIN)/python -m labs.hostile.bits --report docs/internals/reliability.md
	$(BIN)/python -m labs.hostile.pages --report docs/internals/reliability.md

power: install ## Pull the plug of a store before its syncs, SEEDS (20) times 24 lives, on a disk that forgets
	$(BIN)/python -m labs.crash.power --seeds $(or $(SEEDS),20)

crash-sim: install ## Up to STATES (2000000) power cuts on a simulated disk, JOBS (1) at a time; goes on; docs/internals/reliability.md
	$(BIN)/python -m labs.sim.crash --states $(or $(STATES),2000000) --jobs $(or $(JOBS),1) --state-file labs/torture/state/crash-sim.json --report docs/internals/reliability.md

crash-sim-pairs: install ## The same of a master and its follower, up to STATES (200000); goes on; docs/internals/reliability.md
	$(BIN)/python -m labs.sim.crash --pairs --states $(or $(STATES),200000) --jobs $(or $(JOBS),1) --state-file labs/torture/state/crash-sim-pairs.json --report docs/internals/reliability.md

torture-spark: install ## Kill a streaming export's tasks, driver and writer KILLS (300) times; docs/internals/reliability.md
	$(BIN)/python -m labs.torture_spark.loop --kills $(or $(KILLS),300) --report docs/internals/reliability.md

torture-cluster: install ## The same of three live stores in one table, with brokers that leave and retention
	$(BIN)/python -m labs.torture_spark.cluster --kills $(or $(KILLS),300) --report docs/internals/reliability.md

dist: install ## Build sdist, wheel, pure wheel, flintmq.pyz and man pages into dist/, and try each in an empty environment
	.ci/dist $(BIN)/python

docs: install ## Write the generated pages of docs/ again
	$(BIN)/python -m tools.docs.format --write
	$(BIN)/python -m tools.docs.cli --write
	$(BIN)/python -m tools.docs.config --write
	$(BIN)/python -m tools.docs.verify --write
	$(BIN)/python -m tools.docs.columns --write
	$(BIN)/python -m tests.harness.pages --write

# That release of protoc is the last one whose classes work with every protobuf; from the next one on they refuse older ones.
definitions: install ## Write the classes of gRPC's messages again, after a change of definitions.proto (makes .venv-protoc)
	test -x $(PROTOC)/bin/python || $(BIN)/python -m venv $(PROTOC)
	$(PROTOC)/bin/python -m pip install --quiet grpcio-tools==1.62.3 'setuptools<80'
	cd src && ../$(PROTOC)/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. flintmq/broker/grpc/definitions.proto

site: $(SITE)/.installed ## Build the documentation site, strictly, into build/site (makes .venv-site)
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict
	@echo "build/site/index.html is the first page"

coverage: install ## Run the tests and tell which lines they miss
	$(BIN)/python -m pytest --cov=flintmq --cov-report=term-missing:skip-covered $(ARGS)

fuzz: install ## Fuzz every parser for SECONDS=60; a find is kept, with the command that replays it
	$(BIN)/python -m labs.fuzz $(SECONDS) $(ARGS)

hostile: install ## Try every command on every kind of damage, and larger bombs (ten minutes)
	FLINTMQ_HOSTILE=all FLINTMQ_LIVE_SECONDS=20 $(BIN)/python -m pytest tests/robustness/hostile $(ARGS)

# A copy of the sources, so that the kernels in use stay as they are.
sanitize: install ## Run kernels built with gcc's address and undefined-behaviour sanitizers (five minutes)
	rm -rf build/sanitize && mkdir -p build/sanitize && cp -r src setup.py pyproject.toml README.md LICENSE build/sanitize
	find build/sanitize/src/flintmq/kernels -name '*.so' -delete
	cd build/sanitize && FLINTMQ_MUST_COMPILE=1 CFLAGS="-fsanitize=address,undefined -fno-sanitize=alignment -g -O1" \
	  $(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" PYTHONPATH=build/sanitize/src:. \
	  ASAN_OPTIONS=detect_leaks=0,handle_segv=0 UBSAN_OPTIONS=halt_on_error=1 $(BIN)/python -m labs.hostile.guard all 1 20000

clean: ## Remove builds, compiled kernels and caches; .venv stays
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis htmlcov .coverage
	find src/flintmq/kernels -name '*.so' -delete
	rm -f $(VENV)/.compiled $(VENV)/.jar src/flintmq/spark/door/*.jar
	find src tests labs bench examples tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv too
	rm -rf $(VENV) .venv-spark-* $(NEWEST) $(OLDEST) $(SITE)

debian: ## On Debian or Ubuntu, as root: install a compiler and what a few tests use
	@if ! command -v apt-get >/dev/null; then echo "make debian: no apt-get here; nothing done"; \
	elif [ "$$(id -u)" != 0 ]; then echo "make debian: needs root; nothing done (try: sudo make debian)"; \
	else apt-get update -q && apt-get install -q -y gcc libc6-dev python3-dev python3-venv strace e2fsprogs xfsprogs fio chromium fonts-dejavu-core; fi

# The environment. An interpreter counts only if it runs, is 3.11 or newer and can make environments: a version manager's
# shim may be there for a version that is not installed, and Debian's python3 may lack venv.
$(BIN)/python $(SITE)/bin/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(@:/bin/python=) with $$("$$python" --version) ($$python)"; exec "$$python" -m venv $(@:/bin/python=); fi; \
	  [ -z "$(PYTHON)" ] || { echo "PYTHON=$(PYTHON) does not run, is older than 3.11, or lacks the venv module"; exit 1; }; \
	done; \
	echo "No Python 3.11 or newer with the venv module found. Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1

# The kernels are compiled by the next rule, in place; compiling them here too would take twice the time.
$(VENV)/.installed: pyproject.toml setup.py | $(BIN)/python
	@echo "Installing FlintMQ and what it uses into $(VENV); the first time this brings some 900 MB (Spark, Java, Arrow)"
	@FLINTMQ_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@touch $@

$(SITE)/.installed: pyproject.toml | $(SITE)/bin/python
	@FLINTMQ_PURE=1 $(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[site]'
	@touch $@

# A kernel that does not compile costs speed, not the installation: setup.py says so in one line.
$(VENV)/.compiled: $(VENV)/.installed $(KERNELS)
	@echo "Compiling the kernels"
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# So does a jar: the source in Python is used then.
$(VENV)/.jar: $(VENV)/.installed $(DOOR)
	@echo "Compiling the source of Spark in the JVM"
	@$(BIN)/python tools/door_jar.py
	@touch $@
