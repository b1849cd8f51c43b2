"""Provides the NVIDIA driver, from one of three sources: the image, Google's installer, or Container-Optimized OS.

Google's installer (cuda_installer) restarts the machine. Files in the state folder tell the next boot where to
continue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from .. import http
from ..config import Config
from ..outcomes import AgentExit
from .commands import BY_SIGNAL, NOT_FOUND, Machine

# How long an image's driver may take to load. No source gives a value; it is usually ready seconds after the boot.
_LOAD_SEC = 60.0
# cuda_installer needs one or two restarts. After this number it makes no progress.
_RESTARTS = 3
# Seconds from the end of the installer to the restart that it requested.
_RESTART_SEC = 300.0
# Far above the size of any installer so far, as a limit for a server that never stops.
_INSTALLER_BYTES = 50_000_000
_STOPPED = (BY_SIGNAL + 15, BY_SIGNAL + 9)
# Files that one boot leaves for the next, until the driver works.
_BEGAN, _COUNTER, _ARCHIVE = "began", "restarts", "cuda_installer.pyz"


def deadline(config: Config, machine: Machine) -> float:
    """Return the deadline of the check. With the installer, it counts from the first boot, before its restarts."""
    return machine.clock.now() + config.check_sec - _elapsed_sec(config, machine)


def _elapsed_sec(config: Config, machine: Machine) -> float:
    if config.driver.source != "installer" or not machine.is_google:
        return 0
    machine.state.mkdir(parents=True, exist_ok=True)
    began_file, now = machine.state / _BEGAN, machine.clock.unix()
    began_unix = _number(began_file)
    if began_unix is None:
        began_file.write_text(f"{now:.0f}\n")
    return max(now - (now if began_unix is None else began_unix), 0)


def _number(file: Path) -> int | None:
    """Return the number that an earlier boot wrote, or None if it is missing or incomplete."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def get_driver(config: Config, machine: Machine, deadline: float, restarting: Callable[[bool], None]) -> None:
    """Return when the driver works. Raises AgentExit("no-driver") if it cannot be installed.

    `restarting` receives True while the installer may restart the machine at any time. The agent does not report
    such a restart as the end of the machine.
    """
    source = config.driver.source
    if source == "image":
        _wait_for_image(machine, deadline)
        return
    if not machine.is_google:
        # A sandbox boots machines on a user's computer, whose driver must not change.
        raise AgentExit("no-driver", "drivers are installed only on Compute Engine VMs, and this is not one")
    if source == "cos":
        _cos(config, machine, deadline)
        return
    _install(config, machine, deadline, restarting)
    # The restarts have served their purpose, so a later start of the machine counts from zero.
    for name in (_BEGAN, _COUNTER, _ARCHIVE):
        (machine.state / name).unlink(missing_ok=True)


def _answers(machine: Machine, deadline: float) -> bool:
    return machine.run("nvidia-smi", deadline=deadline, quiet=True).code == 0


def _wait_for_image(machine: Machine, deadline: float) -> None:
    until = min(deadline, machine.clock.now() + _LOAD_SEC)
    while (done := machine.run("nvidia-smi", deadline=until, quiet=True)).code:
        if done.code == NOT_FOUND:
            return  # no wait can help, and the check has a better message for a missing driver
        if machine.clock.now() + 2 >= until:
            raise AgentExit("no-driver", f"nvidia-smi does not answer: {done.last or f'code {done.code}'}")
        machine.clock.sleep(2)


def _cos(config: Config, machine: Machine, deadline: float) -> None:
    branch = config.driver.branch
    done = machine.run("cos-extensions", "install", "gpu", "--", f"-version={branch}", deadline=deadline)
    if done.code:
        raise AgentExit("no-driver", f"Container-Optimized OS could not install driver {branch}: {done.last}")
    # The disk forbids the execution of its files, including the driver's libraries and tools.
    for arguments in (("--bind", "/var/lib/nvidia", "/var/lib/nvidia"), ("-o", "remount,exec", "/var/lib/nvidia")):
        done = machine.run("mount", *arguments, deadline=deadline)
        if done.code:
            raise AgentExit("no-driver", f"/var/lib/nvidia could not be made executable: {done.last}")


def _install(config: Config, machine: Machine, deadline: float, restarting: Callable[[bool], None]) -> None:
    if _answers(machine, deadline):
        return
    counter, archive = machine.state / _COUNTER, machine.state / _ARCHIVE
    restarts = _number(counter) or 0
    if restarts > _RESTARTS:
        raise AgentExit(
            "no-driver", f"cuda_installer has restarted the machine {restarts} times, and the driver is still missing"
        )
    counter.write_text(f"{restarts + 1}\n")
    if not archive.exists():
        _fetch(config.driver.installer, config.driver.sha256, archive, machine, deadline)
    restarting(True)
    # The long-term branch exists only in this mode, in which the installer restarts the machine itself.
    done = machine.run(
        "python3",
        str(archive),
        "install_driver",
        "--installation-mode=binary",
        f"--installation-branch={config.driver.branch}",
        deadline=deadline,
    )
    if done.code in (0, *_STOPPED) and not _answers(machine, deadline):
        machine.clock.sleep(min(_RESTART_SEC, deadline - machine.clock.now()))
    restarting(False)
    if not _answers(machine, deadline):
        raise AgentExit(
            "no-driver", f"cuda_installer ended with code {done.code} and the driver is missing: {done.last}"
        )


def _fetch(url: str, sha256: str, archive: Path, machine: Machine, deadline: float) -> None:
    """Download the installer, which runs as root. Raises AgentExit: no-driver, or wrong-checksum."""
    part = archive.with_suffix(".part")
    for wait_sec in (5, 10, 20, 0):
        try:
            with part.open("wb") as sink:
                http.download(url, sink, deadline=deadline, clock=machine.clock, limit_bytes=_INSTALLER_BYTES)
        except http.Unreachable as error:
            why = str(error)
            machine.clock.sleep(min(wait_sec, deadline - machine.clock.now()))
        else:
            got = hashlib.sha256(part.read_bytes()).hexdigest()
            if got != sha256:
                part.unlink()
                raise AgentExit("wrong-checksum", f"{url} has the SHA-256 {got}, expected {sha256}")
            part.rename(archive)
            return
    raise AgentExit("no-driver", f"cuda_installer could not be downloaded: {why}; the network may lack internet access")
