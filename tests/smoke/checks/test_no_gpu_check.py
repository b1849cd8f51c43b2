"""The check in a container that requested no GPU."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_smoke import no_gpu_check, options

from ..conftest import environment

HINT = (
    "hint: its node gives GPUs to every container with NVIDIA_VISIBLE_DEVICES=all: set "
    "accept-nvidia-visible-devices-envvar-when-unprivileged = false in /etc/nvidia-container-runtime/config.toml"
)


def run(folder: Path, *devices: str) -> tuple[int, str, str]:
    """Return exit code, termination message and output in a container with these devices."""
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
        "l4: pass: a container that requested no GPU has none\n",
        "gpu-smoke: l4: pass: a container that requested no GPU has none\n",
    )


@pytest.mark.parametrize(
    ("devices", "words"), [(["nvidia0"], "1: nvidia0"), (["nvidia7", "nvidiactl", "nvidia3"], "2: nvidia3, nvidia7")]
)
def test_a_container_with_an_unrequested_gpu_fails_with_the_setting_to_change(
    tmp_path: Path, devices: list[str], words: str
) -> None:
    told = f"l4: a container that requested no GPU has {words}\n{HINT}\n"
    assert run(tmp_path, *devices) == (2, told, f"gpu-smoke: {told}")


class Network:
    """A network that accepts this many connections. Each attempt takes a second of its clock."""

    def __init__(self, answered: Iterator[bool], patch: pytest.MonkeyPatch) -> None:
        self.asked: list[object] = []
        self.answered = answered
        patch.setattr(socket, "create_connection", self.connect)
        patch.setattr(time, "monotonic", lambda: float(len(self.asked)))
        patch.setattr(time, "sleep", lambda _: None)

    def connect(self, address: object, _: float) -> socket.socket:
        self.asked.append(address)
        if not next(self.answered):
            raise TimeoutError
        return socket.socket()


def verdict(folder: Path, answered: list[bool], patch: pytest.MonkeyPatch) -> tuple[int, str, list[object]]:
    (folder / "dev").mkdir()
    network = Network(iter(answered), patch)
    words = ["--no-gpu-in", str(folder / "dev"), "--closed-to", "10.100.0.1:443", "--pool", "l4"]
    code = no_gpu_check.run(options.parse([*words, "--termination-log", str(folder / "log")], {}))
    return code, (folder / "log").read_text().splitlines()[0], network.asked


@pytest.mark.parametrize("answered", [[False, False], [True] * 20 + [False, True, False, False]])
def test_an_address_that_policies_close_after_a_while_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: list[bool]
) -> None:
    code, told, asked = verdict(tmp_path, answered, monkeypatch)
    assert (code, told) == (0, "l4: pass: a container that requested no GPU has none")
    assert asked == [("10.100.0.1", 443)] * len(answered)


@pytest.mark.parametrize("answered", [[True] * 30, [False, True] * 15])
def test_an_address_that_still_answers_after_half_a_minute_is_the_environments_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: list[bool]
) -> None:
    code, told, asked = verdict(tmp_path, answered, monkeypatch)
    assert (code, told) == (2, "l4: a container reaches 10.100.0.1:443, which network policies should block")
    assert len(asked) == 30
