"""Network isolation: blocks the runner's user and every container from the addresses with the machine's identity.

The identity is the access token of the machine's service account. The kernel's packet filter blocks these addresses
before Docker's own rules, for every user except root. A job therefore needs root on the machine to remove the rules.
The setting `docker` decides what a job can use:

- none: no container engine, and no known way to become root.
- rootless: an engine that runs as the runner's user. Packets of its containers leave as that user (slirp4netns), so the
  same rule blocks them.
- rootful: the engine belongs to root, so the job IS root on this machine. It can start a container with the host's
  network or file system, and read the machine's identity. Only containers on a bridge are still blocked. Use it for
  jobs that you trust as much as the pool itself.
"""

from __future__ import annotations

import grp
import ipaddress
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..clock import Clock
from ..host import BlockedAddresses
from ..machine import processes
from ..machine.system import ENVIRONMENT, PATH, System, User
from ..outcomes import AgentExit

PRIVATE = (
    *("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    "240.0.0.0/4",
)
"""The networks of private addresses (RFC 1918, 3927, 4193 and 6598), and those that no public server has and networks
of Google Cloud may use (cloud.google.com/vpc/docs/subnets). IPv6 itself needs the addresses of its links.
"""
# Before raw (-300), and so before Docker's chains (0) and its address translation (-100): linux/netfilter_ipv4.h.
_PRIORITY = -310
# Sockets through which a process effectively becomes root.
SOCKETS = (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/lib/incus/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
)
# Docker's own TCP ports, without and with TLS (docs.docker.com/reference/cli/dockerd: -H).
_PORTS = (2375, 2376)
# Groups whose members can become root: with an engine's socket, with sudo's usual rules (Google's too), or with raw
# disks.
_ROOT_GROUPS = (
    "root",
    "docker",
    "podman",
    "lxd",
    "incus",
    "sudo",
    "wheel",
    "admin",
    "google-sudoers",
    "disk",
    "libvirt",
)
# This program runs as the tested user. For each target, which is a path or an address with a port, it prints `open`,
# `silence` (no answer), or the error. A socket with a full queue may accept the user later, so EAGAIN (unix(7) and
# connect(2)) also counts as silence.
_PROBE = """
import errno, json, socket, sys
for name, to in json.loads(sys.argv[1]).items():
    family = socket.AF_UNIX if isinstance(to, str) else socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.settimeout(3)
            probe.connect(to if isinstance(to, str) else tuple(to))
        word = "open"
    except (TimeoutError, BlockingIOError):
        word = "silence"
    except OSError as error:
        word = errno.errorcode.get(error.errno, "error")
    sys.stdout.write(name + " " + word + "\\n")
"""
# A refused or unreachable target is closed. Silence could be a slow answer, so it counts as open.
_NOT_CLOSED = ("open", "silence")


class NetworkIsolation(NamedTuple):
    """The runner's user, with the environment that it needs."""

    user: User
    docker: str
    environment: Mapping[str, str]


def isolate(blocked: BlockedAddresses, docker: str, system: System, clock: Clock, deadline: float) -> NetworkIsolation:
    """Isolate jobs, and test the isolation.

    Raises:
        AgentExit: not-isolated (a target is open), or no-tool (a program is missing).
    """
    missing = [program for program in processes.NEEDED if not system.have(program)]
    if missing:
        lacks = f"the image has no {' and no '.join(missing)}"
        raise AgentExit(
            "no-tool", f"{lacks}; it is needed to start the runner as its user: add util-linux to the image"
        )
    user = system.runner_user()
    disable_services_of(user, system)
    environment: Mapping[str, str] = {}
    block_identity(blocked, system)
    if docker == "rootless":
        environment = start_rootless_docker(user, system, clock, deadline)
    elif docker == "rootful":
        user = user._replace(groups=(*user.groups, _docker_group()))
    elif docker != "none":
        raise AgentExit("not-isolated", f"docker: got {docker!r}, expected none, rootless or rootful")
    _verify(blocked, docker, user, system)
    return NetworkIsolation(user, docker, environment)


def rules(blocked: BlockedAddresses) -> str:
    """Return the rules as a script for `nft -f`. It replaces the rules of an earlier run."""
    ports = f"{{ {', '.join(str(port) for port in blocked.ports)} }}"
    open_ports = ports if blocked.ports else "53"
    rules_of_address = []
    for address in blocked.addresses:
        to = f"{'ip6' if _is_ipv6(address) else 'ip'} daddr {address}"
        rules_of_address += [f"{to} meta l4proto {{ tcp, udp }} th dport {ports} accept"] if blocked.ports else []
        # TCP gets a reset, which ends a connection at once. With ICMP errors, IPv6 would need a second packet.
        rules_of_address += [f"{to} meta l4proto tcp reject with tcp reset", f"{to} reject"]
    for network in blocked.networks:
        to = f"{'ip6' if ':' in network else 'ip'} daddr {network}"
        rules_of_address += [f"{to} meta l4proto {{ tcp, udp }} th dport {open_ports} accept"]
        rules_of_address += [f"{to} meta l4proto tcp reject with tcp reset", f"{to} reject"]
    # A packet without a known owner is refused too. `accept` ends only this chain.
    return "\n".join(
        (
            "table inet gpu_agent",
            "delete table inet gpu_agent",
            "table inet gpu_agent {",
            f"  chain output {{ type filter hook output priority {_PRIORITY}; policy accept;",
            *(f"    {line}" for line in ("meta skuid 0 accept", *rules_of_address)),
            "  }",
            f"  chain forward {{ type filter hook forward priority {_PRIORITY}; policy accept;",
            *(f"    {line}" for line in rules_of_address),
            "  }",
            "}",
            "",
        )
    )


def block_identity(blocked: BlockedAddresses, system: System) -> None:
    """Block the addresses for every user except root. This needs no runner's user, so it can come first.

    Raises AgentExit: not-isolated, or no-tool.
    """
    if not system.have("nft"):
        raise AgentExit("no-tool", "the image has no nft: add nftables to the image")
    system.must("not-isolated", ["nft", "-f", "-"], text=rules(blocked))
    block_at_boot(rules(blocked), system)


def _verify(blocked: BlockedAddresses, docker: str, user: User, system: System) -> None:
    identity = {address: (address, 80) for address in blocked.addresses}
    private = {network: (str(ipaddress.ip_network(network)[-2]), 80) for network in blocked.networks}
    as_root = _probe(system, None, identity)
    if blocked.answer and "open" not in as_root.values():
        raise AgentExit(
            "not-isolated", f"the agent itself no longer reaches the machine's identity: {_listed(as_root)}"
        )
    open_to_user = {to: word for to, word in _probe(system, user, identity | private).items() if word in _NOT_CLOSED}
    if private and (reached := {to: word for to, word in open_to_user.items() if to in private}):
        raise AgentExit("not-isolated", f"{user.name} can reach private addresses: {_listed(reached)}")
    if reached := open_to_user:
        raise AgentExit("not-isolated", f"{user.name} can reach the machine's identity: {_listed(reached)}")
    if docker == "rootful":
        return
    sockets_and_ports: dict[str, str | tuple[str, int]] = {path: path for path in SOCKETS}
    sockets_and_ports |= {
        f"{name}:{port}": (to, port) for name, to in (("127.0.0.1",) * 2, ("[::1]", "::1")) for port in _PORTS
    }
    engines = {to: word for to, word in _probe(system, user, sockets_and_ports).items() if word in _NOT_CLOSED}
    if engines:
        raise AgentExit("not-isolated", f"{user.name} may use a container engine of root: {_listed(engines)}")
    # Includes the groups of the GPU's device files, which the runner's process has regardless of /etc/group.
    groups = system.groups_of(user) | set(user.groups)
    root = sorted(each.gr_name for each in map(_group, groups) if each and each.gr_name in _ROOT_GROUPS)
    if root:
        raise AgentExit(
            "not-isolated", f"{user.name} is a member of a group with root access in this image: {', '.join(root)}"
        )
    if system.run(["sudo", "-n", "true"], user=user, timeout_sec=10, may_gain=True).code == 0:
        raise AgentExit(
            "not-isolated", f"{user.name} may use sudo without a password: check /etc/sudoers.d of the image"
        )


def _probe(system: System, user: User | None, targets: Mapping[str, str | tuple[str, int]]) -> dict[str, str]:
    output = system.run([system.python, "-I", "-S", "-c", _PROBE, json.dumps(targets)], user=user, timeout_sec=60)
    answers = dict(re.findall(r"^(\S+) (\w+)$", output.text, re.MULTILINE))
    if output.code or set(answers) != set(targets):
        # A Python that does not work proves no isolation, and the hooks would fail with it too.
        raise AgentExit(
            "not-isolated",
            f"the network isolation could not be tested as {user.name if user else 'root'}: {output.line}",
        )
    return answers


def _listed(answers: Mapping[str, str]) -> str:
    return ", ".join(f"{to} ({word})" for to, word in answers.items())


def _is_ipv6(address: str) -> bool:
    return ipaddress.ip_address(address).version == 6


def _group(gid: int) -> grp.struct_group | None:
    try:
        return grp.getgrgid(gid)
    except KeyError:
        return None


def _docker_group() -> int:
    try:
        return grp.getgrnam("docker").gr_gid
    except KeyError:
        raise AgentExit(
            "no-tool", "docker: rootful, but the image has no group docker: add docker-ce to the image"
        ) from None


# Docker that runs as the runner's user (docs.docker.com/engine/security/rootless).
# Each program with the Docker or Debian package that contains it.
_NEEDS = {
    "dockerd-rootless.sh": "docker-ce-rootless-extras",
    "dockerd": "docker-ce",
    "docker": "docker-ce-cli",
    "slirp4netns": "slirp4netns",
    "newuidmap": "uidmap",
    "newgidmap": "uidmap",
}
_LAST_LINES_SEC = 2.0
_LEAST_IDS = 65_536  # rootless Docker needs at least so many subordinate ids


def start_rootless_docker(user: User, system: System, clock: Clock, deadline: float) -> Mapping[str, str]:
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
    reader = threading.Thread(target=_read, args=(engine.stdout, lines), daemon=True)
    reader.start()
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
            reader.join(_LAST_LINES_SEC)
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


RULES = Path("/etc/gpu-agent/cut.nft")
UNIT = Path("/etc/systemd/system/gpu-agent-cut.service")
# Ordered like Debian's nftables.service, and after it, because that service begins with `flush ruleset`. network-pre
# comes before every interface (systemd.special(7)), and user-sessions before every login and lingering user.
_UNIT = f"""[Unit]
Description=Keep the jobs of an earlier boot from the machine's identity
DefaultDependencies=no
Wants=network-pre.target
After=local-fs.target nftables.service
Before=network-pre.target systemd-user-sessions.service

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PATH={PATH}
ExecStart=nft -f {RULES}

[Install]
WantedBy=sysinit.target
"""


def block_at_boot(rules: str, system: System) -> None:
    """Make systemd load these nft rules at each boot before the network starts. Raises AgentExit("not-isolated")."""
    if not system.has_systemd():
        return
    RULES.parent.mkdir(parents=True, exist_ok=True)
    RULES.write_text(rules)
    UNIT.write_text(_UNIT)
    system.must("not-isolated", ["systemctl", "enable", UNIT.name])


def disable_services_of(user: User, system: System) -> None:
    """Prevent systemd from starting the user's own services, now and at each boot. Raises AgentExit("not-isolated")."""
    if system.has_systemd():
        # Only the user's service manager starts lingering services (user@.service(5)).
        system.must("not-isolated", ["systemctl", "mask", "--now", f"user@{user.uid}.service"])
