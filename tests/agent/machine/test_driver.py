"""The driver from each of its sources, with stubs for the programs that install it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import shutil
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from gpu_agent import http
from gpu_agent.clock import Clock
from gpu_agent.config import Config, DriverConfig
from gpu_agent.machine import driver
from gpu_agent.machine.commands import Machine
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes.boot import Tools
from tests.agent.fakes.clock import FakeClock

CONTENT = b"the installer"
INSTALLER = DriverConfig(
    source="installer",
    branch="lts",
    installer="https://releases.example/cuda_installer.pyz",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)
COS = DriverConfig(source="cos", branch="R580", image="registry.example/torch@sha256:00")


def configured(source: DriverConfig, check_sec: int = 600) -> Config:
    return Config("l4", ["--expect-gpus", "1"], check_sec, "2.13.0", source)


class Driven:
    """One boot of a machine."""

    def __init__(self, folder: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.tools = tools
        self.clock = FakeClock()
        self.serial: list[str] = []
        self.restarting: list[bool] = []
        self.downloads: list[str] = []
        self.way_out = True
        self.machine = Machine(self.clock, self.serial.append, folder, folder / "state")
        self.tools.add("nvidia-smi", f'[[ -e "{folder}/driver" ]] || {{ echo "No devices were found"; exit 6; }}')
        monkeypatch.setattr(http, "download", self._download)

    def _download(self, url: str, sink: BinaryIO, **_: Any) -> None:
        self.downloads.append(url)
        if not self.way_out:
            raise http.Unreachable("GET", url, "no complete answer before the deadline")
        shutil.copyfileobj(io.BytesIO(CONTENT), sink)

    def installs(self, text: str) -> None:
        """Replace python3, which is only used to run the installer."""
        self.tools.add("python3", f'echo "${{*:2}}" >>"{self.folder}/calls"\n{text}')

    def has_driver(self) -> None:
        (self.folder / "driver").touch()

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def boot(self, source: DriverConfig) -> None:
        config = configured(source)
        deadline = driver.deadline(config, self.machine)
        driver.get_driver(config, self.machine, deadline, self.restarting.append)

    def fails(self, source: DriverConfig) -> str:
        with pytest.raises(AgentExit) as raised:
            self.boot(source)
        assert raised.value.end.reason == "no-driver"
        return raised.value.detail


@pytest.fixture
def driven(tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> Driven:
    return Driven(tmp_path, tools, monkeypatch)


def test_an_image_whose_driver_does_not_load_fails_after_a_minute(driven: Driven) -> None:
    assert driven.fails(DriverConfig()) == "nvidia-smi does not answer: No devices were found"
    assert sum(driven.clock.slept) == 58


def test_an_images_driver_that_loads_late_is_waited_for(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = driven.clock.sleep

    def sleep_until_it_is_there(seconds: float) -> None:
        sleep(seconds)
        if len(driven.clock.slept) == 3:
            driven.has_driver()

    monkeypatch.setattr(driven.clock, "sleep", sleep_until_it_is_there)
    driven.boot(DriverConfig())
    assert driven.clock.slept == [2, 2, 2]


def test_the_installer_is_fetched_and_run_and_its_restart_is_expected_while_it_runs(driven: Driven) -> None:
    driven.installs(f'touch() {{ :>"$1"; }}; touch "{driven.folder}/driver"')
    driven.boot(INSTALLER)
    assert driven.downloads == ["https://releases.example/cuda_installer.pyz"]
    assert driven.calls == ["install_driver --installation-mode=binary --installation-branch=lts"]
    assert driven.restarting == [True, False]
    assert list(driven.machine.state.iterdir()) == []


def test_an_installer_with_another_checksum_does_not_run(driven: Driven) -> None:
    driven.installs("true")
    with pytest.raises(AgentExit, match="has the SHA-256") as raised:
        driven.boot(dataclasses.replace(INSTALLER, sha256="0" * 64))
    assert raised.value.end.reason == "wrong-checksum"
    assert (driven.calls, driven.restarting) == ([], [])
    assert sorted(file.name for file in driven.machine.state.iterdir()) == ["began", "restarts"]


@pytest.mark.parametrize(
    ("text", "code", "waited"), [("exit 0", 0, 300), ("exit 3", 3, 0), ("kill -TERM $$", 143, 300)]
)
def test_an_installer_that_ends_without_a_driver_has_time_to_restart_only_where_it_may(
    driven: Driven, text: str, code: int, waited: int
) -> None:
    driven.installs(f'echo "the last words"; {text}')
    assert driven.fails(INSTALLER) == f"cuda_installer ended with code {code} and the driver is missing: the last words"
    assert sum(driven.clock.slept) == waited


@pytest.mark.parametrize(("source", "left"), [(INSTALLER, 500), (DriverConfig(), 600)])
def test_the_deadline_counts_from_the_first_boot_where_there_may_be_another(
    driven: Driven, source: DriverConfig, left: int
) -> None:
    config = configured(source)
    driver.deadline(config, driven.machine)
    driven.clock.sleep(100)
    assert driver.deadline(config, driven.machine) - driven.clock.now() == left


@pytest.mark.parametrize("source", [INSTALLER, COS])
def test_no_driver_is_installed_outside_compute_engine(driven: Driven, source: DriverConfig) -> None:
    driven.machine = Machine(
        driven.clock, driven.serial.append, driven.folder, driven.folder / "state", is_google=False
    )
    assert driven.fails(source) == "drivers are installed only on Compute Engine VMs, and this is not one"
    assert not driven.machine.state.exists()


def test_a_driver_that_container_optimized_os_lacks_is_named(driven: Driven) -> None:
    driven.tools.add("cos-extensions", 'echo "no such driver" >&2; exit 1')
    assert driven.fails(COS) == "Container-Optimized OS could not install driver R580: no such driver"


def test_a_line_without_an_end_comes_in_pieces_that_googles_script_runner_copies(tmp_path: Path) -> None:
    said: list[str] = []
    machine = Machine(Clock(), said.append, tmp_path, tmp_path)
    program = "import sys; sys.stdout.write('x' * 200_000 + '\\nend\\n')"
    done = machine.run(sys.executable, "-c", program, deadline=time.monotonic() + 60)
    assert (done.code, done.last) == (0, "end")
    assert "".join(line.removeprefix("| ") for line in said) == "x" * 200_000 + "end"
    # Go's bufio.Scanner ends at a line of 65,536 bytes.
    assert max(len(line) for line in said) <= 4_098
