# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# What a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
.PHONY: help setup check test test-matrix demo bench docs build clean
VENV := .venv
PYTHON := $(VENV)/bin/python

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\): .*##/\1\t/p' Makefile | expand -t 14

setup:  ## make .venv with everything for development, and install what tests need (system packages when root)
	@tools/setup dev

demo:  ## serve a simulated cluster and print its address; needs no Slurm, no root, no other service
	@tools/setup run
	@$(VENV)/bin/slurmscope demo

check: setup  ## ruff and mypy --strict
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

test: check  ## every test that can run here, a real Slurm among them; says what could not run and why
	@tools/test

test-matrix: setup  ## the tests against a real Slurm 22.05, 24.11 and 26.05
	SLURMSCOPE_LAB_GENERATIONS=$${SLURMSCOPE_LAB_GENERATIONS:-all} $(PYTHON) -m pytest -rs tests/lab

bench: setup  ## what a collection costs on a large controller, the ways in, and history, as ratios (root on Debian)
	$(PYTHON) bench/run.py
	$(PYTHON) bench/ways.py
	$(PYTHON) bench/store.py
	$(PYTHON) bench/agent.py
	$(PYTHON) bench/reports.py
	$(PYTHON) bench/asking.py
	$(PYTHON) bench/portal.py

docs: setup  ## write the parts of docs/ that are made from the tables in the code
	$(PYTHON) tools/docs.py
	$(PYTHON) -m tools.dashboard

build: setup  ## the wheel and the source archive, in dist/
	$(PYTHON) -m build --no-isolation

clean:  ## forget what was made here; the lab's cache is elsewhere and stays
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
