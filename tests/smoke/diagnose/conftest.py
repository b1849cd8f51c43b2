"""The files of a machine, and a diagnosis of that machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .. import nvml_library
from ..conftest import FAKES, ONE_GPU, environment

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03"
EFI = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


ALL_WELL: dict[str, Any] = {}


class Said(NamedTuple):
    """The results of one diagnosis."""

    code: int
    record: dict[str, Any]

    def wrong(self) -> list[str]:
        return [check["id"] for check in self.record["checks"] if check["status"] in ("fail", "error")]

    def one(self, name: str) -> dict[str, Any]:
        return next(check for check in self.record["checks"] if check["id"] == name)


Diagnose = Callable[..., Said]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a machine with two GPUs and a driver, Secure Boot off, and a kernel log without errors."""
    root = Path(shutil.copytree(FAKES / "root", tmp_path / "root"))
    for number, address in enumerate(("0000:00:04.0", "0000:00:05.0")):
        put(root, f"sys/bus/pci/devices/{address}/vendor", "0x10de\n")
        put(root, f"sys/bus/pci/devices/{address}/class", "0x030200\n")
        bind(root, address, "nvidia")
        put(
            root, f"proc/driver/nvidia/gpus/{address}/information", f"Model: \t NVIDIA L4\nGPU UUID: \t GPU-{number}a\n"
        )
    put(root, "sys/bus/pci/devices/0000:00:01.0/vendor", "0x1af4\n")
    put(root, "proc/modules", "nvidia 111 0 - Live 0x0\nnvidia_uvm 111 0 - Live 0x0\n")
    put(root, "dev/kmsg", "6,1,100,-;nvidia: loading out-of-tree module taints kernel.\n")
    (root / EFI).parent.mkdir(parents=True)
    (root / EFI).write_bytes(b"\x06\0\0\0\0")
    (root / "tmp").mkdir()
    return root


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def bind(root: Path, address: str, driver: str) -> None:
    link = root / "sys/bus/pci/devices" / address / "driver"
    link.unlink(missing_ok=True)
    link.symlink_to(f"../../../../bus/pci/drivers/{driver}")


def without_driver(root: Path) -> None:
    shutil.rmtree(root / "proc/driver")
    put(root, "proc/modules", "virtio_net 1 0 - Live 0x0\n")
    for node in (root / "dev").glob("nvidia*"):
        node.unlink()


@pytest.fixture
def diagnose(root: Path, nvml_folder: Path) -> Diagnose:
    """Run the command on that machine.

    `nvml` has the answers of its libnvidia-ml.so.1; None for a machine without one.
    """

    def run(*args: str, env: dict[str, str] | None = None, nvml: dict[str, Any] | None = ALL_WELL, **fake: Any) -> Said:
        about = {} if nvml is None else nvml_library.variables(nvml_folder, nvml)
        done = subprocess.run(
            [sys.executable, "-m", "gpu_smoke", "diagnose", "--json", "-", *args],
            env={**environment(**{"gpus": ONE_GPU, **fake}), "GPU_SMOKE_ROOT": str(root), **about, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stderr == ""
        record = json.loads(done.stdout)
        assert (record["exit_code"], record["ok"]) == (done.returncode, done.returncode == 0)
        for check in record["checks"]:
            assert check["looked_at"]
            assert bool(check["next"]) is (check["status"] in ("fail", "error", "warn")), check
        return Said(done.returncode, record)

    return run


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": "void"}
