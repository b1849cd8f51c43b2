"""Staging as the last release deployed it, compared with today's program: an upgrade changes nothing unannounced.

The files here are of v0.1.0:

    Pulumi.staging.yaml, sandbox.yaml   as they were
    state.json.xz                       the exported state after `make up`, without secrets
    registrations.json                  what the program registers with the recorder of tests/gpu_ci/harness.py

Instead of the code that machines and build steps run, which differs between releases, they have the word `payload`.

To record another release, check it out, copy its two YAML files here, and run

    make up && .venv/bin/pulumi-sandbox stack export --stack staging > state.json
    .venv/bin/python -m tests.last_release state.json
    LAST_RELEASE=write .venv/bin/python -m pytest tests/gpu_ci/program/test_upgrade.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
STACK_FILE = FOLDER / "Pulumi.staging.yaml"
SANDBOX_FILE = FOLDER / "sandbox.yaml"
STATE = FOLDER / "state.json.xz"
REGISTRATIONS = FOLDER / "registrations.json"

_TEMPLATE = [
    'metadata["gpu-agent-config"]#uv',
    'metadata["gpu-agent-pyz"]',
    'metadata["gpu-smoke-pyz"]',
    'metadata["startup-script"]',
]
# Only machines with a runner give their job time after a notice.
_RUNNER_TEMPLATE = ['metadata["gpu-agent-config"]#runner.notice_grace_sec', *_TEMPLATE]
_CHECK = ['binaryData["gpu_smoke.pyz"]']
# Resource -> the properties with the boot script, the boot agent, the smoke check, or the program of a build step.
PAYLOADS = {
    "a10g-smoke-check": _CHECK,
    "gpu-tests-lock": ["name", "source"],
    "gpu-tests-program": ["name", "source"],
    "gpu-tests-template": _TEMPLATE,
    "l4-gke-smoke-check": _CHECK,
    "l4-template": _RUNNER_TEMPLATE,
    "t4-template": _RUNNER_TEMPLATE,
}

# What the changelog announces beyond that: new and removed resources, and what differs in registrations.
ADDED: tuple[str, ...] = ("gpu-tests-project", "gpu-tests-project-role")
REMOVED: tuple[str, ...] = ()
ANNOUNCED: tuple[str, ...] = (
    "gpu-tests-builds object lifecycleRules[0] condition matchesPrefixes",
    "gpu-tests-machine-reader object condition expression",
    "gpu-tests-machine-reader object condition title",
    "gpu-tests-reader object condition",
    "gpu-tests-writer object condition expression",
    "gpu-tests-writer object condition title",
    # The images of build steps have digests.
    *(f"gpu-tests-{name}-trigger object build steps[{at}] name" for name in ("ended", "reaper") for at in (1, 2)),
    # uv is installed by a lock of the agent, not by a version in its configuration.
    *(f"{pool}-template object metadata gpu-agent-config" for pool in ("gpu-tests", "l4", "t4")),
    "gpu-tests-ended-trigger dependencies",
    "gpu-tests-machines object condition",
    "gpu-tests-machines-role object permissions",
    "gpu-tests-reaper-trigger dependencies",
    # The metrics of listeners have bounded labels.
    *(f"{name}-release object values listenerMetrics" for name in ("a10g-runners", "l4-gke-runners")),
    # Checks and the device plugin run on nodes that have not passed their check.
    *(f"{name}-smoke-job object spec template spec tolerations" for name in ("a10g", "l4-gke")),
    "example-ci-plugin-release object values tolerations",
    # ARC's charts are pinned by digests.
    *(f"{name}-release object chart" for name in ("a10g-runners", "l4-gke-runners", "example-ci-arc", "gke-ci-arc")),
)


def without_payloads(value: Any) -> Any:
    """The value with `payload` instead of every script, archive and digest of what machines run."""
    if isinstance(value, dict):
        is_program = _program(value.get("name"))
        return {
            name: "payload"
            if name.endswith(("-pyz", ".pyz", "startup-script", "gpu-ci-proves")) or (is_program and name == "source")
            else without_payloads(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [without_payloads(each) for each in value]
    return re.sub(r"\bprogram/[0-9a-f]{16}/", "program/payload/", value) if isinstance(value, str) else value


def _program(name: Any) -> bool:
    """Whether this is the name of an object with the program of a build step."""
    return isinstance(name, str) and name.startswith("program/")
