# A newcomer needs no other command:
#   make run        the page on http://127.0.0.1:7860 (GRADIO_SERVER_PORT and GRADIO_SERVER_NAME are honoured)
#   make test       the whole suite, with what it needs; make test-fast leaves out the browser and what is slow
#   make lint fix   check the style; put right what can be put right by itself
#   make bench      measure the methods on the bundled pair
#   make examples   record the example races of the page again (on a quiet machine)
#   make install    only the virtual environment, for running and testing

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
# small matrices: more threads than one only wait for each other
TEST_ENV := OMP_NUM_THREADS=1 GRADIO_ANALYTICS_ENABLED=False HF_HUB_OFFLINE=1

.DEFAULT_GOAL := help
.PHONY: help install run test test-fast lint fix bench examples browser hooks clean

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The virtual environment could not be made; on Debian: apt-get install python3-venv"; exit 1; }

$(RUN_STAMP): requirements.txt | $(VENV)/pyvenv.cfg
	@echo "Installing what the project needs; the first time this takes some minutes ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV_STAMP): requirements-dev.txt $(RUN_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

install: $(DEV_STAMP)

run: $(RUN_STAMP)
	$(BIN)/python app.py

# CHROMIUM=/path/to/chromium names one that is not on the path
browser:
	@CHROMIUM="$(CHROMIUM)" sh tests/browser/ensure_chromium.sh

# The browser's tests run two at a time, and those that hold something to a time alone, after the others. Lines are counted in the core's tests
# only: counting in the browser's servers as well takes two and a half minutes more, and the core's reach their lines. (All in one go, one process
# more than there are cores, took no less on two cores, and every wait was longer.)
# pytest's exit status 5: ARGS name no test of that kind
test: $(DEV_STAMP) browser
	$(TEST_ENV) $(BIN)/python -m pytest -m "not browser and not clock" -n auto --maxprocesses 4 --dist worksteal --cov --cov-report=term --cov-report=xml $(if $(ARGS),--cov-fail-under=0) $(ARGS) || [ $$? -eq 5 ]
	$(TEST_ENV) $(BIN)/python -m pytest -m "browser and not clock" -n 2 --dist worksteal $(ARGS) || [ $$? -eq 5 ]
	$(TEST_ENV) $(BIN)/python -m pytest -m clock $(ARGS) || [ $$? -eq 5 ]

test-fast: $(DEV_STAMP)
	$(TEST_ENV) $(BIN)/python -m pytest -m "not slow and not browser and not gpu" $(ARGS)

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fix: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_STAMP)
	$(BIN)/python -m lvspec_core bench --sweep --docs . $(ARGS)

examples: $(RUN_STAMP)
	$(BIN)/python -m lvspec_core examples $(ARGS)

hooks: $(DEV_STAMP)
	$(BIN)/pre-commit install

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* coverage.xml htmlcov build dist *.egg-info artifacts
