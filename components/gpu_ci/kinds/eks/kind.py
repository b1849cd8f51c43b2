"""The kind eks-runners: GPU runners on EKS."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="eks-runners",
    resource_type="gpu-ci:aws:EksRunnerPool",
    package=__package__,
    example={
        "clusterName": "ci",
        "instanceTypes": ["g6.2xlarge", "g6.4xlarge"],
        "market": "spot",
        "max": 4,
        "runner": {"image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"},
    },
    on_cluster="eks",
    init_options=(
        "cluster",
        "subnets",
        "runner_image",
        "organization",
        "repositories",
        "aws_account",
    ),
    job_types=("aws:eks/nodeGroup:NodeGroup",),
)
