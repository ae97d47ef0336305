# `make help` lists the targets. Everything is installed into .venv from the lock, with hashes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help dev demo up down test test-all soak bench bench-quick check format lock clean instance wheel validate images roll-out

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

dev: $(STAMP) ## everything on this machine until Ctrl-C: Postgres, AWS stand-in, Dagster UI, data flowing
	@$(BIN)/pramaan dev

demo: $(STAMP) ## a fixed set of events through the real daemon; what became of each
	@$(BIN)/pramaan demo

up: $(STAMP) ## the embedded Postgres and AWS stand-in, migrated and provisioned, for plain `dagster dev`
	@$(BIN)/pramaan up

down: $(STAMP) ## stop what `make up` started; the data stays
	@$(BIN)/pramaan down

test: check ## what CI runs: check, and every test but the long ones
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile

test-all: check ## the long tests too
	$(BIN)/python -m pytest -n 2 --dist loadfile

soak: $(STAMP) ## minutes of everything at once under random kills, then a ledger (MINUTES=3 SEED=...)
	$(BIN)/python -m pramaan_pipelines_tests.soak --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED))

bench: $(STAMP) ## what it costs, beside what it could cost and beside other relays: a table, and JSON in .bench/
	@$(BIN)/python -m pramaan_pipelines_tests.bench

bench-quick: $(STAMP) ## the same in two minutes, of fewer rows and rounds
	@$(BIN)/python -m pramaan_pipelines_tests.bench --quick

check: $(STAMP) ## lint, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(STAMP) ## mend what can be mended
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## resolve the pins anew (needs uv); the locks hold hashes and no registry's address
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header -q -o requirements-dev.lock
	uv pip compile pyproject.toml -c requirements-dev.lock --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --extra web -c requirements-dev.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q \
		-o requirements-web.lock
	$(BIN)/python -m pramaan_pipelines_tests.supply.document

wheel: $(STAMP) ## the wheel into dist/, with migrations and template inside
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 315532800)} \
		$(BIN)/python -m hatchling build -t wheel

validate: $(STAMP) ## load the definitions as Dagster will, without a network or a setting
	@$(BIN)/dagster definitions validate -m pramaan_pipelines.definitions

images: ## build and push both images (IMAGES=REGISTRY/NAME); prints CODE_IMAGE and WEB_IMAGE by digest
	@for target in code web; do \
		docker buildx build -q -f deploy/Dockerfile --target $$target --push \
			--build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
			-t "$(IMAGES)-$$target:$$(git rev-parse HEAD)" --metadata-file dist/$$target.json . >&2 || exit 1; \
		digest=$$($(BIN)/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["containerimage.digest"])' dist/$$target.json); \
		echo "$$(echo $$target | tr a-z A-Z)_IMAGE=$(IMAGES)-$$target@$$digest"; \
	done

roll-out: ## create or update the stack of deploy/ecs; waits until the services are steady
	@aws cloudformation deploy --no-fail-on-empty-changeset --capabilities CAPABILITY_IAM \
		--template-file deploy/ecs/template.yaml --stack-name "pramaan-ecs-$(PRAMAAN_ENVIRONMENT)" \
		--parameter-overrides Environment="$(PRAMAAN_ENVIRONMENT)" \
			CodeImage="$(CODE_IMAGE)" WebImage="$(WEB_IMAGE)" EventBusName="$(EVENT_BUS_NAME)" \
			DocumentIngestionQueueUrl="$(DOCUMENT_INGESTION_QUEUE_URL)" \
			DocumentRegistrationQueueUrl="$(DOCUMENT_REGISTRATION_QUEUE_URL)" \
			FramerEventsQueueUrl="$(FRAMER_EVENTS_QUEUE_URL)" $(STACK_PARAMETERS)

instance: ## the hosted dagster.yaml for one target, in a folder (TARGET=ecs or host, OUT=FOLDER)
	@test -n "$(OUT)" -a -f "deploy/launchers/$(TARGET).yaml" || \
		{ echo "Give both: make instance TARGET=ecs (or host) OUT=FOLDER"; exit 1; }
	@mkdir -p "$(OUT)"
	@cat deploy/dagster.yaml "deploy/launchers/$(TARGET).yaml" > "$(OUT)/dagster.yaml"

clean: ## remove the environment, the embedded stack with its data, and the .env that `up` wrote
	-@test -x $(BIN)/pramaan && $(BIN)/pramaan down --wipe
	rm -rf $(VENV) .pramaan .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "Python 3.11 to 3.13 is needed; name it: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "This Python cannot make a virtual environment: install its venv package (Debian: python3-venv)"; exit 1; }
	@echo "Installing into $(VENV): a few minutes without a word, and only this once ..."
	$(PYTHON) -m venv $(VENV)
	@# --no-deps: an older pip refuses a hashed lock over extras; `pip check` then looks at the whole.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	@touch $@
