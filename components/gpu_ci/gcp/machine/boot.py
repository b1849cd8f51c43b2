"""Creates the metadata for the boot of a machine: the boot script, and archives of the boot agent and gpu-smoke."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from ... import versions
from ...args import is_late
from ...errors import at_path, invalid, raise_problems
from ...payload import agent_archive, smoke_archive
from . import software

if TYPE_CHECKING:
    from .args import Driver, GpuMachineArgs
    from .runner import Registration

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


# The part of the gate's deadline for the boot of the machine and the report of its verdict. The rest is for the check.
_OVERHEAD_SEC = 60


def agent_config(
    pool: str,
    args: GpuMachineArgs,
    deadline_sec: int,
    registration: Registration | None,
    *,
    installs: bool = True,
) -> pulumi.Input[str]:
    """Return the configuration of the boot agent (agent/gpu_agent/config.py) as JSON, without secrets.

    The result is a plain string if every value is known.
    """
    machine = args.machine
    expectations = {
        "--pool": pool,
        "--expect-gpus": str(machine.api_gpu_count),
        # The device name of a fraction of a GPU is not documented.
        "--expect-gpu": machine.gpu.device_name if machine.gpu_count >= 1 else "",
        "--min-compute-capability": machine.gpu.compute_capability,
    }
    config = {
        "pool": pool,
        "check_args": [part for option in expectations.items() if option[1] for part in option],
        "check_sec": max(deadline_sec - _OVERHEAD_SEC, 60),
        "torch": args.torch or versions.TORCH,
        "driver": _driver(args.driver),
        **(_registration_config(registration) if registration else {}),
    }
    if not installs:
        config["installs"] = False
        config["runner"]["installs"] = False
    return pulumi.Output.json_dumps(config) if is_late(config) else json.dumps(config)


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


def _registration_config(registration: Registration) -> dict[str, Any]:
    """Return the settings of the runner. If the machine registers its runner, also return the settings of the App."""
    github, runner, labels = registration
    settings = {
        "version": runner.version,
        "sha256": runner.archives,
        "docker": runner.docker,
        "idle_sec": runner.idle_sec,
        "register_sec": runner.register_sec,
        "notice_grace_sec": runner.notice_grace_sec,
    }
    if github.registered_by == "manager":
        return {"registered_by": "manager", "runner": settings}
    return {
        "github": {
            "owner": github.owner,
            "app_id": github.app_id,
            "installation_id": github.installation_id,
            "private_key": github.private_key,
            "labels": list(labels),
            "runner_group": github.runner_group,
            **({"repository": github.repository} if github.repository else {}),
            **({"api_url": github.api_url} if github.api_url else {}),
        },
        "runner": settings,
    }
