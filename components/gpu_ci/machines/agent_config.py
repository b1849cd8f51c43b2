"""The configuration of the boot agent, which each machine reads at boot."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pulumi
from gpu_catalog import Machine

from .. import versions
from ..args import is_late
from .runner import Registration

# The part of the gate's deadline for the boot of the machine and the report of its verdict. The rest is for the check.
_OVERHEAD_SEC = 60


def config_of(
    pool: str,
    machine: Machine,
    deadline_sec: int,
    registration: Registration | None,
    *,
    torch: str | None,
    driver: Mapping[str, str],
    installs: bool = True,
    reuse: bool = False,
) -> pulumi.Input[str]:
    """Return the configuration of the boot agent (agent/gpu_agent/config.py) as JSON, without secrets.

    The result is a plain string if every value is known.

    Args:
        pool: The name of the pool.
        machine: The machine that the check expects.
        deadline_sec: The seconds from the start of a machine to its verdict.
        registration: The settings of its runner; None without a runner.
        torch: The torch version that the check installs; None for the default.
        driver: The source of the driver, and the settings of its installation.
        installs: False if the check fails on an image that lacks the runner or torch.
        reuse: True if its host may run several jobs.
    """
    expectations = {
        "--pool": pool,
        "--expect-gpus": str(math.ceil(machine.gpu_count)),
        # The device name of a fraction of a GPU is not documented.
        "--expect-gpu": machine.gpu.device_name if machine.gpu_count >= 1 else "",
        "--min-compute-capability": machine.gpu.compute_capability,
    }
    config = {
        "pool": pool,
        "check_args": [part for option in expectations.items() if option[1] for part in option],
        "check_sec": max(deadline_sec - _OVERHEAD_SEC, 60),
        "torch": torch or versions.TORCH,
        "driver": dict(driver),
        **({"reuse": True} if reuse else {}),
        **(_registration_config(registration) if registration else {}),
    }
    if not installs:
        config["installs"] = False
        config["runner"]["installs"] = False
    return pulumi.Output.json_dumps(config) if is_late(config) else json.dumps(config)


def _registration_config(registration: Registration) -> dict[str, Any]:
    """Return the settings of the runner. If the machine registers its runner, also return the settings of the App."""
    github, runner, labels = registration[:3]
    settings = {
        "version": runner.version,
        "sha256": runner.archives,
        "docker": runner.docker,
        "idle_sec": runner.idle_sec,
        "register_sec": runner.register_sec,
        "notice_grace_sec": runner.notice_grace_sec,
        **({"warm_sec": registration.warm_sec} if registration.warm_sec else {}),
        **({"public": True} if github.public_repositories else {}),
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
