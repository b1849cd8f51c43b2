"""Docker that runs as the runner's user (docs.docker.com/engine/security/rootless)."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from ..clock import Clock
from ..machine import processes
from ..machine.system import ENVIRONMENT, System, User
from ..outcomes import AgentExit

# Each program with the Docker or Debian package that contains it.
_NEEDS = {
    "dockerd-rootless.sh": "docker-ce-rootless-extras",
    "dockerd": "docker-ce",
    "docker": "docker-ce-cli",
    "slirp4netns": "slirp4netns",
    "newuidmap": "uidmap",
    "newgidmap": "uidmap",
}
_LEAST_IDS = 65_536  # rootless Docker needs at least so many subordinate ids (the page above)


def start(user: User, system: System, clock: Clock, deadline: float) -> Mapping[str, str]:
    """Start Docker, wait until it answers, and return the environment variables for its clients.

    Raises AgentExit: no-tool, no-docker, not-isolated or timed-out.
    """
    missing = sorted({package for program, package in _NEEDS.items() if not system.have(program)})
    if missing:
        raise AgentExit("no-tool", f"docker: rootless needs packages that the image lacks: {', '.join(missing)}")
    for kind in ("uid", "gid"):
        _add_subordinate_ids(kind, user, system)
    runtime = system.run_folder / "docker"
    runtime.mkdir(parents=True, exist_ok=True)
    runtime.chmod(0o700)
    os.chown(runtime, user.uid, user.gid)
    client = {"XDG_RUNTIME_DIR": str(runtime), "DOCKER_HOST": f"unix://{runtime}/docker.sock"}
    environment = {
        **ENVIRONMENT,
        **client,
        "HOME": str(user.home),
        "USER": user.name,
        # Docker's network is a program of the user, so the packet filter sees the packets of all containers as packets
        # of the user. Another network mode, or access to the host's loopback (10.0.2.2), would bypass the filter.
        "DOCKERD_ROOTLESS_ROOTLESSKIT_NET": "slirp4netns",
        "DOCKERD_ROOTLESS_ROOTLESSKIT_DISABLE_HOST_LOOPBACK": "true",
    }
    # newuidmap is a set-user-ID program. This process may gain permissions, but the job's processes may not.
    engine = system.start(["dockerd-rootless.sh"], user, environment=environment, folder=user.home, may_gain=True)
    lines: list[str] = []
    threading.Thread(target=_read, args=(engine.stdout, lines), daemon=True).start()
    while True:
        info = system.run(
            ["docker", "info", "--format", "{{.SecurityOptions}}"],
            user=user,
            environment=environment,
            timeout_sec=min(10, max(deadline - clock.now(), 0.1)),
        )
        if info.code == 0:
            break
        if engine.poll() is not None:
            raise AgentExit("no-docker", f"rootless Docker ended ({engine.returncode}): {' / '.join(lines[-3:])[:300]}")
        if clock.now() >= deadline:
            raise AgentExit("timed-out", f"rootless Docker did not answer in time: {info.line}")
        clock.sleep(0.5)
    if "rootless" not in info.text:
        raise AgentExit("not-isolated", f"the Docker that answers is not rootless: {info.line}")
    networks = [command for command in system.commands_of(user) if Path(command[0]).name == "slirp4netns"]
    if not networks or any("--disable-host-loopback" not in command for command in networks):
        raise AgentExit("not-isolated", "slirp4netns does not run with --disable-host-loopback")
    return client


def _add_subordinate_ids(kind: str, user: User, system: System) -> None:
    """Give the user subordinate ids after the last used ones, because a system user gets none by default."""
    existing = processes.subordinate_ids(kind)
    if any(each.owner in (user.name, str(user.uid)) and len(each.ids) >= _LEAST_IDS for each in existing):
        return
    first = max([100_000, *(each.ids.stop for each in existing)])
    system.must("no-docker", ["usermod", f"--add-sub{kind}s", f"{first}-{first + _LEAST_IDS - 1}", user.name])


def _read(stream: object, lines: list[str]) -> None:
    """Keep the last lines of the log. A full pipe would stop the engine."""
    for line in stream:  # type: ignore[attr-defined]
        lines.append(line.strip())
        del lines[:-20]
