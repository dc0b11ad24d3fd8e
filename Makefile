# make demo and make test do everything on a fresh machine with Python ≥ 3.11 and a C compiler
# (without a compiler the package installs too and computes with numpy).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(wildcard src/kernel/*)
PAPER := paper/pyproject.toml

PEERS := $(VENV)-peers
ARGS ?=
PYTEST := -m pytest -n auto --dist loadfile --durations=20
LIBRARIES := -c "import sysconfig; print(sysconfig.get_path('purelib'))"

.PHONY: demo studio test test-all lint bench docs notebooks tables wheel sanitize fuzz crash clean

$(VENV)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.developer: $(VENV)/.installed $(PAPER)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,docs]' --editable ./paper
	touch $@

$(VENV)/.docs: $(VENV)/.installed $(PAPER)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]' --editable ./paper
	touch $@

# packages that are compared with, on top of the others: some want older versions of these
$(PEERS)/.installed: $(VENV)/.developer
	$(PYTHON) -m venv --without-pip $(PEERS)
	echo "import site; site.addsitedir('$$($(BIN)/python $(LIBRARIES))')" \
	  > "$$($(PEERS)/bin/python $(LIBRARIES))/base.pth"
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'dejacue[peers]'
	touch $@

demo: $(VENV)/.installed ## find the states of an object in a video, write a report
	$(BIN)/dejacue demo --output out/demo

out/demo/finding.json: | $(VENV)/.installed # what was saved in the studio is not made anew
	$(BIN)/dejacue demo --output out/demo

studio: out/demo/finding.json ## the page on the demo scene
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[studio]'
	$(BIN)/dejacue studio out/demo --encoder mini

# threads that wait for each other cost more than small arrays and models gain by them
test test-all fuzz: export OMP_NUM_THREADS = 1
unexport PYTHONDONTWRITEBYTECODE  # every worker would compile the tests and their plug-ins anew

test: $(VENV)/.developer ## the tests; ARGS=--random-order shuffles them
	$(BIN)/python $(PYTEST) -m 'not long' $(ARGS)

test-all: $(VENV)/.developer $(PEERS)/.installed ## what make test leaves out
	$(BIN)/python $(PYTEST) -m 'long and not peers' $(ARGS)
	DEJACUE_REQUIRE_PEERS=1 $(PEERS)/bin/python $(PYTEST) -m peers $(ARGS)

lint: $(VENV)/.developer ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.developer ## ratios against plain numpy, in one run
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/tables.py

docs: $(VENV)/.docs ## the site, in out/site; opens from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(VENV)/.docs ## run docs/notebooks and store them with their outputs
	$(BIN)/python docs/run_notebooks.py

tables: $(VENV)/.developer ## pages and figures made by commands, and a check of the examples
	$(BIN)/dejacue demo --output out/demo
	$(BIN)/dejacue reproduce all --figures --out out/reproduce
	mkdir -p paper/docs/figures
	cp out/reproduce/reproduce.md paper/docs/reproduce.md
	cp out/reproduce/figures/*.png paper/docs/figures/
	$(BIN)/python -m pytest tests/test_docs.py

wheel: $(VENV)/.developer ## a wheel of this machine, and the sdist; the same of the paper
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist paper

sanitize: ## the kernel's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(PYTHON) -m venv .venv-sanitize
	.venv-sanitize/bin/pip install --quiet --disable-pip-version-check '.[dev]' ./paper
	rm -rf build
	DEJACUE_SANITIZE=1 DEJACUE_REQUIRE_KERNEL=1 .venv-sanitize/bin/pip install --quiet \
	  --disable-pip-version-check --no-cache-dir --force-reinstall --no-deps .
	rm -rf build
	nm -D .venv-sanitize/lib/python*/site-packages/dejacue/method/_kernel*.so | grep -q asan
	cd tests && LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 DEJACUE_FUZZ=1000 \
	  ../.venv-sanitize/bin/python -m pytest method/test_kernel.py \
	  method/test_scan.py method/test_contrast.py video/test_pixels.py \
	  masks/test_png.py

fuzz: $(VENV)/.developer ## thousands of altered files of every kind, odd requests, batches for the kernel
	DEJACUE_FUZZ=4000 $(BIN)/python $(PYTEST) tests/fuzz tests/method/test_kernel.py

crash: $(VENV)/.developer ## kill what writes at every file operation and run it again; full and read-only disks
	$(BIN)/python tests/test_crash.py
	$(BIN)/python tests/test_crash.py --disks 6

clean:
	rm -rf build dist out .venv-sanitize $(PEERS) src/*.egg-info paper/build paper/src/*.egg-info src/dejacue/method/*.so src/dejacue/video/*.so
