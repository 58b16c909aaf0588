# The commands a person or CI runs. Each target installs what it needs into the virtual environment.
PYTHON ?= python3
VENV ?= .venv
TESTS ?= tests benchmarks/tests
MANY ?= tests/integration tests/e2e
# One more than there are cores: a test that plays a round waits for processes a sixth of its time.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)))
BIN := $(VENV)/bin
PACKAGES := protocol metering runtime pages analyst_server user_client orthonormal_data_collaboration odc_demo fake_analyst

.PHONY: setup demo compose test test-many bench campaign fuzz openapi conformance wheel wheelhouse manual reference check format lock images sbom audit clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.installed  ## create the virtual environment with all extras, versions from the lock file

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "error: $(PYTHON) cannot create virtual environments (Debian: apt install python3-venv)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# as pip does for a wheel, also where the environment keeps Python from writing bytecode
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

demo: setup  ## run a whole round; with your own table: make demo DATA=t.csv LABEL=col SITE=col
	$(BIN)/python -m odc_demo \
	  $(if $(DATA),--data '$(DATA)' --label '$(LABEL)' --site '$(SITE)') \
	  $(if $(CSV),--csv '$(CSV)') $(if $(TASK),--task $(TASK)) $(if $(EXCLUDE),--exclude '$(EXCLUDE)') \
	  $(foreach text,$(MISSING),--missing '$(text)') \
	  $(if $(LATENT_DIM),--latent-dim $(LATENT_DIM)) $(if $(UPLINK),--uplink $(UPLINK))

compose:  ## run the demo in containers (needs Docker with Compose v2); `docker compose down -v` removes them
	docker compose up --build --detach
	docker compose logs --follow --no-log-prefix summary

test: setup  ## run the whole test suite, a file in each of WORKERS processes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-many: setup  ## run tests of rounds with PostgreSQL, S3, two Dask workers and two analysts (needs an S3 server)
	ODC_TEST_CONFIGURATION=many ODC_REQUIRE_S3=1 $(MAKE) test TESTS='$(MANY)'

bench: setup  ## measure every published claim; on real data: make bench DATA_DIR=dir FULL=1
	$(BIN)/python -m benchmarks $(if $(DATA_DIR),--data '$(DATA_DIR)') $(if $(FULL),--full)
	$(if $(FULL),$(MAKE) campaign)

campaign: setup  ## kill, cut the power and fail the disk at every durable call of a round; takes hours (needs cc)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.faults.campaign --json build/campaign.json

fuzz: setup  ## try a million hostile inputs on every decoder: make fuzz RUNS=5000 TARGET=message
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz \
	  $(if $(RUNS),--runs $(RUNS)) $(if $(TARGET),--target $(TARGET))

openapi: setup  ## ask the analyst what its OpenAPI document allows: make openapi EXAMPLES=200 SEED=7
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.rest \
	  $(if $(EXAMPLES),--examples $(EXAMPLES)) $(if $(SEED),--seed $(SEED))

EXAMPLE := node $(CURDIR)/examples/node-institution/src/main.js
conformance: setup  ## try `odc` and the client in Node with an analyst that lies: make conformance ONLY=forked-ledger
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m fake_analyst $(if $(ONLY),--only $(ONLY))
	@command -v node >/dev/null || { echo "NOT RUN: there is no node"; exit 0; } && \
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m fake_analyst $(if $(ONLY),--only $(ONLY)) \
	  --env 'ODC_NODE_HOME={home}' --join '$(EXAMPLE) join {invitation} --yes' \
	  --accept '$(EXAMPLE) accept --yes --collaboration {collaboration}' \
	  --contribute '$(EXAMPLE) contribute {table} --yes --collaboration {collaboration}' \
	  --receive '$(EXAMPLE) receive --collaboration {collaboration}' \
	  --predict '$(EXAMPLE) predict {table} --out {out} --collaboration {collaboration}'

wheel: setup  ## build the distribution, in build/wheel
	$(BIN)/python -m hatchling build -t wheel -d build/wheel

wheelhouse: setup  ## everything to install from without a network, in build/wheelhouse: make wheelhouse PYTHON=python3.12
	sh deploy/wheelhouse.sh '$(PYTHON)' '$(BIN)' build/wheelhouse

manual: setup  ## build the manual as a site that needs no network, in build/manual; a warning is an error
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet --conf-dir manual . build/manual
	@echo "open build/manual/index.html"

reference: setup  ## write the pages of docs/ that are made from the code: REST, options, decisions, pictures
	$(BIN)/python -m manual

check: setup  ## check lint, types and import contracts, as CI does before the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! grep -nE 'https?://|--(extra-)?index-url' requirements.lock deploy/docker/*.lock || \
	  { echo "error: a lock file contains an address"; exit 1; }

audit: setup  ## ask an index of advisories about every library in the lock files
	@$(BIN)/python -m venv build/audit && build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit \
	  || { echo "NOT RUN: pip-audit cannot be installed"; exit 0; } \
	  && build/audit/bin/python deploy/audit.py requirements.lock deploy/docker/client.lock deploy/docker/server.lock

format: setup  ## format all code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# with extras: pip takes the newest `name[extra]` where the lock pins `name` alone, and then refuses its hash
COMPILE := uv pip compile --universal --generate-hashes --no-strip-extras --no-emit-index-url --no-header

lock:  ## resolve the dependencies again (needs uv)
	$(COMPILE) --python-version 3.11 --all-extras --upgrade pyproject.toml -o requirements.lock
	$(COMPILE) --python-version 3.11 --extra client --extra excel --extra export --extra serve --extra ui -c requirements.lock --no-annotate \
	  pyproject.toml -o deploy/docker/client.lock
	$(COMPILE) --python-version 3.11 --extra server --extra postgres --extra s3 --extra dask --extra telemetry -c requirements.lock --no-annotate \
	  pyproject.toml -o deploy/docker/server.lock
	echo 'cyclonedx-bom>=7' | $(COMPILE) --python-version 3.12 --upgrade --no-annotate - -o deploy/docker/sbom.lock

PYTHON_IMAGE ?= $(shell sed -n 's/^ARG PYTHON_IMAGE=//p' deploy/docker/Dockerfile)
ON_BASE := base=$$(sh deploy/docker/base.sh '$(PYTHON_IMAGE)') || exit 1; \
  docker build --file deploy/docker/Dockerfile $$base

images:  ## build the images of both roles (needs Docker); by digest: make images PYTHON_IMAGE=NAME@sha256:...
	$(ON_BASE) --target hospital --tag odc-hospital .
	$(ON_BASE) --target analyst --tag odc-analyst .

sbom:  ## list the Python packages of the images in build/sbom (needs Docker)
	for role in hospital analyst; do \
	  $(ON_BASE) --target sbom --build-arg ROLE=$$role \
	    --output build/sbom/$$role . || exit 1; \
	done

clean:  ## remove everything the targets created
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
