"""A pool of GPU runners in a network of its own. `pulumi package add` generated the SDK."""

import pulumi
import pulumi_gpu_ci as gpu_ci

project = pulumi.Config().require("project")

network = gpu_ci.gcp.RunnerNetwork("ci", project=project, region="us-central1", ip_range="10.10.0.0/20")
pool = gpu_ci.gcp.RunnerPool(
    "l4",
    project=project,
    subnetwork=network.subnetwork,
    machine_type="g2-standard-8",
    zones=["us-central1-a", "us-central1-b"],
    market="spot",
    max=2,
)

pulumi.export("verdict", pool.verdict)
pulumi.export("template", pool.template)
