"""Creates the metadata for the boot of a machine: the boot script, and archives of the boot agent and gpu-smoke."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from ... import versions
from ...errors import at_path, invalid, raise_problems
from ...machines.agent_config import config_of
from ...payload import agent_archive, smoke_archive
from . import software

if TYPE_CHECKING:
    from ...machines.runner import Registration
    from .args import Driver, GpuMachineArgs

# Google's limit on one metadata value: 262,144 bytes (cloud.google.com/compute/docs/metadata/setting-custom-metadata).
METADATA_VALUE_LIMIT = 262_144
# Discovery document compute v1, Metadata.items: keys and values together "less than 512 KB".
METADATA_LIMIT = 524_288
# The bytes that are reserved for the other entries of the template, such as the agent's configuration. For a pool with
# a hundred labels of a hundred characters, the configuration has 12 KiB.
_SMALL_ENTRIES = 16_384


def metadata(
    pool: str,
    args: GpuMachineArgs,
    deadline_sec: int,
    registration: Registration | None = None,
    *,
    installs: bool = True,
) -> dict[str, pulumi.Input[str]]:
    """Return the metadata for the boot of a machine.

    The boot agent in the metadata installs the driver, checks the GPU and reports the result. If `registration` is set,
    it then runs a GitHub runner. Without `installs`, the check fails if the image lacks the runner or torch.
    """
    return {
        "enable-guest-attributes": "TRUE",
        "startup-script": script(),
        "gpu-agent-pyz": agent_archive(),
        "gpu-agent-config": agent_config(pool, args, deadline_sec, registration, installs=installs),
        "gpu-smoke-pyz": smoke_archive(),
    }


# The keys that users must not set. The template sets some of them. With others, Google's software would run a program
# or give access to the machine (cloud.google.com/compute/docs/metadata/predefined-metadata-keys).
_RESERVED = re.compile(
    r"enable-.*|block-project-ssh-keys|serial-port-.*|startup-script.*|shutdown-script.*|user-data.*|ssh-?keys|ssh-.*"
    r"|gpu-.*|gce-.*|google-.*|cos-.*|windows-.*|sysprep-.*|vmdnssetting",
    re.IGNORECASE,
)
# Discovery document compute v1, Metadata.items.key: [a-zA-Z0-9-_]+, less than 128 bytes.
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")


def custom_metadata(values: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a user. Raise an error for reserved keys and for values that are too large."""
    errors = []
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            error = invalid(
                "is not a valid metadata key",
                "wrong-name",
                expected="letters, digits, _ and -, at most 127",
                hint="rename it",
            )
        elif _RESERVED.fullmatch(key):
            error = invalid("is a reserved metadata key of gpu-ci or Google", "reserved-name", hint="rename it")
        elif isinstance(value, str) and len(value.encode()) > METADATA_VALUE_LIMIT:
            error = invalid(
                f"has more than {METADATA_VALUE_LIMIT} bytes",
                "metadata-too-large",
                hint="store the value in a bucket, and give the name of the object here",
            )
        else:
            continue
        errors.append(at_path(error, key, key))
    raise_problems(errors)
    total = sum(len(key) + len(value.encode()) for key, value in values.items() if isinstance(value, str))
    available = METADATA_LIMIT - sum(map(len, (script().encode(), agent_archive(), smoke_archive()))) - _SMALL_ENTRIES
    if total > available:
        raise invalid(
            f"is {total} bytes, but the agent and the check leave {available} bytes",
            "metadata-too-large",
            hint="store the largest value in a bucket, and give the name of the object here",
        )
    return values


@cache
def script() -> str:
    """Return the boot script from boot.sh."""
    return Path(__file__).with_name("boot.sh").read_text(encoding="utf-8")


def agent_config(
    pool: str,
    args: GpuMachineArgs,
    deadline_sec: int,
    registration: Registration | None,
    *,
    installs: bool = True,
) -> pulumi.Input[str]:
    """Return the configuration of the boot agent as JSON, without secrets."""
    driver = _driver(args.driver)
    return config_of(pool, args.machine, deadline_sec, registration, torch=args.torch, driver=driver, installs=installs)


def _driver(driver: Driver) -> dict[str, str]:
    """Return the source of the driver, and the settings of its installation."""
    if driver.source == "installer":
        return {
            "source": "installer",
            "branch": software.INSTALLER_BRANCHES[driver.branch],
            "installer": versions.CUDA_INSTALLER,
            "sha256": driver.sha256,
        }
    if driver.source == "cos":
        return {"source": "cos", "branch": f"R{driver.branch}", "image": driver.check_image}
    return {"source": "image"}
