"""Creates the configuration of a machine's boot agent, which agent/gpu_agent/config.py reads. It has no secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pulumi

from ... import versions
from ...args import is_late
from . import software

if TYPE_CHECKING:
    from .args import Driver, GpuMachineArgs
    from .runner import Registration

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
    """Return the configuration as JSON. The result is a plain string if every value is known."""
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
