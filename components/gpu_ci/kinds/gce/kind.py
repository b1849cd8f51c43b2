"""The kind gce-runners: GPU runners on Compute Engine."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="gce-runners",
    resource_type="gpu-ci:gcp:RunnerPool",
    package=__package__,
    example={
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
    },
    init_options=("project",),
    job_types=("gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",),
)
