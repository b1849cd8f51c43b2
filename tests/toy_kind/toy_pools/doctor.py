"""The steps of `gpu-ci doctor` for pools of the kind toy-machines."""

from gpu_ci.cli.doctor.deployment import Deployment
from gpu_ci.cli.doctor.steps import Finding, Step


def _regions(deployment: Deployment) -> Finding:
    regions = sorted({spec.region for spec in deployment.file.specs if spec.kind == "toy-machines"})
    return Finding("pass", ", ".join(regions))


STEPS = (Step("regions", "a region for each toy pool", _regions),)
