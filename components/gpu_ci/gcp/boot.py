"""What a GPU machine is given to boot with: one script, and the smoke check packed into its metadata."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import versions
from ..errors import invalid, located, refuse
from ..payload import smoke_archive
from . import software_rules

if TYPE_CHECKING:
    from .gpu_machine import GpuMachineArgs
    from .machine_parts import Driver

# Google's limit on one metadata value: 262,144 bytes (cloud.google.com/compute/docs/metadata/setting-custom-metadata).
METADATA_VALUE_LIMIT = 262_144
# Discovery document compute v1, Metadata.items: keys and values together "less than 512 KB".
METADATA_LIMIT = 524_288
# What the template's own entries come to beside the script and the check: a few hundred bytes.
_SMALL_ENTRIES = 2048

# What is left of the gate's deadline for a machine to boot and for its verdict to arrive, in seconds.
_OVERHEAD_SEC = 60


def metadata(pool: str, args: GpuMachineArgs, deadline_sec: int) -> dict[str, str]:
    """Metadata that makes a machine get its driver, check its GPU at boot and say what it found."""
    machine, driver = args.machine, args.driver
    expectations = {
        "--pool": pool,
        "--expect-gpus": str(machine.api_gpu_count),
        # What a fraction of a GPU calls itself, no source tells.
        "--expect-gpu": machine.gpu.device_name if machine.gpu_count >= 1 else "",
        "--min-compute-capability": machine.gpu.compute_capability,
    }
    return {
        "enable-guest-attributes": "TRUE",
        "startup-script": script(),
        "gpu-smoke-pyz": smoke_archive(),
        "gpu-smoke-args": "\n".join(word for pair in expectations.items() if pair[1] for word in pair),
        "gpu-smoke-deadline-sec": str(max(deadline_sec - _OVERHEAD_SEC, 60)),
        "gpu-smoke-torch": args.torch or versions.TORCH,
        "gpu-smoke-uv": versions.UV,
        **_driver(driver),
    }


def _driver(driver: Driver) -> dict[str, str]:
    """What the boot script needs to install a driver; nothing where the image brings one."""
    if driver.source == "installer":
        return {
            "gpu-driver-source": "installer",
            "gpu-driver-branch": software_rules.INSTALLER_BRANCHES[driver.branch],
            "gpu-driver-installer": versions.CUDA_INSTALLER,
        }
    if driver.source == "cos":
        return {
            "gpu-driver-source": "cos",
            "gpu-driver-branch": f"R{driver.branch}",
            "gpu-smoke-image": driver.check_image,
        }
    return {}


# What the boot script and the machine's protection hang on, and what else runs or opens something by its mere presence
# (cloud.google.com/compute/docs/metadata/predefined-metadata-keys).
_RESERVED = re.compile(
    r"enable-.*|block-project-ssh-keys|serial-port-.*|startup-script.*|shutdown-script.*|user-data.*|ssh-?keys|ssh-.*"
    r"|gpu-.*|gce-.*|google-.*|cos-.*|windows-.*|sysprep-.*|vmdnssetting",
    re.IGNORECASE,
)
# Discovery document compute v1, Metadata.items.key: [a-zA-Z0-9-_]+, less than 128 bytes.
_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")


def free_metadata(values: dict[str, Any]) -> dict[str, Any]:
    """Keys that are nobody else's: not the boot script's, nor those the machine's protection hangs on."""
    errors = []
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            error = invalid(
                "is no key Google takes", expected="letters, digits, _ and -, at most 127", hint="rename it"
            )
        elif _RESERVED.fullmatch(key):
            error = invalid("is a key of the template or of Google's own", hint="rename it")
        elif isinstance(value, str) and len(value.encode()) > METADATA_VALUE_LIMIT:
            error = invalid(
                f"has more than {METADATA_VALUE_LIMIT} bytes", hint="put it into a bucket, and its name here"
            )
        else:
            continue
        errors.append(located(error, key, key))
    refuse(errors)
    total = sum(len(key) + len(value.encode()) for key, value in values.items() if isinstance(value, str))
    room = METADATA_LIMIT - len(script().encode()) - len(smoke_archive()) - _SMALL_ENTRIES
    if total > room:
        raise invalid(
            f"is {total} bytes, and beside the check there is room for {room}",
            hint="put the largest into a bucket, and its name here",
        )
    return values


@cache
def script() -> str:
    """The boot script, as it is in boot.sh."""
    return Path(__file__).with_name("boot.sh").read_text(encoding="utf-8")
