"""Builds the same pool without importing gpu_ci: the engine asks the plugin, as it does for every Pulumi language."""

from typing import Any

import pulumi
import pulumi_gcp as gcp


class RunnerPool(pulumi.ComponentResource):
    """What an SDK generated from the package's schema would contain."""

    verdict: pulumi.Output[str]
    template: pulumi.Output[str]

    def __init__(self, name: str, inputs: dict[str, Any]) -> None:
        super().__init__("gpu-ci:gcp:RunnerPool", name, {**inputs, "verdict": None, "template": None}, remote=True)


network = gcp.compute.Network("ci", auto_create_subnetworks=False)
subnetwork = gcp.compute.Subnetwork("ci", network=network.id, ip_cidr_range="10.8.0.0/20", region="us-central1")

pool = RunnerPool(
    "l4",
    {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b"],
        "max": 2,
        "project": "example-project",
        "subnetwork": subnetwork.self_link,
        "labels": {"team": "web"},
    },
)

pulumi.export("verdict", pool.verdict)
pulumi.export("template", pool.template)
