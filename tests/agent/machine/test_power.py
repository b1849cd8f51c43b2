"""The last way to switch a machine off, which must not switch any other computer off."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from gpu_agent.machine import processes


class Kernel:
    """A kernel that records the call and stays on."""

    asked: list[int]

    def reboot(self, how: int) -> int:
        self.asked.append(how)
        return 0


@pytest.mark.parametrize(
    ("maker", "user", "asked"),
    [("Google Compute Engine", 0, [0x4321FEDC]), ("Google Compute Engine", 1000, []), ("KVM", 0, []), (None, 0, [])],
)
def test_only_root_on_a_compute_engine_vm_switches_it_off_with_the_kernel(
    maker: str | None, user: int, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    kernel.asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: kernel)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(processes, "_PRODUCT", tmp_path / "product_name")
    if maker:
        (tmp_path / "product_name").write_text(f"{maker}\n")
    processes.cut_power()
    assert kernel.asked == asked
