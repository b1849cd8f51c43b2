"""The targets that the isolation tests, with fake and real answers: which answers end the machine, for each Docker
mode.
"""

from __future__ import annotations

import grp
import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.machine.system import ENVIRONMENT, Output, System, User
from gpu_agent.runner import network_isolation
from gpu_agent.runner.network_isolation import SOCKETS

from tests.agent.fakes import machine
from tests.agent.fakes.isolated import BLOCKED, try_isolation
from tests.agent.fakes.machine import IPV4, IPV6

USER = User("gpu-runner", 990, 990, Path("/home/gpu-runner"))
PORTS = ("127.0.0.1:2375", "127.0.0.1:2376", "[::1]:2375", "[::1]:2376")
ENGINES = (*SOCKETS, *PORTS)
MODES = pytest.mark.parametrize("docker", ["none", "rootless"])


class AnsweringSystem(System):
    """A system whose targets answer with the given words. All other targets are closed."""

    def __init__(self, words: Mapping[str, str] = {}, groups: set[int] | None = None, **answers: Output) -> None:
        super().__init__()
        self.words, self.groups, self.answers = words, groups or {USER.gid}, answers
        self.tried: list[str] = []

    def have(self, program: str) -> bool:
        return True

    def runner_user(self) -> User:
        return USER

    def groups_of(self, user: User) -> set[int]:
        return self.groups

    def must(self, reason: str, argv: Sequence[str], *, text: str = "", timeout_sec: float = 30) -> str:
        return ""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_sec: float,
        text: str = "",
        user: User | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> Output:
        if argv[0] == "sudo":
            return self.answers.get("sudo", Output(1, "a password is required"))
        names = list(json.loads(argv[-1]))
        what = "root" if user is None else "identity" if IPV4 in names else "engines"
        closed = dict.fromkeys(names, "open" if user is None else "ECONNREFUSED")
        self.tried += [] if user is None else names
        said = "".join(f"{name} {self.words.get(name, word) if user else word}\n" for name, word in closed.items())
        answer = self.answers.get(what, Output(0, "{}"))
        return answer._replace(text=answer.text.replace("{}", said))


@pytest.fixture(autouse=True)
def _started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_isolation, "start_rootless_docker", lambda *_: {})


@MODES
def test_the_isolation_succeeds_if_all_targets_are_closed_and_tests_each_of_them(docker: str) -> None:
    system = AnsweringSystem()
    assert try_isolation(system, docker) == ""
    assert system.tried == [*BLOCKED.addresses, *ENGINES]


@MODES
@pytest.mark.parametrize("word", ["open", "silence"])
@pytest.mark.parametrize("address", [IPV4, IPV6])
def test_an_address_that_opens_or_does_not_answer_is_not_blocked(address: str, word: str, docker: str) -> None:
    said = f"not-isolated: gpu-runner can reach the machine's identity: {address} ({word})"
    assert try_isolation(AnsweringSystem({address: word}), docker) == said


@MODES
@pytest.mark.parametrize(
    "group",
    [
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
    ],
)
def test_each_group_with_root_access_is_named(group: str, docker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {USER.gid: USER.name, 4242: group}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((names[gid], "x", gid, [])))
    said = f"not-isolated: gpu-runner is a member of a group with root access in this image: {group}"
    assert try_isolation(AnsweringSystem(groups={USER.gid, 4242}), docker) == said


def test_dropped_packets_do_not_count_as_blocked() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        rule = f"type filter hook output priority -400; meta skuid != 0 ip daddr {IPV4} drop;"
        table = f"table inet other {{ chain output {{ {rule} }}; }}"
        subprocess.run(["nft", "-f", "-"], input=table, text=True, check=True)
        return try_isolation()

    said = f"not-isolated: gpu-runner can reach the machine's identity: {IPV4} (silence)"
    assert machine.inside(work) == said


@pytest.mark.parametrize(
    ("family", "to", "name"),
    [
        (socket.AF_INET, ("127.0.0.1", 2375), "127.0.0.1:2375"),
        (socket.AF_INET6, ("::1", 2376), "[::1]:2376"),
        (socket.AF_UNIX, "/run/docker.sock", "/run/docker.sock"),
    ],
)
def test_an_engine_that_listens_is_found(family: int, to: Any, name: str) -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        with socket.socket(family) as server:
            server.bind(to)
            if isinstance(to, str):
                Path(to).chmod(0o666)
            server.listen()
            return try_isolation()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root: ")
    assert f"{name} (open)" in said


def test_a_socket_of_a_root_engine_with_a_full_queue_counts_as_open() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        path = Path("/run/podman/podman.sock")
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
            server.bind(str(path))
            path.chmod(0o666)
            server.listen(0)
            first.connect(str(path))
            return try_isolation()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root: ")
    assert "/run/podman/podman.sock (silence)" in said
