"""The kind gke-runners: GPU runners on GKE."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="gke-runners",
    resource_type="gpu-ci:gcp:GkeRunnerPool",
    package=__package__,
    example={
        "clusterName": "ci",
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
        "runner": {"image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"},
    },
    on_cluster="gke",
    init_options=(
        "gke_cluster",
        "location",
        "runner_image",
        "organization",
        "repositories",
        "project",
    ),
    job_types=("gcp:container/nodePool:NodePool",),
)
