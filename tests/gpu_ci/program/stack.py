"""Reads a stack file the way the program does, without an engine."""

from __future__ import annotations

import contextvars
import copy
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pulumi.runtime
import pytest
import yaml
from gpu_ci.program import stack_file
from gpu_ci.stack.parse import Stack
from pulumi.runtime import config as runtime_config

ROOT = Path(__file__).resolve().parents[3]

L4: dict[str, Any] = {"kind": "gce-runners", "machineType": "g2-standard-8", "zones": ["us-central1-a"], "max": 4}
# What a pool on a cluster stands on.
ON_CLUSTER: dict[str, Any] = {
    "gpu-ci:site": {
        "github": {
            "owner": "acme",
            "plan": "team",
            "runnerApp": {"id": 17, "installationId": 18, "privateKey": "projects/example-ci/secrets/github-app-key"},
        }
    },
    "gpu-ci:github": {"runnerGroup": {"repositories": ["kernels"]}},
    "gpu-ci:clusters": {
        "ci": {
            "region": "us-east-1",
            "subnets": {"us-east-1a": "subnet-0123456789abcdef0", "us-east-1b": "subnet-0123456789abcdef1"},
            "devicePlugin": {},
        }
    },
}
SUBNETWORK = "projects/example-ci/regions/us-central1/subnetworks/ci"


def config(pools: Any = None, **changes: Any) -> dict[str, Any]:
    """A stack file's config that is in order, but for the pools and keys that are given."""
    found: dict[str, Any] = {
        "gcp:project": "example-ci",
        "gpu-ci:site": {"subnetworks": {"us-central1": SUBNETWORK}},
        "gpu-ci:pools": {"l4": copy.deepcopy(L4)} if pools is None else pools,
    }
    return found | changes


def site(**changes: Any) -> dict[str, Any]:
    """The key of the site with these fields instead of its own."""
    return {"gpu-ci:site": {"subnetworks": {"us-central1": SUBNETWORK}, **changes}}


def config_of(file: str) -> dict[str, Any]:
    """The config of a stack file of this repository."""
    return dict(yaml.safe_load((ROOT / file).read_text())["config"])


def one_pool() -> dict[str, Any]:
    """The config of staging with nothing but its first pool."""
    found = config_of("Pulumi.staging.yaml")
    del found["gpu-ci:github"], found["gpu-ci:clusters"], found["gpu-ci:site"]["github"]
    found["gpu-ci:pools"] = {"l4": found["gpu-ci:pools"]["l4"]}
    return found


def on_eks() -> dict[str, Any]:
    """The config of staging with nothing but its pool on EKS, the cluster, and what these need on GitHub."""
    found = config_of("Pulumi.staging.yaml")
    del found["gpu-ci:site"]["subnetworks"]
    found["gpu-ci:github"] = {"runnerGroup": found["gpu-ci:github"]["runnerGroup"]}
    found["gpu-ci:pools"] = {"a10g": found["gpu-ci:pools"]["a10g"]}
    found["gpu-ci:clusters"] = {"example-ci": found["gpu-ci:clusters"]["example-ci"]}
    return found


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Config as the engine hands it over: text as it is, everything else as JSON, and nothing as an empty text."""
    return {
        key: "" if value is None else value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
    }


def load(
    values: Mapping[str, Any], *, stack: str = "staging", secrets: Collection[str] = (), root: Path | None = None
) -> Stack:
    """Return the stack file that gpu_ci.program.stack_file loads."""

    def run() -> Stack:
        pulumi.runtime.configure(
            pulumi.runtime.Settings(project="gpu-ci", stack=stack, root_directory=root and str(root))
        )
        runtime_config.set_all_config(texts(values), list(secrets))
        return stack_file.load()

    return contextvars.copy_context().run(run)


def refused(values: Mapping[str, Any], **options: Any) -> stack_file.StackFileError:
    """The error it ends with."""
    with pytest.raises(stack_file.StackFileError) as caught:
        load(values, **options)
    return caught.value


def told(values: Mapping[str, Any], **options: Any) -> str:
    """The one problem it ends with, as text; more or fewer than one fails."""
    error = refused(values, **options)
    assert len(error.problems) == 1, str(error)
    return str(error).removesuffix("\n1 problem in Pulumi.staging.yaml; no pool was created or changed")
