# Two commands need nothing but Python 3.11+ and make: `make checkup` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ALL := $(VENV)/.all
DOCS := $(VENV)/.docs
CODE := src tests benchmarks examples tools
# One thread per process: results do not depend on the number of cores, and processes scale better than threads.
export OMP_NUM_THREADS ?= 1
# Hundreds of tests start processes of their own: without bytecode each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: checkup test quick quick-lint quick-tests suite test-all test-cpus lint bench papers lock locked licences docs dist clean

checkup: $(READY)
	$(BIN)/misdetect checkup --out checkup

# Side by side: a type check keeps one core busy.
test: $(READY)
	$(MAKE) --no-print-directory -j 2 lint suite

# What a change touches: within a minute.
quick: $(READY)
	$(MAKE) --no-print-directory -j 2 quick-lint quick-tests

quick-lint: $(READY)
	changed=$$($(BIN)/python tools/quick.py --changed); test -z "$$changed" || $(BIN)/ruff check $$changed && $(BIN)/ruff format --check $$changed
	$(BIN)/mypy

quick-tests: $(READY)
	$(BIN)/pytest -p quick -x $$($(BIN)/python tools/quick.py)

suite: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal

test-all: lint $(ALL)
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 2 --dist worksteal -m "heavy or not heavy"

# What goes through a network, with the kernels of other CPUs: older ones, and AVX-512's where this one has it, since torch
# does not check that the CPU has what ATEN_CPU_CAPABILITY names.
test-cpus: $(READY)
	for kernels in "default SSE41" "avx2 AVX2" "avx512 AVX512_CORE"; do set -- $$kernels; echo "== torch $$1, oneDNN $$2"; \
	  if [ $$1 = avx512 ] && ! grep -qw avx512vl /proc/cpuinfo; then echo "this CPU has none"; continue; fi; \
	  ATEN_CPU_CAPABILITY=$$1 ONEDNN_MAX_CPU_ISA=$$2 $(BIN)/pytest -n 2 --dist worksteal \
	  tests/detectors tests/engine tests/studies tests/training tests/metrics || exit 1; done

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks

# The five papers, claim by claim: runs what is missing (hours; ARGS=--quick: minutes) and writes docs/papers.md.
papers: $(READY)
	PYTHONPATH=tools $(BIN)/python -m papers $(ARGS)

# tidecv asks for a second OpenCV that would overwrite the headless one, so it comes without its dependencies.
$(READY): pyproject.toml constraints.txt Makefile
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'misdetect needs Python 3.11 or newer; try make PYTHON=python3.12')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt tidecv
	touch $(READY)

# What is large or slow to start (TensorFlow, Ray, an S3 server) is tested by `make test-all` only.
$(ALL): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev-all]'
	touch $(ALL)

# The same packages, each file checked against its hash. torch comes as the index offers it for this machine.
locked:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch torchvision
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

lock: $(READY)
	$(BIN)/python tools/lock.py

# The site, into site/. A dead link or anchor ends it.
docs: $(DOCS)
	$(BIN)/python tools/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Of its own, without torch and what else only tests need.
$(DOCS): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $(DOCS)

licences: $(READY)
	$(BIN)/python tools/licences.py > docs/licences.md

# Wheel and source archive, checked, and the wheel tried in an environment that has nothing else. See docs/releasing.md.
TRIED ?= demo
dist:
	rm -rf dist build/release build/clean
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check build twine
	build/release/bin/python -m build --outdir dist
	build/release/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/clean && env -u PYTHONPATH bin/misdetect $(TRIED) --out tried

clean:
	rm -rf $(VENV) build dist checkup site .pytest_cache .mypy_cache .ruff_cache
