# Two commands do all the set-up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
DEMO := demo

.PHONY: demo test fuzz check lock sbom clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: .venv/installed
	mkdir -p $(DEMO)
	cd $(DEMO) && ../$(BIN)/fedaudit simulate --profile fed_pii
	cd $(DEMO) && ../$(BIN)/fedaudit audit runs/fed_pii --quick --out report || [ $$? -eq 1 ]

# In the order of the files: the slowest ones would come last where they are sorted by size.
test: .venv/installed check
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# About an hour and a half of one core; FUZZ_SEED=1 makes other cases.
fuzz: .venv/installed
	FUZZ_CASES=$${FUZZ_CASES:-100000} FUZZ_SEED=$${FUZZ_SEED:-0} $(BIN)/python -m pytest tests/fuzz

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What makes the next two has a folder of its own, so that it is no part of what it describes.
.tools/installed: Makefile
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet uv==0.13.9 cyclonedx-bom==7.5.0
	touch $@

# torch is left out: its builds for CPU and GPU have one version and different hashes.
lock: .tools/installed
	grep -v '^torch==' constraints.txt | .tools/bin/uv --no-config pip compile - --quiet \
		--no-deps --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --output-file requirements.lock

sbom: .venv/installed .tools/installed
	.tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-file sbom.cdx.json $(BIN)/python

clean:
	rm -rf .venv .tools sbom.cdx.json build *.egg-info $(DEMO)
