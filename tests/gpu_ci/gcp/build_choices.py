"""Choices for a Cloud Build pool: the example with a change in it, and what each mistake has to be told as."""

from __future__ import annotations

import copy
from typing import Any

from gpu_ci.kinds.cloud_build.component import BuildPool

STEPS = {"kind": "steps", "steps": [{"kind": "docker", "image": "kernels"}]}
MAIN = BuildPool.EXAMPLE["triggers"]["main"]
PEERED = {"kind": "peered", "network": "projects/123456789012/global/networks/ci"}
ATTACHED = {
    "kind": "private-service-connect",
    "networkAttachment": "projects/acme-ci/regions/us-central1/networkAttachments/ci",
}


def pool(**changes: Any) -> dict[str, Any]:
    """The example after these changes; None removes a key."""
    choices = {"kind": "cloud-build", **copy.deepcopy(BuildPool.EXAMPLE), **changes}
    return {key: value for key, value in choices.items() if value is not None}


def trigger(**changes: Any) -> dict[str, Any]:
    """The example with one trigger, `main`, that has these changes; None removes a key."""
    changed = {key: value for key, value in {**copy.deepcopy(MAIN), **changes}.items() if value is not None}
    return pool(triggers={"main": changed})


def step(**choices: Any) -> dict[str, Any]:
    return trigger(build={"kind": "steps", "steps": [choices]})


def run(**choices: Any) -> dict[str, Any]:
    return step(kind="run", image="python:3.13-slim", **choices)


T, S = "triggers.main", "triggers.main.build.steps[0]"
STEP = "such as steps: [{kind: docker, image: kernels}]"
FORM = "has a form that is not accepted"
NO_RE2 = "contains (?!, which RE2 does not support"
