"""Node pools with GPUs as the tests of this folder ask for them."""

from __future__ import annotations

from typing import Any

from gpu_ci.errors import ArgsError, Problem
from gpu_ci.gcp.gke_gpu_node_pool import GkeGpuNodePool, GkeGpuNodePoolArgs

from tests.gpu_ci.aws.node_groups import Late as Late
from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED
from tests.gpu_ci.support import GKE_WIRING as GKE_WIRING

ZONES = ["us-central1-a", "us-central1-b"]
CHOICES = {"machine_type": "g2-standard-8", "zones": ZONES, "market": "spot", "max": 4}
OLD_GKE: dict[str, Any] = {"control_plane_version": "1.33.5-gke.1080000"}
T4 = {"machine_type": "n1-standard-8", "guest_accelerator": {"type": "nvidia-tesla-t4"}}
B200 = {"machine_type": "a4-highgpu-8g", "zones": ["us-central1-b"]}
FLEX = {"market": "flex-start", "max_run_duration_sec": 14_400}
DISK_IMAGE = "projects/example-ci/global/images/runner-images-1"

_deployed: dict[str, Deployment] = {}


def choices(**changes: Any) -> dict[str, Any]:
    """A spot pool with an L4 and its wiring after these changes; None removes a key."""
    given = {**CHOICES, **GKE_WIRING, **changes}
    return {key: value for key, value in given.items() if value is not None}


def args(**changes: Any) -> GkeGpuNodePoolArgs:
    return GkeGpuNodePoolArgs(**choices(**changes))


def problems(**changes: Any) -> tuple[Problem, ...]:
    """Return the problems of the arguments after these changes."""
    try:
        args(**changes)
    except ArgsError as error:
        return error.problems
    return ()


def pool(name: str = "l4", preview: bool = False, **changes: Any) -> Deployment:
    """Return the resources of a program with one node pool. Tests with equal arguments share one deployment."""
    key = repr((name, preview, changes))  # a Late is another one each time
    if key not in _deployed:
        _deployed[key] = deploy(
            lambda: GkeGpuNodePool(
                name,
                args(**{key: each.output() if isinstance(each, Late) else each for key, each in changes.items()}),
            ),
            computed=COMPUTED,
            preview=preview,
        )
    return _deployed[key]


def nodes(**changes: Any) -> dict[str, Any]:
    """The inputs of the node pool."""
    return pool(**changes).one(":NodePool").inputs
