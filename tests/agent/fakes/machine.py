"""An emulated machine for tests that need root: with its own network, mounts, users and /run.

internet side: namespace `cloud`, 10.2.0.2, with the metadata server's two addresses
this machine:  10.2.0.1 towards it, bridge br0 10.1.0.1 towards
a container:   namespace `box`, 10.1.0.2
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

IPV4, IPV6 = "169.254.169.254", "fd20:ce::254"
NOBODY = 65534
PACKAGES = "nftables iproute2 util-linux passwd"
"""The Debian packages that .ci/run installs for these tests."""
_CLONE_NEWNS, _CLONE_NEWNET, _CLONE_NEWPID = 0x00020000, 0x40000000, 0x20000000  # linux/sched.h
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

_NETWORK = f"""
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
sysctl -qw net.ipv6.conf.default.accept_dad=0
ip netns add cloud
ip netns add box
ip netns exec cloud sysctl -qw net.ipv6.conf.default.accept_dad=0
ip netns exec box sysctl -qw net.ipv6.conf.default.accept_dad=0
ip link add h0 type veth peer name c0 netns cloud
ip addr add 10.2.0.1/24 dev h0
ip -6 addr add fd00:2::1/64 dev h0 nodad
ip link set h0 up
ip -n cloud addr add 10.2.0.2/24 dev c0
ip -n cloud -6 addr add fd00:2::2/64 dev c0 nodad
ip -n cloud link set lo up
ip -n cloud link set c0 up
ip -n cloud addr add {IPV4}/32 dev lo
ip -n cloud -6 addr add {IPV6}/128 dev lo nodad
ip -n cloud route add default via 10.2.0.1
ip -n cloud -6 route add default via fd00:2::1
ip route add {IPV4} via 10.2.0.2
ip -6 route add {IPV6} via fd00:2::2
ip link add br0 type bridge
ip addr add 10.1.0.1/24 dev br0
ip -6 addr add fd00:1::1/64 dev br0 nodad
ip link set br0 up
ip link add b0 type veth peer name x0 netns box
ip link set b0 master br0 up
ip -n box addr add 10.1.0.2/24 dev x0
ip -n box -6 addr add fd00:1::2/64 dev x0 nodad
ip -n box link set lo up
ip -n box link set x0 up
ip -n box route add default via 10.1.0.1
ip -n box -6 route add default via fd00:1::1
"""

DATAGRAMS = (67, 123, 547)  # DHCP, NTP and DHCPv6
# This server answers on ports 80 and 53 (TCP) of both addresses with one word. On the ports of DATAGRAMS it echoes.
_SERVER = f"""
import socket, threading
def tcp(family, address, port):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen(64)
    def serve():
        while True:
            connection, _ = server.accept()
            connection.sendall(b"identity")
            connection.close()
    threading.Thread(target=serve).start()
def udp(family, address, port):
    server = socket.socket(family, socket.SOCK_DGRAM)
    server.bind((address, port))
    def serve():
        while True:
            server.sendto(*server.recvfrom(100))
    threading.Thread(target=serve).start()
for family, address in ((socket.AF_INET, "{IPV4}"), (socket.AF_INET6, "{IPV6}")):
    tcp(family, address, 80)
    tcp(family, address, 53)
    for port in {DATAGRAMS}:
        udp(family, address, port)
print("ready", flush=True)
"""

_REACH = (
    f"DATAGRAMS = {DATAGRAMS}"
    """
import socket, sys
for target in sys.argv[1:]:
    address, port = target.rsplit(" ", 1)
    datagram = int(port) in DATAGRAMS
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM if datagram else socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect((address, int(port)))
            if datagram:
                probe.send(b"time")
            print(probe.recv(100).decode())
        except OSError as error:
            print(type(error).__name__)
"""
)


@functools.cache
def open_python() -> str:
    """Return a Python of at least 3.11 that any user may start. Without one, skip the test."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = [python, "-I", "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(check, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=False).returncode == 0:
                return python
        except OSError:
            continue
    return left_out("needs root, and a python3 of 3.11 or newer outside root's home: apt-get install python3")


def needs(*programs: str) -> None:
    """Skip the test if something is missing for it, and name what is missing."""
    if os.geteuid():
        left_out("needs root: sudo -E make test")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        left_out(f"needs {', '.join(missing)}: apt-get install {PACKAGES}")


def left_out(why: str) -> NoReturn:
    """Skip the test, but fail for root in CI, where .ci/run has installed everything."""
    if os.environ.get("CI") and not os.geteuid():
        pytest.fail(f"{why}; CI installs it in .ci/run, and skips nothing as root", pytrace=False)
    pytest.skip(why)


def inside(work: Callable[[], Any]) -> Any:
    """Return the result of `work` (as JSON) from a child process with its own network, processes, mounts, /etc, /home
    and /run.
    """
    needs("ip", "mount", "useradd", "setpriv")
    open_python()
    answers, answer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(answers)
        # The process ids of the new namespace begin with the next child. All its processes end with that child.
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWPID)
        first = 0 if failed else os.fork()
        if first:
            os.waitpid(first, 0)
            os._exit(0)
        try:
            # This child is process 1 of its namespace, and all processes of the namespace end with it.
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if failed:
                raise OSError(ctypes.get_errno(), "unshare")
            _set_up()
            said = {"value": work()}
        except BaseException:
            said = {"failure": traceback.format_exc()}
        os.write(answer, json.dumps(said).encode())
        os._exit(0)
    os.close(answer)
    try:
        with os.fdopen(answers, "rb") as stream:
            text = stream.read()
    except BaseException:
        # A test that exceeds its time limit must not leave a process behind.
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.waitpid(child, 0)
    said = json.loads(text or b'{"failure": "the child died"}')
    assert "failure" not in said, said["failure"]
    return said["value"]


STARTED: list[subprocess.Popen[str]] = []
"""The processes are stored, because Python warns of a process that no variable refers to. They end with the child."""


def _set_up() -> None:
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    # The folder is a separate file system, so that useradd can replace files. It disappears with the child.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "etc", "/mnt"], check=True)
    shutil.copytree("/etc", "/mnt", symlinks=True, dirs_exist_ok=True)
    subprocess.run(["mount", "--move", "/mnt", "/etc"], check=True)
    for folder in ("/home", "/run"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", folder], check=True)


def network() -> None:
    """Create the network of the module docstring, with a metadata server that answers."""
    subprocess.run(["sh", "-e"], input=_NETWORK, text=True, check=True)
    server = subprocess.Popen(
        ["ip", "netns", "exec", "cloud", sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True
    )
    STARTED.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"


def network_down() -> None:
    """Take all interfaces down, as the stop of systemd-networkd does."""
    for interface in ("lo", "h0", "br0"):
        # The machine may be off by now, and this command may have been killed with it.
        subprocess.run(["ip", "link", "set", interface, "down"], check=False)


def network_up() -> None:
    """Bring the same network up at the next boot. The kernel forgets routes and IPv6 addresses of an interface that is
    down.
    """
    again = (
        "lo up",
        "h0 up",
        "br0 up",
        "addr add fd00:2::1",
        "addr add fd00:1::1",
        f"route add {IPV4}",
        f"route add {IPV6}",
    )
    lines = [line for line in _NETWORK.splitlines() if line.startswith("ip ") and any(each in line for each in again)]
    subprocess.run(["sh"], input="\n".join(lines), text=True, check=False, capture_output=True)


def reach(*targets: str, uid: int | None = None, box: bool = False) -> list[str]:
    """Return the answer of each target ("address port") to that user, or to root in the container.

    The answer is `identity`, `time`, or the name of the error.
    """
    where = ["ip", "netns", "exec", "box"] if box else []
    whom = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    command = [*where, open_python(), "-I", "-S", "-c", _REACH, *targets]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=True, **whom)  # type: ignore[call-overload]
    return str(done.stdout).split()


def socket_of_engine(path: Path, mode: int) -> None:
    """Create a socket that listens, as that of a container engine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    program = (
        f"import os, socket, time; s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); "
        f"os.chmod({str(path)!r}, {mode}); s.listen(); print('ready', flush=True); time.sleep(60)"
    )
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    STARTED.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
