"""The kind ec2-runners: GPU runners on Amazon EC2, without a cluster."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="ec2-runners",
    resource_type="gpu-ci:aws:Ec2RunnerPool",
    package=__package__,
    example={
        "machineType": "g5.xlarge",
        "zones": ["us-east-1a", "us-east-1b"],
        "subnets": {"us-east-1a": "subnet-0a1b2c3d4e5f60001", "us-east-1b": "subnet-0a1b2c3d4e5f60002"},
        "market": "spot",
        "max": 4,
    },
    entry_name="a10g",
    init_options=("subnets", "organization", "repositories", "aws_account"),
    doctor=True,
)
