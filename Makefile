# All commands of this repository: people, CI and the README call these targets. Paths are relative, because make does
# not support paths with spaces, and a checkout can be in any folder.
PYTHON ?= python3
STACK ?= staging
ARGS ?=
POOL ?=
JOB ?=
BUILD ?= passing
NOTEBOOK ?= passing
MODEL ?= good
DOCKER ?= docker
IMAGES ?= runtime runner dev
SANDBOX := .venv/bin/pulumi-sandbox

# Python must keep the compiled files of the cloud SDKs: they are large, and compiling them is half the time of an `up`.
# Container images often set this variable, and every command would then compile them again.
unexport PYTHONDONTWRITEBYTECODE

# The environments are created one after the other, also with make -j.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help up bootstrap preview job build notebook rollout down test test-slow test-all test-kill test-boots test-histories test-kubernetes test-tekton test-monitoring test-live test-gpu test-images check format golden docs diagrams site dist lock policy bench clean
.PHONY: runtime dev comment torch notebook-tools vertex-client rented-client engine control-plane kwok tekton monitoring

help: ## this list
	@printf 'gpu-ci: GPU runners for CI as Pulumi components. No command below needs an account, unless it says so.\n\n'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'
	@printf '\n  STACK=%s selects the stack. ARGS="--diff" is passed to pulumi. PYTHON=%s creates the environments.\n' '$(STACK)' '$(PYTHON)'

up: engine torch ## deploy the stack in the sandbox (the real Pulumi engine, no cloud account; ARGS=-v: all details)
	@printf 'Deploying the stack %s in the sandbox: the real Pulumi engine with emulated clouds.\n' '$(STACK)'
	@printf 'One machine of each pool with GPUs runs the smoke check before the pool takes jobs.\n\n'
	@.venv/bin/python -m tools.up '$(STACK)' $(ARGS)
	@$(SANDBOX) stack output --stack '$(STACK)' --json | .venv/bin/gpu-ci status --no-notes
	@printf '\nNothing was created in a cloud. Details: %s stack output --stack %s\n' '$(SANDBOX)' '$(STACK)'

bootstrap: engine ## deploy bootstrap/ in the sandbox: state bucket, key, roles and identities (ARGS="--diff")
	@cd bootstrap && PULUMI_SANDBOX_DIR='$(CURDIR)/.sandbox' '$(CURDIR)/$(SANDBOX)' up --stack '$(STACK)' --yes --skip-preview $(ARGS)

preview: engine ## preview `make up`
	@$(SANDBOX) preview --stack '$(STACK)' --suppress-outputs $(ARGS)

job: engine torch ## queue a job in the sandbox; the runner manager starts a machine for it (POOL=t4, ec2 or rented; JOB=broken-gpu, priority, public-fork or warm)
	@.venv/bin/gpu-ci job --stack '$(STACK)' --pool '$(POOL)' --example '$(JOB)' $(ARGS)

build: engine torch ## run a build in the sandbox, with a step on a GPU machine (BUILD=failing, cancelled or preempted)
	@.venv/bin/python -m tools.build --stack '$(STACK)' --example '$(BUILD)' $(ARGS)

notebook: runtime notebook-tools ## run the notebooks of a push in the sandbox (NOTEBOOK=failing, hanging, cancelled, two-runs or bad-tests)
	@.venv/bin/python -m tools.notebook --example '$(NOTEBOOK)' $(ARGS)

rollout: runtime torch ## train a model and roll it out in the sandbox, on the CPU (MODEL=bad or unlucky)
	@.venv/bin/python -m tools.rollout --example '$(MODEL)' $(ARGS)

down: engine ## destroy the stack in the sandbox
	@$(SANDBOX) destroy --stack '$(STACK)' --yes $(ARGS)
	@printf '\nYou need not remove the empty stack: make up deploys it again, and make clean removes the sandbox.\n'
	@printf 'To remove it anyway, run %s stack rm %s. It keeps Pulumi.%s.yaml, which plain pulumi deletes.\n' '$(SANDBOX)' '$(STACK)' '$(STACK)'

test: dev comment engine torch policy ## run the tests, some on the real engine (PYTEST_ARGS="-k name" selects tests)
	@.venv/bin/python -m pytest -n 4 --dist worksteal $(PYTEST_ARGS)

test-slow: dev comment engine torch policy notebook-tools vertex-client rented-client ## run the tests that `make test` leaves out, most on the real engine; 20 minutes
	@.venv/bin/python -m pytest -n 4 --dist worksteal -m slow $(PYTEST_ARGS)

test-all: test test-slow test-kill test-boots test-histories test-kubernetes test-tekton test-monitoring ## run all tests, as root; 90 minutes, needs Go

test-kill: dev engine torch ## kill -9 the provider, the CLI and the manager at 20 moments each; about twelve minutes
	@KILL_POINTS=20 .venv/bin/python -m pytest -n 2 --dist worksteal -m '' -k kill tests/engine/test_kill.py tests/engine/test_job.py

test-boots: dev ## boot the agent on 500 emulated machines with random faults, as root; about 20 minutes
	@.venv/bin/python -m pytest -q -n 2 --dist worksteal -m many_boots tests/agent/end_to_end

test-histories: dev ## run 2,000 histories of the runner manager with each supplier and random faults; 30 minutes (HISTORIES=100)
	@HISTORIES=$${HISTORIES:-2000} .venv/bin/python -m pytest -q -m '' -n 2 --timeout 7200 tests/manager -k in_any_history

test-kubernetes: dev control-plane kwok ## run the components' objects and pools on a real Kubernetes with nodes of KWOK; needs Go
	@printf 'Starting the control plane of Kubernetes, KWOK, Kueue and ARC on 127.0.0.1. They end with the tests.\n'
	@ARC=$(ARC) .venv/bin/python -m pytest tests/control_plane $(PYTEST_ARGS)

test-tekton: dev notebook-tools control-plane tekton ## run notebook pipelines on the real Tekton; needs Go and bubblewrap
	@printf 'Starting Tekton and a control plane, without a network. All of it ends with the tests.\n'
	@bwrap --dev-bind / / --ro-bind .tekton/hosts /etc/hosts --unshare-net --die-with-parent \
		.venv/bin/python -m pytest tests/tekton $(PYTEST_ARGS)

test-monitoring: dev engine torch monitoring ## run the alerts in a real Prometheus, over the sandbox; needs Debian or Ubuntu
	@PICTURE=$(PICTURE) .venv/bin/python -m pytest tests/monitoring $(PYTEST_ARGS)

test-live: dev ## deploy a small pool to a real account, check it and destroy it; costs money, so it asks first
	@.venv/bin/python -m tools.live.stack

test-gpu: torch ## run gpu-smoke's profiles on the GPUs of this machine, within their time budgets; asks first
	@.venv-torch/bin/python -m tools.live.gpu

test-images: ## build the container images with docker, and run gpu-smoke in each (IMAGES=runner DOCKER=podman)
	@for image in $(IMAGES); do \
		$(DOCKER) build -f images/$$image/Dockerfile -t gpu-$$image . && \
		$(DOCKER) run --rm --entrypoint gpu-smoke gpu-$$image --device cpu || exit 1; \
	done

check: dev ## run ruff, mypy --strict, import rules, checks of workflows, actions and Dockerfiles; build the site
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo --no-cache
	@.venv/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yaml
	@.venv/bin/check-jsonschema --quiet --builtin-schema vendor.github-actions .github/actions/*/action.yml
	@.venv/bin/zizmor --offline --no-progress --quiet .
	@.venv/bin/hadolint $$(git ls-files Dockerfile '*/Dockerfile')
	@$(MAKE) --no-print-directory site

site: dev ## build the documentation site into .site, strictly: open .site/index.html
	@.venv/bin/sphinx-build -W --keep-going -q -b html docs .site

format: dev ## format the code
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

golden: dev comment engine torch policy ## rewrite the golden files; read the diff before you commit it
	@GOLDEN=write .venv/bin/python -m pytest -q -n 4 -m "" tests/gpu_ci tests/mistakes tests/preview

docs: dev ## rewrite the generated tables of docs/
	@.venv/bin/python -m tools.docs.generate

diagrams: dev ## draw the diagrams of docs/pictures from their D2 sources; needs Go
	@.venv/bin/python -m tools.docs.diagrams

dist: dev ## build the wheel and the source archive into dist/
	@rm -rf dist
	@.tools/bin/uv build --quiet -o dist .

lock: ## resolve the lock files again (UPGRADE=1 takes newer versions)
	@$(PYTHON) tools/install.py uv
	@$(PYTHON) tools/lock.py $(if $(UPGRADE),--upgrade)

policy: ## install the environment of the policy pack: preview ARGS="--policy-pack policies" (docs/guides/policies.md)
	@$(PYTHON) tools/install.py policy

bench: dev engine ## run the benchmarks and print ratios; minutes, not part of the tests
	@.venv/bin/python -m bench $(ARGS)

clean: ## remove installed and built files and the sandbox's state
	@rm -rf .venv .venv-comment .venv-torch .venv-policy .venv-notebook .venv-vertex .venv-rented .tools .engine .control-plane .kwok .helm .arc .tekton .monitoring .sandbox .mypy_cache .pytest_cache .ruff_cache .hypothesis .site
	@printf 'Removed the environments, the engine and the sandbox. The next make installs them again.\n'

# The targets above depend on these. Each does nothing if its result exists.
runtime:
	@$(PYTHON) tools/install.py runtime

dev:
	@$(PYTHON) tools/install.py dev

comment:
	@$(PYTHON) tools/install.py comment

torch:
	@$(PYTHON) tools/install.py torch

notebook-tools:
	@$(PYTHON) tools/install.py notebook

vertex-client:
	@$(PYTHON) tools/install.py vertex

rented-client:
	@$(PYTHON) tools/install.py rented

engine: runtime
	@$(SANDBOX) engine --quiet

control-plane:
	@$(PYTHON) tools/control_plane.py

kwok:
	@$(PYTHON) tools/kwok.py $(ARC)

tekton:
	@$(PYTHON) tools/tekton.py

monitoring:
	@$(PYTHON) tools/monitoring.py
