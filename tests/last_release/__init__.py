"""Staging as the last release deployed it, held against today's program: who upgrades gets no change unannounced.

The files here are of commit 19cd8b8:

    Pulumi.staging.yaml, sandbox.yaml   as they were
    state.json.xz                       the exported state after `make up`, without secrets
    registrations.json                  what the program registers with the recorder of tests/gpu_ci/harness.py

Instead of the code that machines run (PAYLOADS), which differs between releases, they have the word `payload`.

To record another release, check it out, copy its two YAML files here, and run

    make up && .venv/bin/pulumi-sandbox stack export --stack staging | .venv/bin/gpu-ci strip-state > state.json
    .venv/bin/python -m tests.last_release state.json
    LAST_RELEASE=write .venv/bin/python -m pytest tests/gpu_ci/program/test_upgrade.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
STACK_FILE = FOLDER / "Pulumi.staging.yaml"
SANDBOX_FILE = FOLDER / "sandbox.yaml"
STATE = FOLDER / "state.json.xz"
REGISTRATIONS = FOLDER / "registrations.json"

# Resource -> the properties with the boot script, the boot agent and the smoke check.
PAYLOADS = {
    "a10g-smoke-check": ['binaryData["gpu_smoke.pyz"]'],
    "l4-template": ['metadata["gpu-agent-pyz"]', 'metadata["gpu-smoke-pyz"]', 'metadata["startup-script"]'],
    "t4-template": ['metadata["gpu-agent-pyz"]', 'metadata["gpu-smoke-pyz"]', 'metadata["startup-script"]'],
}

# What the changelog announces beyond that: new resources, and what differs in registrations. appAuth is that of the App
# which administers: the engine updates a provider's configuration in place, and nothing that it made.
ADDED = (
    "a10g-nodes-asg-label-eks-amazonaws-com-nodegroup-2d54c0",
    "a10g-nodes-limits",
    "a10g-runners-registered",
)
ANNOUNCED = (
    "a10g-nodes-nodes ignoreChanges[0]",
    "a10g-nodes-nodes object labels nvidia.com/gpu.deploy.operands",
    "a10g-nodes-template object userData",
    "a10g-runners-release object values template spec containers[0] env",
    "a10g-runners-release object values template spec containers[0] lifecycle",
    "a10g-runners-release object values template spec containers[0] resources requests ephemeral-storage",
    "a10g-smoke-check dependencies",
    "a10g-smoke-job dependencies",
    "a10g-smoke-job object spec template spec containers[0] env",
    "a10g-smoke-job object spec template spec containers[0] resources requests ephemeral-storage",
    "a10g-smoke-job object spec template spec containers[0] securityContext readOnlyRootFilesystem",
    "a10g-smoke-job object spec template spec containers[1] command",
    "a10g-smoke-job object spec template spec nodeSelector eks.amazonaws.com/nodegroup",
    "a10g-smoke-job object spec template spec securityContext runAsGroup",
    "a10g-smoke-job object spec template spec securityContext runAsUser",
    "example-ci-runners-dns object spec egress[0] to",
    "example-ci-runners-egress object spec egress[0] to[0] ipBlock except",
    "github-example-org object appAuth value",
    "l4-gate dependencies",
    "t4-gate dependencies",
)


# What an upgrade needs by hand (docs/github.md, One App becomes two): the App of that release registers runners, and
# another one administers.
_ONE_APP = "      app:\n"
_TWO_APPS = """      app:
        id: 2345678
        installationId: 8765432
        privateKey: projects/example-ci-staging/secrets/github-admin-app-key
      runnerApp:
"""


def migrated(text: str) -> str:
    """The stack file after that."""
    assert text.count(_ONE_APP) == 1
    return text.replace(_ONE_APP, _TWO_APPS)


def without_payloads(value: Any) -> Any:
    """The value with `payload` instead of every script and archive that machines run."""
    if isinstance(value, dict):
        return {
            name: "payload" if name.endswith(("-pyz", ".pyz", "startup-script")) else without_payloads(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [without_payloads(each) for each in value]
    return value
