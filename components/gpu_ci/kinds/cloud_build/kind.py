"""The kind cloud-build: workers of Cloud Build."""

from ...pool_kind import PoolKind

KIND = PoolKind(
    name="cloud-build",
    resource_type="gpu-ci:gcp:BuildPool",
    package=__package__,
    example={
        "region": "us-central1",
        "machineType": "e2-standard-8",
        "publicEgress": True,
        "triggers": {
            "main": {
                "repository": "acme/kernels",
                "event": {"kind": "push", "branch": "^main$"},
                "build": {"kind": "steps", "steps": [{"kind": "docker", "image": "kernels"}]},
            }
        },
    },
    entry_name="builds",
    job_types=("gcp:cloudbuild/workerPool:WorkerPool",),
)
