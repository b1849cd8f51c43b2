"""The cage, tried in real network namespaces: who still reaches the addresses that give out the machine's identity."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.ends import Ended
from gpu_agent.host import Cut
from gpu_agent.isolation import SOCKETS, iptables_rules, isolate, rules
from gpu_agent.system import System

from tests.agent.fakes import machine
from tests.agent.fakes.machine import IPV4, IPV6, NOBODY

CUT = Cut((IPV4, IPV6), (53, 123))
# Docker's own rules, in short: they take what a bridge forwards, at the usual priority.
ACCEPT_ALL = """
table inet docker {
  chain forward { type filter hook forward priority 0; policy accept; accept; }
  chain output { type filter hook output priority 0; policy accept; accept; }
}
"""


class WithoutNft(System):
    """An image that has only iptables."""

    def have(self, program: str) -> bool:
        return program != "nft" and super().have(program)


class Broken(System):
    """nft says that all is well and does nothing: only trying the walls shows it."""

    def must(self, reason: str, argv: Sequence[str], *, text: str = "", timeout_sec: float = 30) -> str:
        return "" if argv[0] == "nft" else super().must(reason, argv, text=text, timeout_sec=timeout_sec)


def cage(system: System | None = None, docker: str = "none", cut: Cut = CUT) -> str:
    """Isolate; the reason and the detail where it did not come to be."""
    system = system or System(python=machine.open_python())
    try:
        isolate(cut, docker, system, Clock(), Clock().now() + 30)
    except Ended as ended:
        return str(ended)
    return ""


def reached(*ports: int) -> dict[str, list[str]]:
    """For root, another user and a container: what each address says on each port, the IPv4 address first."""
    targets = [f"{address} {port}" for address in (IPV4, IPV6) for port in ports]
    return {
        "root": machine.reach(*targets),
        "nobody": machine.reach(*targets, uid=NOBODY),
        "container": machine.reach(*targets, box=True),
    }


def test_the_rules_for_nft_are_these() -> None:
    assert rules(Cut((IPV4,), (53,))) == (
        "table inet gpu_agent\n"
        "delete table inet gpu_agent\n"
        "table inet gpu_agent {\n"
        "  chain output { type filter hook output priority -310; policy accept;\n"
        "    meta skuid 0 accept\n"
        f"    ip daddr {IPV4} meta l4proto {{ tcp, udp }} th dport {{ 53 }} accept\n"
        f"    ip daddr {IPV4} meta l4proto tcp reject with tcp reset\n"
        f"    ip daddr {IPV4} reject\n"
        "  }\n"
        "  chain forward { type filter hook forward priority -310; policy accept;\n"
        f"    ip daddr {IPV4} meta l4proto {{ tcp, udp }} th dport {{ 53 }} accept\n"
        f"    ip daddr {IPV4} meta l4proto tcp reject with tcp reset\n"
        f"    ip daddr {IPV4} reject\n"
        "  }\n"
        "}\n"
    )


def test_the_rules_for_iptables_are_these_the_last_one_on_top() -> None:
    assert [" ".join(command) for command in iptables_rules(Cut((IPV6,), (53,)))] == [
        f"ip6tables -w -I OUTPUT -d {IPV6} -m owner ! --uid-owner 0 -j REJECT",
        f"ip6tables -w -I OUTPUT -d {IPV6} -m owner ! --uid-owner 0 -p tcp -j REJECT --reject-with tcp-reset",
        f"ip6tables -w -t raw -I PREROUTING -d {IPV6} ! -i lo -j DROP",
        f"ip6tables -w -I OUTPUT -d {IPV6} -p tcp --dport 53 -j ACCEPT",
        f"ip6tables -w -t raw -I PREROUTING -d {IPV6} -p tcp --dport 53 -j ACCEPT",
        f"ip6tables -w -I OUTPUT -d {IPV6} -p udp --dport 53 -j ACCEPT",
        f"ip6tables -w -t raw -I PREROUTING -d {IPV6} -p udp --dport 53 -j ACCEPT",
    ]


def test_without_the_cage_everybody_reaches_the_identity() -> None:
    """What the other tests rest on: the network is one in which the cut makes the difference."""
    machine.needs("nft")

    def work() -> dict[str, list[str]]:
        machine.network()
        return reached(80)

    assert machine.inside(work) == {who: ["identity"] * 2 for who in ("root", "nobody", "container")}


def test_only_root_outside_of_containers_reaches_the_identity() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        subprocess.run(["nft", "-f", "-"], input=ACCEPT_ALL, text=True, check=True)
        return [cage(), reached(80, 53, 123)]

    closed = ["ConnectionRefusedError", "identity", "time"]
    assert machine.inside(work) == [
        "",
        {"root": ["identity", "identity", "time"] * 2, "nobody": closed * 2, "container": closed * 2},
    ]


def test_an_ipv4_address_written_as_ipv6_is_no_way_around() -> None:
    machine.needs("nft")

    def work() -> list[str]:
        machine.network()
        target = f"::ffff:{IPV4} 80"
        return [cage(), *machine.reach(target), *machine.reach(target, uid=NOBODY)]

    assert machine.inside(work) == ["", "identity", "ConnectionRefusedError"]


def test_the_cage_made_a_second_time_is_the_same_cage() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        said = [cage(), cage()]
        listed = subprocess.run(
            ["nft", "list", "table", "inet", "gpu_agent"], capture_output=True, text=True, check=True
        )
        return [*said, listed.stdout.count("reject")]

    assert machine.inside(work) == ["", "", 8]


def test_iptables_makes_the_same_cage_where_nft_is_missing() -> None:
    machine.needs("iptables", "ip6tables")

    def work() -> list[object]:
        machine.network()
        return [cage(WithoutNft(python=machine.open_python())), reached(80, 53)]

    assert machine.inside(work) == [
        "",
        {
            "root": ["identity"] * 4,
            "nobody": ["ConnectionRefusedError", "identity"] * 2,
            # Dropped, not refused: see iptables_rules.
            "container": ["TimeoutError", "identity"] * 2,
        },
    ]


def test_without_any_packet_filter_there_is_no_cage() -> None:
    class Bare(System):
        def have(self, program: str) -> bool:
            return program == "setpriv"

    def work() -> str:
        machine.network()
        return cage(Bare(python=machine.open_python()))

    assert machine.inside(work) == (
        "not-isolated: the image has neither nft nor ip6tables and iptables: bake nftables in"
    )


def test_a_filter_that_lets_the_user_through_is_found_out() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        return cage(Broken(python=machine.open_python()))

    assert machine.inside(work) == (
        f"not-isolated: gpu-runner is not kept from the machine's identity: {IPV4} (open), {IPV6} (open)"
    )


def test_a_cut_that_also_cut_the_agent_is_found_out() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        rule = f"type filter hook output priority 0; ip daddr {IPV4} reject;"
        block = f"table inet other {{ chain output {{ {rule} }}; }}"
        subprocess.run(["nft", "-f", "-"], input=block, text=True, check=True)
        return cage(cut=Cut((IPV4,), ()))

    assert machine.inside(work) == (
        f"not-isolated: the agent itself no longer reaches the machine's identity: {IPV4} (ECONNREFUSED)"
    )


def test_a_machine_whose_identity_has_only_an_ipv4_address_is_caged_too() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        subprocess.run(["ip", "-6", "route", "del", IPV6], check=True)
        return cage()

    assert machine.inside(work) == ""


def test_the_runners_user_has_a_home_and_neither_a_password_nor_a_group() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        made = isolate(CUT, "none", System(python=machine.open_python()), Clock(), Clock().now() + 30)
        [shadow] = [line for line in Path("/etc/shadow").read_text().splitlines() if line.startswith("gpu-runner:")]
        named = subprocess.run(["id", "-Gn", "gpu-runner"], capture_output=True, text=True, check=True).stdout.split()
        user = made.user
        return [user.uid < 1000, str(user.home), shadow.split(":")[1], named, list(user.groups), dict(made.environment)]

    assert machine.inside(work) == [True, "/home/gpu-runner", "!", ["gpu-runner"], [], {}]


def test_every_socket_of_roots_engine_that_the_user_may_open_is_named() -> None:
    """Those outside of /run are left out here: only /run is the test's own."""
    machine.needs("nft")
    sockets = [path for path in SOCKETS if path.startswith("/run/")]

    def work() -> str:
        machine.network()
        for path in sockets:
            machine.socket_of_engine(Path(path), 0o666)
        return cage()

    said = machine.inside(work)
    assert said.startswith("not-isolated: gpu-runner may use a container engine of root's: ")
    assert [path for path in sockets if f"{path} (open)" not in said] == []


def test_a_socket_of_roots_engine_that_only_its_group_may_open_is_no_way() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        machine.socket_of_engine(Path("/run/docker.sock"), 0o660)
        return cage()

    assert machine.inside(work) == ""


@pytest.mark.parametrize("group", ["sudo", "docker"])
def test_a_baked_user_in_a_group_that_comes_to_root_is_named(group: str) -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        subprocess.run(["groupadd", "--force", group], check=True)
        subprocess.run(["useradd", "--system", "--user-group", "--groups", group, "gpu-runner"], check=True)
        return cage()

    assert machine.inside(work) == f"not-isolated: gpu-runner is on the image a member of {group}"


def test_sudo_without_a_password_is_named() -> None:
    machine.needs("nft")

    class WithSudo(System):
        def run(self, argv, **rest):  # type: ignore[no-untyped-def]
            return super().run(["true"] if argv[0] == "sudo" else argv, **rest)

    def work() -> str:
        machine.network()
        return cage(WithSudo(python=machine.open_python()))

    assert machine.inside(work) == (
        "not-isolated: gpu-runner may use sudo without a password: see /etc/sudoers.d of the image"
    )


def test_rootful_gives_the_engines_group_and_still_cuts_bridges() -> None:
    machine.needs("nft")

    def work() -> list[object]:
        machine.network()
        subprocess.run(["groupadd", "--force", "docker"], check=True)
        machine.socket_of_engine(Path("/run/docker.sock"), 0o660)
        made = isolate(CUT, "rootful", System(python=machine.open_python()), Clock(), Clock().now() + 30)
        target = f"{IPV4} 80"
        return [len(made.user.groups), *machine.reach(target, box=True), *machine.reach(target, uid=NOBODY)]

    assert machine.inside(work) == [1, "ConnectionRefusedError", "ConnectionRefusedError"]


@pytest.mark.parametrize(
    ("docker", "said"),
    [
        ("rootful", "not-isolated: docker: rootful, but the image has no group docker: bake docker-ce in"),
        ("podman", "not-isolated: docker: got 'podman', expected none, rootless or rootful"),
    ],
)
def test_a_mode_that_cannot_be_is_told(docker: str, said: str) -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        subprocess.run(["groupdel", "docker"], check=False, capture_output=True)
        return cage(docker=docker)

    assert machine.inside(work) == said


def test_rootless_names_the_packages_that_the_image_lacks() -> None:
    machine.needs("nft")

    class Lacking(System):
        def have(self, program: str) -> bool:
            return program in ("setpriv", "nft", "docker", "dockerd")

    def work() -> str:
        machine.network()
        return cage(Lacking(python=machine.open_python()), "rootless")

    assert machine.inside(work) == (
        "not-isolated: docker: rootless needs packages that the image lacks: "
        "docker-ce-rootless-extras, slirp4netns, uidmap"
    )


def test_root_inside_a_namespace_of_the_users_own_cannot_take_the_cut_away() -> None:
    machine.needs("nft", "unshare")

    def work() -> list[object]:
        machine.network()
        system = System(python=machine.open_python())
        user = isolate(CUT, "none", system, Clock(), Clock().now() + 30).user
        command = ["unshare", "--user", "--map-root-user", "nft", "delete", "table", "inet", "gpu_agent"]
        tried = system.run(command, user=user, timeout_sec=30)
        return [tried.code != 0, *machine.reach(f"{IPV4} 80", uid=user.uid), *machine.reach(f"{IPV4} 80")]

    assert machine.inside(work) == [True, "ConnectionRefusedError", "identity"]


def test_the_users_processes_cannot_read_the_agents_environment_or_memory() -> None:
    machine.needs("nft")

    def work() -> list[int]:
        machine.network()
        system = System(python=machine.open_python())
        user = isolate(CUT, "none", system, Clock(), Clock().now() + 30).user
        files = [f"/proc/{os.getpid()}/{name}" for name in ("environ", "mem", "maps")]
        return [system.run(["cat", file], user=user, timeout_sec=10).code for file in files]

    assert machine.inside(work) == [1, 1, 1]
