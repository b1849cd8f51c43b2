"""What a GPU machine is given to boot with: one script, and in its metadata the agent and the smoke check, packed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import at_path, invalid, raise_problems
from ...payload import agent_archive, smoke_archive
from .agent_config import agent_config

if TYPE_CHECKING:
    import pulumi

    from .args import GpuMachineArgs
    from .runner import Registration

# Google's limit on one metadata value: 262,144 bytes (cloud.google.com/compute/docs/metadata/setting-custom-metadata).
METADATA_VALUE_LIMIT = 262_144
# Discovery document compute v1, Metadata.items: keys and values together "less than 512 KB".
METADATA_LIMIT = 524_288
# What the template's own entries come to beside the script, the agent and the check, the agent's configuration among
# them: that of a pool with a hundred labels of a hundred characters is 12 KiB.
_SMALL_ENTRIES = 16_384


def metadata(
    pool: str, args: GpuMachineArgs, deadline_sec: int, registration: Registration | None = None
) -> dict[str, pulumi.Input[str]]:
    """Metadata that makes a machine get its driver, check its GPU at boot, say what it found, and where it is told as
    whom, register a runner."""
    return {
        "enable-guest-attributes": "TRUE",
        "startup-script": script(),
        "gpu-agent-pyz": agent_archive(),
        "gpu-agent-config": agent_config(pool, args, deadline_sec, registration),
        "gpu-smoke-pyz": smoke_archive(),
    }


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
        errors.append(at_path(error, key, key))
    raise_problems(errors)
    total = sum(len(key) + len(value.encode()) for key, value in values.items() if isinstance(value, str))
    room = METADATA_LIMIT - sum(map(len, (script().encode(), agent_archive(), smoke_archive()))) - _SMALL_ENTRIES
    if total > room:
        raise invalid(
            f"is {total} bytes, and beside the agent and the check there is room for {room}",
            hint="put the largest into a bucket, and its name here",
        )
    return values


@cache
def script() -> str:
    """The boot script, as it is in boot.sh."""
    return Path(__file__).with_name("boot.sh").read_text(encoding="utf-8")
