"""A pool of GPU runners in a network of its own. The components are imported as Python classes."""

import pulumi
from gpu_ci.gcp.runner_network import RunnerNetwork, RunnerNetworkArgs
from gpu_ci.gcp.runner_pool import RunnerPool, RunnerPoolArgs

project = pulumi.Config().require("project")

network = RunnerNetwork("ci", RunnerNetworkArgs(project=project, region="us-central1", ip_range="10.10.0.0/20"))
pool = RunnerPool(
    "l4",
    RunnerPoolArgs(
        project=project,
        subnetwork=network.subnetwork,
        machine_type="g2-standard-8",
        zones=["us-central1-a", "us-central1-b"],
        market="spot",
        max=2,
    ),
)

pulumi.export("verdict", pool.verdict)
pulumi.export("template", pool.template)
