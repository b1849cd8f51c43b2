"""The kind cloud-build-gpu: GPU machines for steps of Cloud Build."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="cloud-build-gpu",
    resource_type="gpu-ci:gcp:BuildGpuBridge",
    package=__package__,
    example={
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
    },
    entry_name="gpu-tests",
)
