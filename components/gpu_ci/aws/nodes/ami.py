"""What must fit on a GPU node: EKS's image, the driver in it, and the torch that jobs bring."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine, solver

from ...errors import did_you_mean, invalid
from .rules import machines_of

_SOURCES = {"al2023": "al2023", "bottlerocket": "bottlerocket"}
"""The solver's name for where an image's driver comes from, by the image's system."""

_RELEASES = {
    "al2023": (re.compile(r"(?P<version>1\.[0-9]{2})\.[0-9]+-(?P<date>20[0-9]{6})"), "1.35.3-20260917"),
    "bottlerocket": (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-(?!20[2-9][0-9][01][0-9]{3}$)[0-9a-f]{8}"), "1.64.0-c9b02bd1"),
}
"""How each system numbers its releases, with one in that form (the form, not a release to take): AL2023 by Kubernetes
version and day, Bottlerocket by its own version and a commit."""

_TWO_DRIVERS = "20260917"
"""The first AL2023 release with two drivers, of which a node takes the one for its type; before, all had 580 or older
(awslabs/amazon-eks-ami issue 2768)."""

_ONE_DRIVER = 580


def ami_of(choices: Mapping[str, Any]) -> str:
    """The AMI type, chosen or not; empty while the types are wrong."""
    machines = machines_of(choices)
    return choices.get("ami_type") or (machines[0].ami_types[0] if machines and machines[0].ami_types else "")


def system_of(ami_type: str) -> str:
    """al2023, bottlerocket, or another; empty for no AMI type of EKS."""
    return next((each.os for each in catalog.ami_types() if each.ami_type == ami_type), "")


def ami_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """One of EKS's own, with an NVIDIA driver that knows the GPU, for the processor."""
    known = [each.ami_type for each in catalog.ami_types()]
    if value == "CUSTOM":
        raise invalid(
            "images of one's own are not taken", hint="leave it out: EKS's own has driver and container tools"
        )
    for machine in machines_of(others):
        ami = value or ami_of(others)
        instead = f"amiType: {machine.ami_types[0]}"
        if ami not in known:
            raise invalid("is no AMI type of EKS", hint=did_you_mean(ami, known) or instead)
        source = _SOURCES.get(system_of(ami))
        answer = solver.check(machine, ami_type=ami, driver_source=source)
        if isinstance(answer, solver.Refused):
            wrong = [each for each in answer.problems if each.choice in ("ami_type", "driver_source", "driver_branch")]
            raise invalid(f"does not go with {_reasons(machine, wrong[:1])}", hint=instead)  # the others follow from it
    return value


def _reasons(machine: Machine, problems: Sequence[solver.Problem]) -> str:
    """The machine and all that speaks against it, by the name it has in instanceTypes."""
    reasons = "; ".join(each.text for each in problems)
    return f"{machine.machine_type}: {reasons}".replace(machine.key, machine.machine_type)


def release_version(value: str | None, others: Mapping[str, Any]) -> str | None:
    """One of the image's system and of the cluster's version, whose driver knows the GPU."""
    machines, system = machines_of(others), system_of(ami_of(others))
    if not machines or "ami_type" not in others:
        return value
    if value is None:
        if last := machines[0].gpu.last_driver_branch:
            raise invalid(
                f"is missing: driver R{last} is the last that knows the {machines[0].gpu.name}, and without it a node "
                "takes EKS's newest release",
                hint=f"one that has driver {last}, in the form of {_RELEASES[system][1]}; {_where(others)}",
            )
        return value
    form, example = _RELEASES[system]
    found = form.fullmatch(value)
    if not found:
        raise invalid(
            f"is no release of {ami_of(others)}", expected=f"a release such as {example}", hint=_where(others)
        )
    version = others.get("kubernetes_version")
    if system == "al2023" and isinstance(version, str) and found["version"] != version:
        raise invalid(f"is for Kubernetes {found['version']}, and the cluster has {version}", hint=_where(others))
    branch = branch_of(value)
    for machine in machines:
        answer = solver.check(machine, driver_source=_SOURCES[system], driver_branch=branch) if branch else None
        if isinstance(answer, solver.Refused):
            raise invalid(
                f"has driver {branch} at most: {answer.reason}".replace(machine.key, machine.machine_type),
                hint=f"a release of {_TWO_DRIVERS} or later",
            )
    return value


def _where(others: Mapping[str, Any]) -> str:
    """Where the releases of an image are listed."""
    if system_of(ami_of(others)) == "bottlerocket":
        return "github.com/bottlerocket-os/bottlerocket/releases lists them"
    return "github.com/awslabs/amazon-eks-ami/releases lists them"


def version_of(release: Any) -> str | None:
    """The Kubernetes version that a release of AL2023 is for; None where it is none."""
    found = _RELEASES["al2023"][0].fullmatch(release) if isinstance(release, str) else None
    return found["version"] if found else None


def branch_of(release: str | None) -> int | None:
    """The driver branch a release has for every GPU; None where it picks one, or nothing is pinned."""
    found = _RELEASES["al2023"][0].fullmatch(release or "")
    return _ONE_DRIVER if found and found["date"] < _TWO_DRIVERS else None


def torch(value: str | None, others: Mapping[str, Any]) -> str | None:
    """One with kernels for the GPU, whose CUDA the image's driver knows."""
    if value is None or "ami_type" not in others:
        return value
    for machine in machines_of(others):
        source, branch = _SOURCES.get(system_of(ami_of(others))), branch_of(others.get("release_version"))
        answer = solver.check(machine, driver_source=source, driver_branch=branch, torch=value)
        wrong = [each for each in getattr(answer, "problems", ()) if each.choice in ("torch", "driver_branch")]
        if wrong:
            raise invalid(f"does not run on {_reasons(machine, wrong)}", hint=_torch_hint(machine, wrong))
    return value


def _torch_hint(machine: Machine, problems: Sequence[solver.Problem]) -> str:
    fixes = [str(each.fix["torch"]) for each in problems if each.fix and "torch" in each.fix]
    return f"torch: {fixes[0]}" if fixes else f"no torch for {machine.machine_type} is near it; take another type"
