"""The rule that machines, jobs and builds with GPUs have a time limit."""

from __future__ import annotations

from collections.abc import Iterator

from .pods import GPU, containers
from .properties import UNKNOWN, at, entries, mapping, number
from .rule import Resource, Rule, RuleContext

TEMPLATES = {
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
}
JOB = "kubernetes:batch/v1:Job"
TRIGGER = "gcp:cloudbuild/trigger:Trigger"
# The prefixes of the machine series with built-in GPUs.
GPU_SERIES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")


def missing_time_limits(resource: Resource, context: RuleContext) -> Iterator[str]:
    most = context.settings["maxSec"]
    if resource.type in TEMPLATES and has_gpu(resource):
        yield from limit_problems(
            "scheduling.maxRunDuration.seconds", at(resource.props, *RUN_DURATION), most, must=True
        )
    if resource.type == JOB and any(asks_gpu(container) for _, container in containers(resource)):
        yield from limit_problems(
            "spec.activeDeadlineSeconds", at(resource.props, "spec", "activeDeadlineSeconds"), most, must=True
        )
    if resource.type == TRIGGER:
        timeout = at(resource.props, "build", "timeout")
        seconds = timeout.removesuffix("s") if isinstance(timeout, str) else timeout
        yield from limit_problems("build.timeout", seconds, most, must=False)  # the default is 60 minutes


RUN_DURATION = ("scheduling", "maxRunDuration", "seconds")


def limit_problems(path: str, value: object, most: float, *, must: bool) -> Iterator[str]:
    if value is UNKNOWN:
        return
    seconds = number(value)
    if seconds is None:
        if must:
            yield f"{path} is not set, and has to be at most {most:.0f}"
    elif seconds > most:
        yield f"{path} is {seconds:.0f}, and has to be at most {most:.0f}"


def has_gpu(resource: Resource) -> bool:
    """Return True if the machines of a template have a GPU or belong to a gpu-ci pool."""
    machine = at(resource.props, "machineType")
    return (
        bool(entries(resource.props, "guestAccelerators"))
        or (isinstance(machine, str) and machine.startswith(GPU_SERIES))
        or at(resource.props, "labels", "gpu-ci-pool") is not None
    )


def asks_gpu(container: object) -> bool:
    return any(GPU.fullmatch(name) for name in mapping(at(container, "resources", "limits")))


RULES = (
    Rule(
        name="max-run-duration",
        title="Machines and jobs with a GPU have a maximum duration.",
        why="If an agent crashes or a job hangs, the machine costs money until a person stops it. ARC runners are not "
        "checked, because timeout-minutes of the workflow ends their jobs.",
        fix="Set scheduling.maxRunDuration (instance templates), spec.activeDeadlineSeconds (Jobs) or build.timeout "
        "(Cloud Build, one hour by default).",
        sources=(
            "https://docs.cloud.google.com/compute/docs/instances/limit-vm-runtime",
            "https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup",
            "https://docs.cloud.google.com/build/docs/build-config-file-schema#timeout",
        ),
        check=missing_time_limits,
        settings={
            "maxSec": {
                "type": "integer",
                "minimum": 1,
                "default": 86400,
                "description": "Maximum duration in seconds.",
            }
        },
    ),
)
