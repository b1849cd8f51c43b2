"""The kind toy-machines: one machine, which is on as long as the stack exists."""

from gpu_ci.pool_kind import PoolKind

KIND = PoolKind(
    name="toy-machines",
    resource_type="gpu-ci:gcp:ToyPool",
    package=__package__,
    example={"machineType": "g2-standard-4"},
    entry_name="toy",
    job_types=("gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",),
    doctor=True,
)
