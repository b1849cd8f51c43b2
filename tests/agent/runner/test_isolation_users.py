"""Other ways to become root: sockets, groups and programs of the runner's user, in each Docker mode."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gpu_agent.clock import Clock
from gpu_agent.machine.system import System
from gpu_agent.runner.network_isolation import SOCKETS, isolate

from tests.agent.fakes import machine
from tests.agent.fakes.isolated import BLOCKED, try_isolation
from tests.agent.fakes.machine import IPV4, NOBODY


def test_the_runners_user_has_a_home_and_neither_a_password_nor_a_group() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        made = isolate(BLOCKED, "none", System(python=machine.open_python()), Clock(), Clock().now() + 30)
        [shadow] = [line for line in Path("/etc/shadow").read_text().splitlines() if line.startswith("gpu-runner:")]
        named = subprocess.run(["id", "-Gn", "gpu-runner"], capture_output=True, text=True, check=True).stdout.split()
        user = made.user
        return [user.uid < 1000, str(user.home), shadow.split(":")[1], named, list(user.groups), dict(made.environment)]

    assert machine.inside(work) == [True, "/home/gpu-runner", "!", ["gpu-runner"], [], {}]


def test_every_socket_of_roots_engine_that_the_user_may_open_is_named() -> None:
    """Sockets outside /run are left out, because only /run belongs to the test."""
    machine.needs("nft")
    sockets = [path for path in SOCKETS if path.startswith("/run/")]

    def work() -> str:
        machine.network()
        for path in sockets:
            machine.socket_of_engine(Path(path), 0o666)
        return try_isolation()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root: ")
    assert [path for path in sockets if f"{path} (open)" not in said] == []


def test_a_socket_of_roots_engine_that_only_its_group_may_open_is_closed() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        machine.socket_of_engine(Path("/run/docker.sock"), 0o660)
        return try_isolation()

    assert machine.inside(work) == ""


def test_sudo_without_a_password_is_named() -> None:
    machine.needs("nft")

    class WithSudo(System):
        def run(self, argv, **rest):  # type: ignore[no-untyped-def]
            return super().run(["true"] if argv[0] == "sudo" else argv, **rest)

    def work() -> str:
        machine.network()
        return try_isolation(WithSudo(python=machine.open_python()))

    assert machine.inside(work) == (
        "not-isolated: gpu-runner may use sudo without a password: check /etc/sudoers.d of the image"
    )


def test_rootful_gives_the_engines_group_and_still_cuts_bridges() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        subprocess.run(["groupadd", "--force", "docker"], check=True)
        machine.socket_of_engine(Path("/run/docker.sock"), 0o660)
        made = isolate(BLOCKED, "rootful", System(python=machine.open_python()), Clock(), Clock().now() + 30)
        target = f"{IPV4} 80"
        return [len(made.user.groups), *machine.reach(target, box=True), *machine.reach(target, uid=NOBODY)]

    assert machine.inside(work) == [1, "ConnectionRefusedError", "ConnectionRefusedError"]


def test_root_inside_a_namespace_of_the_users_own_cannot_take_the_cut_away() -> None:
    machine.needs("nft", "unshare")

    def work() -> list[object]:
        machine.network()
        system = System(python=machine.open_python())
        user = isolate(BLOCKED, "none", system, Clock(), Clock().now() + 30).user
        command = ["unshare", "--user", "--map-root-user", "nft", "delete", "table", "inet", "gpu_agent"]
        tried = system.run(command, user=user, timeout_sec=30)
        return [tried.code != 0, *machine.reach(f"{IPV4} 80", uid=user.uid), *machine.reach(f"{IPV4} 80")]

    assert machine.inside(work) == [True, "ConnectionRefusedError", "identity"]


def test_the_users_processes_cannot_read_the_agents_environment_or_memory() -> None:
    machine.needs("nft")

    def work() -> list[int]:
        machine.network()
        system = System(python=machine.open_python())
        user = isolate(BLOCKED, "none", system, Clock(), Clock().now() + 30).user
        files = [f"/proc/{os.getpid()}/{name}" for name in ("environ", "mem", "maps")]
        return [system.run(["cat", file], user=user, timeout_sec=10).code for file in files]

    assert machine.inside(work) == [1, 1, 1]
