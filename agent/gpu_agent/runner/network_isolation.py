"""The cage: the runner's user and every container are cut from the addresses that give out the machine's identity.

The cut is made in the kernel's packet filter, before Docker's own rules, and holds for every user but root, so that a
job needs root on the machine to undo it. What `docker` leaves a job:

- none: no container engine, no way to root that we know of.
- rootless: an engine that runs as the runner's user. What its containers send leaves as that user (slirp4netns), and
  the same rule stops it.
- rootful: the engine is root's, so the job IS root on this machine. It can take a container with the host's network or
  file system and read the machine's identity. Only containers on a bridge are still cut. For jobs you trust as much as
  the pool itself.
"""

from __future__ import annotations

import grp
import ipaddress
import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..clock import Clock
from ..host import BlockedAddresses
from ..machine import limits
from ..machine.system import System, User
from ..outcomes import AgentExit
from . import next_boot, rootless_docker

# Before raw (-300), so before Docker's chains (0) and its address translation (-100): linux/netfilter_ipv4.h.
_PRIORITY = -310
# Sockets through which a process is as good as root.
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
# Docker's own over TCP, without and with TLS (docs.docker.com/reference/cli/dockerd: -H).
_PORTS = (2375, 2376)
# Groups that come to root: by an engine's socket, by sudo's usual rules (Google's too), or by raw disks.
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
# Says for each target, a path or an address and its port, whether it opens, and else why not; run as the user it is
# about. A socket whose queue is full lets the user in at another time: EAGAIN (unix(7) and connect(2)) is silence too.
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
# Refused, or no way there, is closed. Silence could be a slow answer, so it proves nothing and counts as open.
_NOT_CLOSED = ("open", "silence")


class NetworkIsolation(NamedTuple):
    """Whom the runner runs as, and what its environment needs for that."""

    user: User
    docker: str
    environment: Mapping[str, str]


def isolate(cut: BlockedAddresses, docker: str, system: System, clock: Clock, deadline: float) -> NetworkIsolation:
    """Make the cage and try its walls. AgentExit: not-isolated (what is open), no-tool (what the image lacks)."""
    missing = [program for program in limits.NEEDED if not system.have(program)]
    if missing:
        lacks = f"the image has no {' and no '.join(missing)}"
        raise AgentExit("no-tool", f"{lacks}, which starts the runner as its user: bake util-linux in")
    user = system.runner_user()
    next_boot.start_nothing_of(user, system)
    environment: Mapping[str, str] = {}
    close(cut, system)
    if docker == "rootless":
        environment = rootless_docker.start(user, system, clock, deadline)
    elif docker == "rootful":
        user = user._replace(groups=(*user.groups, _docker_group()))
    elif docker != "none":
        raise AgentExit("not-isolated", f"docker: got {docker!r}, expected none, rootless or rootful")
    _verify(cut, docker, user, system)
    return NetworkIsolation(user, docker, environment)


def rules(cut: BlockedAddresses) -> str:
    """The cut as a script for `nft -f`; it replaces what an earlier run left."""
    ports = f"{{ {', '.join(str(port) for port in cut.ports)} }}"
    stop = []
    for address in cut.addresses:
        to = f"{'ip6' if _is_ipv6(address) else 'ip'} daddr {address}"
        stop += [f"{to} meta l4proto {{ tcp, udp }} th dport {ports} accept"] if cut.ports else []
        # A reset is an answer at once; what ICMP says, a connection over IPv6 hears only when it asks a second time.
        stop += [f"{to} meta l4proto tcp reject with tcp reset", f"{to} reject"]
    # A packet whose owner the kernel does not know is nobody's, and is refused too. `accept` ends only this chain.
    return "\n".join(
        (
            "table inet gpu_agent",
            "delete table inet gpu_agent",
            "table inet gpu_agent {",
            f"  chain output {{ type filter hook output priority {_PRIORITY}; policy accept;",
            *(f"    {line}" for line in ("meta skuid 0 accept", *stop)),
            "  }",
            f"  chain forward {{ type filter hook forward priority {_PRIORITY}; policy accept;",
            *(f"    {line}" for line in stop),
            "  }",
            "}",
            "",
        )
    )


def iptables_rules(cut: BlockedAddresses) -> list[list[str]]:
    """The same for machines without nft, a command each; each goes on top of its chain, so the last one comes first.

    What containers send is dropped in the table raw: Docker puts its own rules on top of FORWARD whenever it starts.
    """
    commands = []
    for address in cut.addresses:
        program = "ip6tables" if _is_ipv6(address) else "iptables"
        to = ["-d", address]
        others = [*to, "-m", "owner", "!", "--uid-owner", "0"]
        commands.append([program, "-w", "-I", "OUTPUT", *others, "-j", "REJECT"])
        reset = ["-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"]
        commands.append([program, "-w", "-I", "OUTPUT", *others, *reset])
        commands.append([program, "-w", "-t", "raw", "-I", "PREROUTING", *to, "!", "-i", "lo", "-j", "DROP"])
        for port in cut.ports:
            for protocol in ("tcp", "udp"):
                match = [*to, "-p", protocol, "--dport", str(port), "-j", "ACCEPT"]
                commands.append([program, "-w", "-I", "OUTPUT", *match])
                commands.append([program, "-w", "-t", "raw", "-I", "PREROUTING", *match])
    return commands


def close(cut: BlockedAddresses, system: System) -> None:
    """Cut every user but root from the addresses; it needs no user, so it can come first. AgentExit("not-isolated")."""
    if system.have("nft"):
        system.must("not-isolated", ["nft", "-f", "-"], text=rules(cut))
        next_boot.keep_cut(rules(cut), system)
        return
    commands = iptables_rules(cut)
    missing = sorted({command[0] for command in commands if not system.have(command[0])})
    if missing:
        raise AgentExit("no-tool", f"the image has neither nft nor {' and '.join(missing)}: bake nftables in")
    for command in commands:
        system.must("not-isolated", command)


def _verify(cut: BlockedAddresses, docker: str, user: User, system: System) -> None:
    identity = {address: (address, 80) for address in cut.addresses}
    ours = _probe(system, None, identity)
    if "open" not in ours.values():
        raise AgentExit("not-isolated", f"the agent itself no longer reaches the machine's identity: {_listed(ours)}")
    reached = {to: word for to, word in _probe(system, user, identity).items() if word in _NOT_CLOSED}
    if reached:
        raise AgentExit("not-isolated", f"{user.name} is not kept from the machine's identity: {_listed(reached)}")
    if docker == "rootful":
        return
    ways: dict[str, str | tuple[str, int]] = {path: path for path in SOCKETS}
    ways |= {f"{name}:{port}": (to, port) for name, to in (("127.0.0.1",) * 2, ("[::1]", "::1")) for port in _PORTS}
    engines = {to: word for to, word in _probe(system, user, ways).items() if word in _NOT_CLOSED}
    if engines:
        raise AgentExit("not-isolated", f"{user.name} may use a container engine of root's: {_listed(engines)}")
    # Those of the GPU's device files too, which a process of its own has whatever /etc/group says.
    groups = system.groups_of(user) | set(user.groups)
    root = sorted(each.gr_name for each in map(_group, groups) if each and each.gr_name in _ROOT_GROUPS)
    if root:
        raise AgentExit("not-isolated", f"{user.name} is on the image a member of {', '.join(root)}")
    if system.run(["sudo", "-n", "true"], user=user, timeout_sec=10).code == 0:
        raise AgentExit("not-isolated", f"{user.name} may use sudo without a password: see /etc/sudoers.d of the image")


def _probe(system: System, user: User | None, targets: Mapping[str, str | tuple[str, int]]) -> dict[str, str]:
    output = system.run([system.python, "-I", "-S", "-c", _PROBE, json.dumps(targets)], user=user, timeout_sec=60)
    answers = dict(re.findall(r"^(\S+) (\w+)$", output.text, re.MULTILINE))
    if output.code or set(answers) != set(targets):
        # Without an answer nothing is proven; the hooks would fail for the same want of a Python anyway.
        raise AgentExit("not-isolated", f"the cut could not be tried as {user.name if user else 'root'}: {output.line}")
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
        raise AgentExit("no-tool", "docker: rootful, but the image has no group docker: bake docker-ce in") from None
