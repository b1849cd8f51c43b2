"""Choices for a Cloud Build pool: the example with a change in it, and what each mistake has to be told as."""

from __future__ import annotations

import copy
from typing import Any

from gpu_ci.gcp.build_pool import BuildPool

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
WRONG: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no region": (pool(region=None), "region", "is missing", "such as region: us-central1"),
    "a zone for a region": (
        pool(region="us-central1-a"),
        "region",
        "is not a region of Cloud Build",
        "did you mean us-central1",
    ),
    "a machine type misspelt": (
        pool(machineType="e2-standrad-8"),
        "machineType",
        "is not a machine type of Cloud Build pools",
        "did you mean e2-standard-8",
    ),
    "a size that is not sold": (
        pool(machineType="e2-standard-24"),
        "machineType",
        "is not a machine type of Cloud Build pools",
        "did you mean e2-standard-16",
    ),
    "a machine type of another series": (
        pool(machineType="z9-mega"),
        "machineType",
        "is not a machine type of Cloud Build pools",
        "use e2-medium, or a size of e2-standard, e2-highmem or e2-highcpu",
    ),
    "a machine type with a GPU": (
        pool(machineType="g2-standard-8"),
        "machineType",
        "has GPUs, which Cloud Build pools do not support",
        "jobs that need a GPU run in a pool of kind gce-runners",
    ),
    "an accelerator": (
        pool(guestAccelerator={"type": "nvidia-tesla-t4"}),
        "guestAccelerator",
        "unknown key",
        "remove it",
    ),
    "too small a disk": (pool(diskGib=64), "diskGib", "must be at least 100", "such as diskGib: 100"),
    "too large a disk": (pool(diskGib=4001), "diskGib", "must be at most 4000", "such as diskGib: 100"),
    "egress in words": (
        pool(publicEgress="sometimes"),
        "publicEgress",
        "must be true or false",
        "such as publicEgress: true",
    ),
    "a network of no kind": (
        pool(network={"network": PEERED["network"]}),
        "network.kind",
        "is missing",
        "such as peered",
    ),
    "a network of a kind there is not": (
        pool(network={**PEERED, "kind": "peerd"}),
        "network.kind",
        "is not one of the choices",
        "did you mean peered",
    ),
    "peered and private service connect": (
        pool(network={**PEERED, "networkAttachment": ATTACHED["networkAttachment"]}),
        "network.networkAttachment",
        "unknown key",
        "remove it",
    ),
    "a peered network's project by its id": (
        pool(network={**PEERED, "network": "projects/acme-ci/global/networks/ci"}),
        "network.network",
        FORM,
        "such as network: projects/123456789012/global/networks/ci",
    ),
    "too small a range": (
        pool(network={**PEERED, "ipRange": "/30"}),
        "network.ipRange",
        "is too small; the smallest range is /29, with 8 addresses",
        "such as /24, or 192.168.0.0/24",
    ),
    "a range that is none": (
        pool(network={**PEERED, "ipRange": "192.168.0.0"}),
        "network.ipRange",
        "is not an IP range",
        "such as /24, or 192.168.0.0/24",
    ),
    "a range that begins elsewhere": (
        pool(network={**PEERED, "ipRange": "192.168.0.7/24"}),
        "network.ipRange",
        "does not start at its first address",
        "write 192.168.0.0/24",
    ),
    "private service connect": (
        pool(network={**ATTACHED, "routeAllTraffic": True}),
        "network.kind",
        (
            "does not work yet: pulumi-gcp accepts the setting but does not send it, so workers would run in Google's "
            "own network"
        ),
        "use kind: peered, or publicEgress: true without a network; the issue at Google is b/394920388",
    ),
    "no version kept": (
        pool(registry={"keepMostRecent": 0}),
        "registry.keepMostRecent",
        "must be at least 1",
        "such as keepMostRecent: 10",
    ),
    "a log mode there is not": (
        pool(logging="LEGACY"),
        "logging",
        "must be one of 'CLOUD_LOGGING_ONLY' or 'NONE'",
        "such as logging: CLOUD_LOGGING_ONLY",
    ),
    "a trigger's name in capitals": (
        pool(triggers={"Main": MAIN}),
        "triggers.Main",
        "is not a valid name of a trigger",
        "such as main",
    ),
    "a repository without its owner": (
        trigger(repository="kernels"),
        f"{T}.repository",
        FORM,
        "such as repository: acme/kernels",
    ),
    "no event": (
        trigger(event=None),
        f"{T}.event",
        "is missing",
        'such as event: {kind: push, branch: "^main$"}',
    ),
    "an event of a kind there is not": (
        trigger(event={"kind": "pull", "branch": "^main$"}),
        f"{T}.event.kind",
        "is not one of the choices",
        "such as kind: push",
    ),
    "a push of branches and tags": (
        trigger(event={"kind": "push", "branch": "^main$", "tag": "^v"}),
        f"{T}.event.tag",
        "unknown key",
        "remove it",
    ),
    "an expression RE2 does not know": (
        trigger(event={"kind": "push", "branch": "^(?!main$)"}),
        f"{T}.event.branch",
        NO_RE2,
        "write a pattern of the refs to match; use includedFiles and ignoredFiles to limit the builds further",
    ),
    "an expression that refers to what it matched": (
        trigger(event={"kind": "push", "branch": r"^(a|b)-\1$"}),
        f"{T}.event.branch",
        r"contains \1, which RE2 does not support",
        "write a pattern of the refs to match; use includedFiles and ignoredFiles to limit the builds further",
    ),
    "an expression that refers to what it matched by a name": (
        trigger(event={"kind": "pull-request", "branch": "^(?P<part>a|b)-(?P=part)$"}),
        f"{T}.event.branch",
        "contains (?P=, which RE2 does not support",
        "write a pattern of the refs to match; use includedFiles and ignoredFiles to limit the builds further",
    ),
    "an expression that is none": (
        trigger(event={"kind": "tag", "tag": "v[0-9"}),
        f"{T}.event.tag",
        "is not a regular expression: unterminated character set",
        r"to match this text literally: v\[0\-9",
    ),
    "a comment control there is not": (
        trigger(event={"kind": "pull-request", "branch": "^main$", "commentControl": "ALWAYS"}),
        f"{T}.event.commentControl",
        "must be one of 'COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY', 'COMMENTS_ENABLED' or 'COMMENTS_DISABLED'",
        "such as commentControl: COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY",
    ),
    "a build file and steps": (
        trigger(build={**STEPS, "filename": "cloudbuild.yaml"}),
        f"{T}.build.filename",
        "unknown key",
        "remove it",
    ),
    "no step": (
        trigger(build={"kind": "steps", "steps": []}),
        f"{T}.build.steps",
        "needs at least one",
        STEP,
    ),
    "a timeout of a file's build": (
        trigger(build={"kind": "file", "timeoutSec": 60}),
        f"{T}.build.timeoutSec",
        "unknown key",
        "remove it",
    ),
    "too long a build": (
        trigger(build={**STEPS, "timeoutSec": 86401}),
        f"{T}.build.timeoutSec",
        "must be at most 86400",
        "such as timeoutSec: 86400",
    ),
    "an image with a registry": (step(kind="docker", image="gcr.io/Acme/x:1"), f"{S}.image", FORM, STEP),
    "a script beside arguments": (
        run(script="make", args=["x"]),
        f"{S}.script",
        "is not allowed together with args or entrypoint",
        "remove args and entrypoint",
    ),
    "a substitution in lower case": (
        trigger(substitutions={"python": "3.13"}),
        f"{T}.substitutions.python",
        "is not the name of a substitution",
        "such as _PYTHON",
    ),
    "a substitution of the pool's own": (
        trigger(substitutions={"_POOL": "mine"}),
        f"{T}.substitutions._POOL",
        "is set by the pool",
        "rename the substitution",
    ),
    "a registry of one's own as a substitution": (
        trigger(substitutions={"_REGISTRY": "mine"}),
        f"{T}.substitutions._REGISTRY",
        "is set by the pool",
        "rename the substitution",
    ),
    "a cache of one's own as a substitution": (
        trigger(substitutions={"_CACHE": "mine"}),
        f"{T}.substitutions._CACHE",
        "is set by the pool",
        "rename the substitution",
    ),
    "wiring": (pool(project="acme-ci"), "project", "is set by gpu-ci, not in a stack file", "remove it"),
}
