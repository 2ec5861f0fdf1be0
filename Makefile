# Two commands: `make run` shows what it is, `make test` proves it.
# `make test-all` also runs what takes long: groups of processes, kill -9, compilers.
# `make docs` writes the site to out/site, `make notebooks` runs the notebooks again,
# `make screenshots` takes the pictures of pages again.
# `make test-gpu-offline` proves of the GPU kernels what can be proven without one.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: run test test-all test-gpu-offline docs notebooks screenshots install clean

run: $(VENV)/.ready
	@$(BIN)/ascender demo --out out
	@$(BIN)/ascender lab run quick --out out/quick
	@$(BIN)/ascender lab report out/quick

test: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -n auto -m "not slow" $(PYTEST_ARGS)

test-all: install
	@$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

# The Triton kernels in Triton's interpreter and through its compiler, and some of the CUDA tests on
# a stand-in: nothing here needs a GPU.
test-gpu-offline: install
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[triton]"
	@$(BIN)/python -m pytest -n auto -m "not slow" tests/gpu tests/core/test_flash_cuda.py $(PYTEST_ARGS)
	@$(BIN)/python -m pytest -n auto -m "cuda and not slow" --stand-in-gpu tests/core/test_losses.py tests/core/test_flock_twins.py $(PYTEST_ARGS)

# One folder that opens from disk and from any server; links, anchors and API names are checked.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open out/site/index.html"

notebooks: $(VENV)/.docs
	@$(BIN)/python tools/notebooks.py

screenshots: install
	@$(BIN)/python tools/screenshots.py

install: $(VENV)/.installed

# pip reads its usual configuration (index, proxy, cache); nothing is overridden here.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -e

# What `make run` needs; torch is most of it.
$(VENV)/.ready: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (torch is about 200 MB the first time) ..."
	@$(PIP) ".[lab,view]"
	@touch $@

$(VENV)/.installed: $(VENV)/.ready
	@echo "installing what tests need ..."
	@$(PIP) ".[dev]"
	@touch $@

$(VENV)/.docs: $(VENV)/.ready
	@$(PIP) ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache
