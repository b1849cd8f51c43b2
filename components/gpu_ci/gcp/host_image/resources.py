"""What a stack creates for the build of a host image: its steps, its permissions, and the metadata of the builder.

The builder machine has provision.sh as its startup script, and the settings of the script in its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
from gpu_common import google_permissions

from ... import versions
from ..build_program import LOCK, PIP_INSTALL, BuildProgram
from ..machine.software import INSTALLER_BRANCHES

if TYPE_CHECKING:
    from ..host_image_pipeline import HostImagePipelineArgs

PROGRAM = BuildProgram("gcp/host_image", ("api", "build", "settings"))
"""The files of the program that the steps run."""
_PACKAGES = "/workspace/packages"
CALLS: Mapping[str, tuple[str, ...]] = {
    # The builder and the check machine have no service account.
    "compute.instances.insert": tuple(
        each for each in google_permissions.INSERT if each != "compute.instances.setServiceAccount"
    ),
    "compute.instances.delete": ("compute.instances.delete",),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.getGuestAttributes": ("compute.instances.getGuestAttributes",),
    "compute.instances.getSerialPortOutput": ("compute.instances.getSerialPortOutput",),
    "compute.instances.list": ("compute.instances.list",),
    "compute.instances.stop": ("compute.instances.stop",),
    "compute.instanceTemplates.aggregatedList": ("compute.instanceTemplates.list",),
    "compute.regionInstanceTemplates.get": ("compute.instanceTemplates.get",),
    "compute.zoneOperations.get": ("compute.zoneOperations.get",),
    "compute.globalOperations.get": ("compute.globalOperations.get",),
    # cloud.google.com/compute/docs/images/create-custom, "Required roles": for an image of a disk.
    "compute.images.insert": ("compute.images.create", "compute.images.setLabels", "compute.disks.useReadOnly"),
    "compute.images.list": ("compute.images.list",),
    "compute.images.setLabels": ("compute.images.setLabels",),
    "compute.images.delete": ("compute.images.delete",),
}
"""The permissions of the build in the project of the pipeline, by its API calls."""
SETTINGS_KEY = "gpu-image-settings"
"""The metadata key of the settings: lines with a name and a value of letters, digits and :/._+-."""
# GitHub's names of the architectures.
ARCHITECTURES = {"x86_64": "x64", "arm64": "arm64"}


def metadata(args: HostImagePipelineArgs) -> dict[str, str]:
    """Return the metadata of a builder machine. It has no secrets."""
    lines = "".join(f"{name}={value}\n" for name, value in settings(args).items())
    return {
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
        "startup-script": script(),
        SETTINGS_KEY: lines,
    }


def settings(args: HostImagePipelineArgs) -> dict[str, str]:
    """Return the settings of provision.sh. They are the same versions that a machine installs from another image."""
    architecture = ARCHITECTURES[args.machine.architecture]
    driver = args.driver
    return {
        "DRIVER": driver.source,
        **(
            {"BRANCH": INSTALLER_BRANCHES[driver.branch], "INSTALLER": versions.CUDA_INSTALLER}
            if driver.source == "installer"
            else {}
        ),
        "RUNNER": args.runner.version,
        "SHA256": args.runner.archives[architecture],
        "ARCHITECTURE": architecture,
        "TORCH": args.torch or versions.TORCH,
        "UV": versions.UV,
        "DOCKER": args.runner.docker,
    }


@cache
def script() -> str:
    """Return the provisioning script from provision.sh."""
    return Path(__file__).with_name("provision.sh").read_text(encoding="utf-8")


def steps(settings: pulumi.Input[str]) -> list[dict[str, Any]]:
    """Return the steps of the build: install the libraries by their hashes, build the image, check it."""
    commands: dict[str, list[pulumi.Input[str]]] = {
        "install": [*PIP_INSTALL, "--target", _PACKAGES, "--requirement", f"/workspace/{LOCK}"],
        **{each: ["-m", "gpu_ci.gcp.host_image", each, "--settings", settings] for each in ("build", "check")},
    }
    return [
        {
            "id": name,
            "name": versions.PYTHON_IMAGE,
            "entrypoint": "python",
            "args": args,
            "envs": [f"PYTHONPATH=/workspace:{_PACKAGES}", "PYTHONUNBUFFERED=1"],
        }
        for name, args in commands.items()
    ]
