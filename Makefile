# The README's two commands. Each sets itself up in .venv with the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml src/quadlens_checker/pyproject.toml constraints.txt

.PHONY: report test proved quick check format docs site bench dist clean

report: $(VENV)/.base
	$(BIN)/quadlens report -o out/report

test: $(VENV)/.test check
	tools/install-browser
	tools/install-coq
	$(BIN)/python -m pytest -n 3 --dist worksteal --cov --cov-report=term

# The proved checker (docs/trust.md): `quadlens check CERT MODEL --proved` runs it.
proved:
	tools/install-coq
	$(MAKE) -C proved

# The working day: format, lint, types and the tests that need no browser, no Ray, no training.
quick: $(VENV)/.test check
	$(BIN)/python -m pytest -n 2 --quick -q

check: $(VENV)/.test
	$(BIN)/ruff format --check src tests tools benchmarks experiments
	$(BIN)/ruff check src tests tools benchmarks experiments
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff format src tests tools benchmarks experiments
	$(BIN)/ruff check --fix src tests tools benchmarks experiments

bench: $(VENV)/.test
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/analysis.py
	$(BIN)/python benchmarks/certify.py

# The site, offline, with every tutorial executed; a warning is an error.
site: $(VENV)/.test
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs out/site

docs: $(VENV)/.test
	$(BIN)/python tools/refresh_docs.py

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "quadlens needs Python 3.11 or later; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(INPUTS) | $(BIN)/python
	$(PIP) -e src/quadlens_checker -e .
	touch $@

# torch first and pinned: a CPU build arrives where one is at hand, and nothing later asks for another.
$(VENV)/.test: $(INPUTS) | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) -e src/quadlens_checker -e '.[train,onnx,peers,cluster,docs,dev]'
	touch $@ $(VENV)/.base

# Both distributions, as wheels and source archives, and the checker as one file.
dist: $(VENV)/.test
	$(BIN)/python -m build --outdir dist src/quadlens_checker
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m quadlens_checker --write dist/quadlens-checker.pyz

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .coverage out proved/build
