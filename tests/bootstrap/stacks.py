"""The stacks of this repository on Google Cloud, and options that neither of them uses."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import yaml
from gpu_common import google_permissions
from gpu_common.google_permissions import CUSTOM_ROLE, PROJECT_MEMBER

from tests.conftest import ROOT

WIDE = sorted(
    {
        *google_permissions.deployer(),
        *google_permissions.of_type(CUSTOM_ROLE),
        *google_permissions.of_type(PROJECT_MEMBER),
    }
)
"""The permissions of a deployer on Google Cloud that also creates roles."""

Config = dict[str, Any]
_IMAGE = f"ghcr.io/acme/manager@sha256:{'1' * 64}"


def config(stack: str) -> Config:
    """Return the configuration of a stack of this repository."""
    found: Config = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    return found


def _networks(config: Config, **more: Any) -> None:
    del config["gpu-ci:site"]["subnetworks"]
    config["gpu-ci:site"]["networks"] = {"us-central1": {"ipRange": "10.10.0.0/20", **more}}


def _triggers(config: Config) -> None:
    config["gpu-ci:pools"]["builds"]["triggers"] = {
        "main": {
            "repository": "acme/kernels",
            "event": {"kind": "push", "branch": "^main$"},
            "build": {"kind": "file", "filename": "cloudbuild.yaml"},
        }
    }


def _manager(config: Config, **more: Any) -> None:
    """A manager on Google Cloud serves no pool that needs credentials of AWS."""
    config["gpu-ci:manager"] = {"region": "us-central1", "image": _IMAGE, **more}
    config["gpu-ci:pools"].pop("a10g-ec2", None)
    if rented := config["gpu-ci:pools"].get("l4-rented"):
        rented["mailboxRegion"] = "us-central1"


def _alerts(config: Config) -> None:
    channel = "projects/example-ci-staging/notificationChannels/1"
    _manager(config, alerts={"notificationChannels": [channel]})


def _efa(config: Config) -> None:
    nodes = {"instanceTypes": ["p4d.24xlarge"], "market": "standard", "max": 2, "efa": True, "zones": ["us-east-1a"]}
    config["gpu-ci:pools"]["a100"] = {**config["gpu-ci:pools"]["a10g"], **nodes}


def _ami(config: Config) -> None:
    image = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/ci@sha256:{'1' * 64}"
    config["gpu-ci:images"] = {"nodes": {"kind": "ami", "clusterName": "example-ci", "images": [image]}}
    config["gpu-ci:pools"]["a10g"]["amiId"] = "ami-0123456789abcdef0"


def _manager_on_aws(config: Config) -> None:
    config["gpu-ci:pools"] = {
        name: pool for name, pool in config["gpu-ci:pools"].items() if pool["kind"] == "ec2-runners"
    }
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:github-manager-app-key"
    config["gpu-ci:site"]["github"]["managerApp"] = {"id": 37, "installationId": 38, "privateKey": secret}
    config["gpu-ci:manager"] = {"region": "us-east-1", "image": _IMAGE, "subnets": ["subnet-0123456789abcdef0"]}


def _without_ec2(config: Config) -> None:
    pools = config["gpu-ci:pools"]
    config["gpu-ci:pools"] = {
        name: pool for name, pool in pools.items() if pool["kind"] not in ("ec2-runners", "rented-runners")
    }


def _signed(config: Config) -> None:
    key = "projects/example-ci-staging/locations/us-central1/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"
    config.setdefault("gpu-ci:images", {})["runner"] = {
        "kind": "container",
        "region": "us-central1",
        "source": {"repository": "acme/images"},
        "build": {"image": "gpu-runner", "dockerfile": "images/runner/Dockerfile"},
        "sign": {"kmsKeyVersion": key},
        "schedule": "0 4 * * 1",
    }


def _attested(config: Config) -> None:
    _signed(config)
    config["gpu-ci:images"]["runner"]["sign"]["attestor"] = "projects/example-ci-staging/attestors/images"


def _notebooks(config: Config) -> None:
    config["gpu-ci:clusters"]["gke-ci"]["tekton"] = {}
    config["gpu-ci:notebooks"] = {
        "analysis": {
            "pool": "l4-gke",
            "image": f"ghcr.io/acme/notebook@sha256:{'1' * 64}",
            "repositories": ["kernels"],
            "storage": {"kind": "bucket", "url": "gs://acme-notebooks"},
            "webhookSecret": "projects/example-ci-staging/secrets/notebooks-webhook",
        }
    }


OPTIONS: dict[str, Callable[[Config], None]] = {
    "networks": _networks,
    "flow logs": lambda config: _networks(config, flowLogs=True),
    "triggers": _triggers,
    "manager": _manager,
    "metrics": lambda config: _manager(config, metrics=True),
    "alerts": _alerts,
    "manager on aws": _manager_on_aws,
    "efa": _efa,
    "ami": _ami,
    "no ec2": _without_ec2,
    "signed images": _signed,
    "attested images": _attested,
    "notebooks": _notebooks,
}
"""Options of the stack file of staging, by a short name."""


def staging_with(*options: str) -> Config:
    """Return the configuration of staging with some options."""
    found = deepcopy(config("staging"))
    for option in options:
        OPTIONS[option](found)
    return found
