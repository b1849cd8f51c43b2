"""Helpers for a stack with a pool on GKE beside the pool of staging on EKS, and a fake torch with the expected GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, project_of
from tests.engine import eks
from tests.gpu_ci.program import stack

UP = eks.UP
FAKES = ROOT / "tests" / "smoke" / "fakes"
NODES, JOB, RELEASE = "l4-nodes-nodes", "l4-smoke-job", "l4-runners-release"


def torch(**faults: Any) -> str:
    """Return FAKE_TORCH for one L4 with these faults."""
    return json.dumps({"gpus": [{"name": "NVIDIA L4", "cc": "8.9"}], **faults})


def settings() -> dict[str, Any]:
    """Return the sandbox.yaml of the tests on EKS, with the GPU of the pool on GKE."""
    found = eks.settings()
    found["guest"]["environment"]["FAKE_TORCH"] = torch()
    return found


def config(*, with_eks: bool) -> dict[str, Any]:
    """Return the config of staging with a pool on GKE, and with or without its pool on EKS."""
    found = stack.on_eks()
    image = found["gpu-ci:pools"]["a10g"]["runner"]["image"]
    if not with_eks:
        found["gpu-ci:clusters"], found["gpu-ci:pools"] = {}, {}
    found["gpu-ci:clusters"]["gke-ci"] = {"kind": "gke", "location": "us-central1"}
    found["gpu-ci:pools"]["l4"] = {
        "kind": "gke-runners",
        "clusterName": "gke-ci",
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b"],
        "market": "spot",
        "max": 2,
        "runner": {"image": image},
    }
    return found


def project(shared: Path) -> Path:
    """Return this project with only a pool on GKE."""
    return project_of(shared, "gke", config(with_eks=False), settings())


def two_clouds(shared: Path) -> Path:
    """Return this project with a pool on GKE and one on EKS."""
    return project_of(shared, "gke and eks", config(with_eks=True), settings())
