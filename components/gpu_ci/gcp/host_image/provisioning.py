"""Creates the metadata of a builder machine: provision.sh as its startup script, and the settings of the script."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ... import versions
from ..machine.software import INSTALLER_BRANCHES

if TYPE_CHECKING:
    from ..host_image_pipeline import HostImagePipelineArgs

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
