"""N pools, created with the component."""

import pulumi
from gpu_ci.gcp.runner_pool import RunnerPool, RunnerPoolArgs

from bench import peak

peak.record()
for index in range(pulumi.Config().require_int("pools")):
    RunnerPool(
        f"pool-{index}",
        RunnerPoolArgs(
            machine_type="g2-standard-8",
            zones=["us-central1-a", "us-central1-b", "us-central1-c"],
            max=4,
            project="example-project",
            subnetwork="projects/example-project/regions/us-central1/subnetworks/default",
            labels={"team": "platform"},
        ),
    )
