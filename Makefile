# Two commands do all the set-up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
DEMO := demo

.PHONY: demo test check clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: .venv/installed
	mkdir -p $(DEMO)
	cd $(DEMO) && ../$(BIN)/fedaudit simulate --profile fed_pii
	cd $(DEMO) && ../$(BIN)/fedaudit extract --prefixes runs/fed_pii/data/c0.jsonl \
		--victim runs/fed_pii/data/c1.jsonl --out report || [ $$? -eq 1 ]
	cd $(DEMO) && ../$(BIN)/fedaudit report report --format html

test: .venv/installed check
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info $(DEMO)
