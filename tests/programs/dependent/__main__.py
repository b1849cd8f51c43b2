"""One bucket that needs nothing, and one that comes after the pool: after its check, as depends_on takes all of it."""

import pulumi
import pulumi_gcp as gcp
from gpu_ci.gcp.runner_pool import RunnerPool, RunnerPoolArgs

network = gcp.compute.Network("ci", auto_create_subnetworks=False)
subnetwork = gcp.compute.Subnetwork("ci", network=network.id, ip_cidr_range="10.8.0.0/20", region="us-central1")

pool = RunnerPool(
    "l4",
    RunnerPoolArgs(
        machine_type="g2-standard-8",
        zones=["us-central1-a", "us-central1-b"],
        max=2,
        project="example-project",
        subnetwork=subnetwork.self_link,
    ),
)

gcp.storage.Bucket("anytime", location="US")
gcp.storage.Bucket("afterwards", location="US", opts=pulumi.ResourceOptions(depends_on=[pool]))
