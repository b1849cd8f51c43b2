"""Chooses how GKE replaces the nodes of a pool, so that a running job can end."""

from __future__ import annotations

import pulumi_gcp as gcp

from . import version
from .args import GkeGpuNodePoolArgs

# A job on a self-hosted runner can run for five days (docs.github.com/en/actions/reference/limits). GKE allows up to
# seven (docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies). While GKE waits, the
# autoscaler removes each node whose job has ended.
_WAIT_FOR_JOBS_SEC = 432_000


def upgrade_settings(
    args: GkeGpuNodePoolArgs, control_plane_version: str
) -> gcp.container.NodePoolUpgradeSettingsArgsDict | None:
    """Return the upgrade settings, or None for flex-start nodes, which GKE replaces when their time ends.

    An autoscaled blue-green upgrade starts without new nodes, and waits for the pods of jobs, which the autoscaler may
    not evict. A surge upgrade waits one hour for a pod. It never takes a node away before its successor runs.
    """
    if args.market == "flex-start":
        return None
    has_blue_green = not version.older(control_plane_version, version.AUTOSCALED_BLUE_GREEN)
    if (args.upgrade_strategy or ("BLUE_GREEN" if has_blue_green else "SURGE")) == "SURGE":
        # Both numbers are set, because the provider sends a missing number as 0
        # (hashicorp/terraform-provider-google#17164).
        return {"strategy": "SURGE", "max_surge": 1, "max_unavailable": 0}
    return {
        "strategy": "BLUE_GREEN",
        "blue_green_settings": {
            "autoscaled_rollout_policy": {"wait_for_drain_duration": f"{_WAIT_FOR_JOBS_SEC}s"},
        },
    }
