"""Validates the software of GPU machines: the boot image, the NVIDIA driver, and the torch of the smoke check.

The solver (`gpu_catalog.solver`) knows which drivers and torch versions support a GPU. The driver source is one of
three: the boot image contains the driver, Google's cuda_installer installs it, or Container-Optimized OS installs it.

A validator returns a valid value and raises an error for an invalid value. `others` has the fields validated before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpu_catalog import Machine, solver
from gpu_catalog.setup import driver_source

from ... import versions
from ...errors import invalid
from ...machines.rules import machine_of

# The values of the installer's --installation-branch (compute-gpu-installation 1.9.1, linux/README.md).
INSTALLER_BRANCHES = {580: "lts", 595: "prod", 610: "nfb"}

_IMAGE = re.compile(r"projects/(?P<project>[^/]+)/global/images/(?:family/)?(?P<name>[^/]+)$")
_BRANCH = re.compile(r"-nvidia-(\d{3})\b")
# Deep Learning VM images with torch, such as pytorch-2-9-cu129-ubuntu-2204-nvidia-580.
_TORCH_IMAGE = re.compile(r"pytorch-(\d+)-(\d+)-(cu\d+)")
# PyTorch's own containers, such as pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime.
_TORCH_CONTAINER = re.compile(r"/pytorch:(\d+\.\d+\.\d+)-cuda(\d+)\.(\d+)-")
# The systems that cuda_installer 1.9.1 supports, by the names of Google's images.
_INSTALLABLE = re.compile(r"(ubuntu-(minimal-)?2[246](04)?|debian-1[23]|rhel-(8|9|10)|rocky-linux-(8|9|10))\b")

# The driver source that fits the images of each known publisher. For other images, driver.source is not checked.
_PUBLISHERS = {
    "ubuntu-os-accelerator-images": "image",
    "rocky-linux-accelerator-cloud": "image",
    "deeplearning-platform-release": "image",
    "ubuntu-os-cloud": "installer",
    "debian-cloud": "installer",
    "rhel-cloud": "installer",
    "rocky-linux-cloud": "installer",
    "cos-cloud": "cos",
}
# The solver's name of the driver source, by publisher. Deep Learning VM images are missing, so only the smoke gate
# checks their drivers: Google's documentation excludes combinations of these images that projects use in practice.
_SOLVER_SOURCES = {
    "ubuntu-os-accelerator-images": "accelerator-image",
    "rocky-linux-accelerator-cloud": "accelerator-image",
}
# Publishers of images whose driver modules are signed by a key that the firmware trusts.
_SIGNED = ("ubuntu-os-accelerator-images", "cos-cloud")

_EXAMPLES = {
    "image": f"such as {versions.GCE_IMAGE}",
    "installer": "such as projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64",
    "cos": "such as projects/cos-cloud/global/images/family/cos-stable",
}
_ARM64 = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-arm64-with-nvidia-580"
_DESCRIPTIONS = {"image": "contains a driver", "installer": "has no driver", "cos": "is Container-Optimized OS"}

# For the solver's choices: their text in messages, and their keys in the stack file.
_PHRASES = {"driver_branch": "driver branch {}", "torch": "torch {}", "driver_source": "the driver from {}"}
_KEYS = {"driver_branch": "driver.branch", "torch": "torch"}


class ImageFacts(NamedTuple):
    """The facts about an image that are in its name. Unknown values are empty."""

    project: str = ""
    driver_source: str = ""
    """The source of the driver: image, installer or cos."""
    branch: int | None = None
    torch: str = ""
    architecture: str = ""


def image_facts(image: str) -> ImageFacts:
    """Return the facts about a public image, from its publisher and name. Return no facts for other images."""
    found = _IMAGE.search(image)
    if not found or found["project"] not in _PUBLISHERS:
        return ImageFacts()
    branch, torch = _BRANCH.search(found["name"]), _TORCH_IMAGE.match(found["name"])
    return ImageFacts(
        found["project"],
        _PUBLISHERS[found["project"]],
        int(branch[1]) if branch else None,
        f"{torch[1]}.{torch[2]}+{torch[3]}" if torch else "",
        "arm64" if "arm64" in found["name"] else "x86_64",
    )


def is_signed(image: str) -> bool:
    """Return True if secure boot may stay on, because the publisher signs the driver modules."""
    return image_facts(image).project in _SIGNED


def installer_branch(value: int) -> int:
    """Return the driver branch. cuda_installer must support it."""
    if value not in INSTALLER_BRANCHES:
        known = ", ".join(map(str, INSTALLER_BRANCHES))
        raise invalid(
            f"is not a branch of cuda_installer, which has {known}",
            "installer-branch",
            expected=f"one of {known}",
            hint="such as 580",
        )
    return value


def driver(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the driver settings. The driver must support the GPU."""
    machine = machine_of(others)
    if machine is None:
        return value
    if value.source == "image":
        if machine.gpu_count < 1:
            raise invalid(
                f"{machine.machine_type} has a fraction of a GPU, which needs the vGPU guest driver; no image "
                "contains that driver",
                "fraction-of-gpu",
                hint="use driver: {source: installer}, or g4-standard-48, the smallest type with a whole GPU",
            )
        return value
    choices = {"driver_source": value.source, "driver_branch": value.branch}
    _check_with_solver(machine, choices, tuple(choices))
    return value


def image(value: str, others: Mapping[str, Any]) -> str:
    """Return the image.

    It must be for the machine's architecture, and its driver must fit driver.source and the GPU.
    """
    machine, driver_settings, facts = machine_of(others), others.get("driver"), image_facts(value)
    if driver_settings is None or not facts.driver_source:
        return value
    source = driver_settings.source
    # A stack file with the default image usually has no field `image`, so the message names that image.
    subject = "the default image " if value == versions.GCE_IMAGE else ""
    if facts.driver_source != source:
        raise invalid(
            f"{subject}{_DESCRIPTIONS[facts.driver_source]}, but driver.source is {source}",
            "image-of-other-driver-source",
            expected=f"an image that {_DESCRIPTIONS[source]}",
            hint=f"driver: {{source: {facts.driver_source}}}, or another image, {_EXAMPLES[source]}",
        )
    if machine and facts.architecture != machine.architecture:
        raise invalid(
            f"{subject}is for {facts.architecture}, but {machine.machine_type} is {machine.architecture}",
            "wrong-architecture",
            hint=f"such as {_ARM64}" if machine.architecture == "arm64" else "an image without arm64 in its name",
        )
    name = value.rpartition("/")[2]
    if source == "installer" and not _INSTALLABLE.search(name):
        raise invalid(
            "has a system that cuda_installer does not support",
            "unsupported-system",
            expected="Ubuntu 22.04, 24.04 or 26.04, Debian 12 or 13, RHEL or Rocky Linux 8 to 10",
            hint=_EXAMPLES["installer"],
        )
    # For a fraction of a GPU, the validator of `driver` already reports that no image contains the driver.
    if machine and machine.gpu_count >= 1 and facts.driver_source == "image" and facts.branch:
        torch_of_image = {"torch": facts.torch} if facts.torch else {}
        _check_with_solver(machine, _solver_choices(facts) | torch_of_image, tuple(_PHRASES), facts, subject.rstrip())
    return value


def torch(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the torch version. It must have kernels for the GPU, and the driver must support its CUDA version.

    Without a value, the default version (versions.TORCH) is checked.
    """
    machine, driver_settings, boot_image = machine_of(others), others.get("driver"), others.get("image")
    if driver_settings is None or boot_image is None:
        return value
    facts, in_container = image_facts(boot_image), driver_settings.source == "cos"
    if value is not None and (facts.torch or in_container):
        place = "driver.checkImage" if in_container else f"image: {facts.torch}"
        raise invalid(f"is not allowed here: the check uses the torch of {place}", "torch-of-image", hint="remove it")
    version = _torch_of_container(driver_settings) if in_container else value
    if version is None and facts.driver_source and not facts.torch and not in_container:
        version = versions.TORCH  # this image has no torch, so the check installs the default version
    if machine is None or version is None:
        return value
    if driver_settings.source == "image":
        driver_choices = _solver_choices(facts)
    else:
        driver_choices = {"driver_source": driver_settings.source, "driver_branch": driver_settings.branch}
    _check_with_solver(machine, driver_choices | {"torch": version}, ("torch", "driver_branch"), facts)
    return value


def _torch_of_container(driver_settings: Any) -> str | None:
    """Return the torch version of the check's container, or None if the container's name does not contain it."""
    found = _TORCH_CONTAINER.search(getattr(driver_settings, "check_image", ""))
    return f"{found[1]}+cu{found[2]}{found[3]}" if found else None


def torch_instead(machine: Machine) -> str:
    """Return "" if the default torch version runs on the machine. Else return the nearest version that does."""
    answer = solver.check(machine, driver_branch=image_facts(versions.GCE_IMAGE).branch, torch=versions.TORCH)
    return "" if isinstance(answer, solver.Works) else str((answer.fix or {}).get("torch", ""))


def _solver_choices(facts: ImageFacts) -> dict[str, Any]:
    """Return the driver of an image as choices of the solver."""
    source = _SOLVER_SOURCES.get(facts.project)
    return {
        **({"driver_branch": facts.branch} if facts.branch else {}),
        **({"driver_source": source} if source else {}),
    }


def _check_with_solver(
    machine: Machine,
    choices: dict[str, Any],
    about: tuple[str, ...],
    image: ImageFacts | None = None,
    subject: str = "",
) -> None:
    """Raise an error if the solver finds problems with these choices. The error also has the nearest working choices.

    Args:
        machine: The machine of the pool.
        choices: The driver and the torch version, by the solver's names.
        about: The choices whose problems are reported. Problems of other choices are ignored.
        image: The facts about the boot image, if the choices depend on the image.
        subject: The start of the message, such as "the default image"; empty if the problem is about the field itself.
    """
    answer = solver.check(machine, **choices)
    if isinstance(answer, solver.Works):
        return
    problems = [problem for problem in answer.problems if problem.choice in about]
    if not problems:
        return
    fixes = [fix for problem in problems if (fix := problem.fix)]
    fix = min(fixes, key=len) if fixes else {}
    keys = [key for key in fix if key in _KEYS and not (image and key != "torch")]
    hint = " and ".join(f"{_KEYS[key]}: {fix[key]}" for key in keys)
    other_gpu = "nvidia-tesla-t4" if machine.attached else "another machineType"
    nearest = " and ".join(_PHRASES[key].format(value) for key, value in fix.items() if key in _PHRASES)
    if image and nearest and "torch" not in fix:
        nearest = f"an image with {nearest}"
    text = "; ".join(problem.text for problem in problems)
    raise invalid(
        f"{subject}: {text}" if subject else text,
        "software-does-not-fit",
        expected=(_other_image(machine, choices) if image else "") or nearest,
        hint=hint or f"or use {other_gpu}",
    )


def _other_image(machine: Machine, choices: dict[str, Any]) -> str:
    """Return a text that names the newest driver of the image's publisher that works. Return "" if none works."""
    branches = driver_source(choices["driver_source"]).branches if "driver_source" in choices else None
    for branch in sorted(branches or (), reverse=True):
        if isinstance(solver.check(machine, **choices | {"driver_branch": branch}), solver.Works):
            return f"the publisher's image with driver {branch}"
    return ""
