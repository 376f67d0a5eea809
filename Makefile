# Two commands matter: `make reproduce` (the main job) and `make test`. `make docs` builds the site, `make dist` what is
# published. Each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
JOBS ?= 2
# where Python may not keep what it has compiled, each of the tests' processes compiles torch and JAX again
unexport PYTHONDONTWRITEBYTECODE
# Python compiles what is imported anyway; to compile all of it first takes longer than the paper. Dependency groups need
# a newer pip than the one that comes with older versions of Python.
INSTALL = $(PYTHON) -m venv $(VENV) && $(BIN)/pip install --quiet 'pip>=25.1' && \
  PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --no-compile --editable

# XLA compiles twice as fast without these emitters; `make test-all` has them, as users do. It aborts at flags that it
# does not know, so this belongs to the pinned version.
XLA := --xla_force_host_platform_device_count=3 --xla_cpu_use_fusion_emitters=false
QUICK = OPENBLAS_NUM_THREADS=1 $(if $(STEEPEN_TEST_ALL),,XLA_FLAGS='$(XLA)')  # the processes share the cores
PYTEST = $(QUICK) $(BIN)/python -m pytest
PARTS := torch jax paper core

.PHONY: reproduce test test-ci test-all test-rounding lint types mutants browser docs dist bench campaign clean $(PARTS:%=unit-%)

reproduce: $(VENV)/.paper
	@echo "== The paper again, into $(OUT): one to three minutes"
	@$(BIN)/steepen reproduce --out $(OUT)

# what a person waits for: five minutes on two cores
test: $(VENV)/.ready
	@$(MAKE) --no-print-directory --jobs $(JOBS) --output-sync=target --keep-going $(PARTS:%=unit-%) types lint
	@echo "== All passed"

# what CI adds to it: what is slow
test-ci: $(VENV)/.ready browser
	@STEEPEN_TEST_ALL=1 $(MAKE) --no-print-directory --jobs $(JOBS) --output-sync=target --keep-going \
	  $(PARTS:%=unit-%) CHOSEN='-m slow'
	@echo "== All passed"

# everything: whole products of options, whole campaigns, what is slow, faults planted by a tool
test-all: $(VENV)/.ready browser
	@STEEPEN_TEST_ALL=1 $(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory mutants

lint: $(VENV)/.ready
	@echo "== Lint and format: ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.ready
	@echo "== Types: pyright, strict"
	@$(BIN)/pyright

# one process a part: torch and JAX are imported once (conftest.py)
$(PARTS:%=unit-%): unit-%: $(VENV)/.ready
	@echo "== Tests and examples: $*"
	@$(PYTEST) --part $* $(CHOSEN) -o cache_dir=.pytest_cache/$* || [ $$? = 5 ]  # 5: none was chosen

# faults planted by a tool in a copy, one by one, in the modules that carry promises; those that no test sees are
# printed. EVERY=1 plants all of them, which takes many hours.
EVERY ?= 25
mutants: $(VENV)/.ready
	@$(QUICK) $(BIN)/python tests/mutants.py --out $(OUT)/mutants --every $(EVERY)

# one test opens the report in Chromium; where it cannot be had, that test is skipped and says so
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "== Installing Chromium for one test" && \
	    apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true

# every example, the paper's report, the site with warnings as errors, and a look at it in Chromium
docs: $(VENV)/.docs browser
	@echo "== Examples: doctest"
	@$(BIN)/python -m pytest -n $(JOBS) src docs
	@echo "== The report"
	@$(BIN)/steepen reproduce --out $(OUT)/paper --home .. >/dev/null
	@echo "== The site, into $(OUT)/site"
	@rm -rf $(OUT)/site
	@$(BIN)/sphinx-build -qW --keep-going -b html docs $(OUT)/site
	@cp -R $(OUT)/paper $(OUT)/site/paper
	@$(BIN)/steepen explore --home . --out $(OUT)/site/explorer.html
	@echo "== A look at it"
	@$(BIN)/python -m pytest tests/site.py

# wheel and sdist, and a look at them from an empty environment
dist: $(VENV)/.dist
	@$(BIN)/python -m pytest --noconftest tests/dist.py

# the numerical tests with the last bits of other CPUs; not part of `test`
test-rounding: $(VENV)/.ready
	$(BIN)/python tests/rounding.py -n $(JOBS)

bench: $(VENV)/.ready
	-$(BIN)/python -m benchmarks cost
	$(BIN)/python -m benchmarks table chosen-on

# a hundred thousand runs against the contract (docs/reliability.md); what was run before is kept in $(OUT)/campaign
campaign: $(VENV)/.ready
	$(BIN)/python -m benchmarks.campaign --jobs $(JOBS) --out $(OUT)/campaign --page docs/reliability.md

# one environment, one set of pinned versions: the paper needs little of it, the tests all
$(VENV)/.paper: pyproject.toml constraints.txt
	@echo "== Installing what the paper needs into $(VENV)"
	@$(INSTALL) '.[paper]'
	@touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "== Installing all that the tests need into $(VENV): torch and JAX among it, so a minute or more"
	@$(INSTALL) '.[all]' --group test
	@touch $(VENV)/.paper $@

$(VENV)/.docs: pyproject.toml constraints.txt
	@echo "== Installing all that the site needs into $(VENV)"
	@$(INSTALL) '.[all]' --group docs
	@touch $(VENV)/.paper $(VENV)/.ready $@

$(VENV)/.dist: pyproject.toml constraints.txt
	@echo "== Installing what a release needs into $(VENV)"
	@$(INSTALL) . --group dist
	@touch $@

clean:
	rm -rf $(VENV) $(OUT)
