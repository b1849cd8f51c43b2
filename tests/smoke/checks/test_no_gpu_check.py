"""The container beside the check that asked for no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import environment

HINT = (
    "hint: its node gives GPUs to whoever says NVIDIA_VISIBLE_DEVICES=all: set "
    "accept-nvidia-visible-devices-envvar-when-unprivileged = false in /etc/nvidia-container-runtime/config.toml"
)


def run(folder: Path, *devices: str) -> tuple[int, str, str]:
    """Its exit code, its message and what it says, in a container with these devices."""
    (folder / "dev").mkdir()
    for name in devices:
        (folder / "dev" / name).touch()
    log = folder / "log"
    words = ["--no-gpu-in", str(folder / "dev"), "--pool", "l4", "--termination-log", str(log)]
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, log.read_text(), done.stderr


def test_without_a_gpu_it_passes_and_needs_no_torch(tmp_path: Path) -> None:
    assert run(tmp_path, "null", "nvidiactl", "nvidia-uvm", "nvidia-caps") == (
        0,
        "l4: pass: who asked for no GPU has none\n",
        "gpu-smoke: l4: pass: who asked for no GPU has none\n",
    )


@pytest.mark.parametrize(
    ("devices", "words"), [(["nvidia0"], "1: nvidia0"), (["nvidia7", "nvidiactl", "nvidia3"], "2: nvidia3, nvidia7")]
)
def test_with_one_the_environment_is_at_fault_and_the_node_is_to_be_closed(
    tmp_path: Path, devices: list[str], words: str
) -> None:
    told = f"l4: a container that asked for no GPU has {words}\n{HINT}\n"
    assert run(tmp_path, *devices) == (2, told, f"gpu-smoke: {told}")
