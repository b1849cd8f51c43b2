"""The network isolation in real network namespaces: which users still reach the machine's identity."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from gpu_agent.host import BlockedAddresses
from gpu_agent.machine import processes
from gpu_agent.machine.system import System
from gpu_agent.runner.network_isolation import rules

from tests.agent.fakes import machine
from tests.agent.fakes.isolated import try_isolation
from tests.agent.fakes.machine import IPV4, IPV6, NOBODY

# A short form of Docker's own rules: they accept what a bridge forwards, at the usual priority.
ACCEPT_ALL = """
table inet docker {
  chain forward { type filter hook forward priority 0; policy accept; accept; }
  chain output { type filter hook output priority 0; policy accept; accept; }
}
"""


class Broken(System):
    """An nft that reports success and does nothing. Only the test of the isolation detects that."""

    def must(self, reason: str, argv: Sequence[str], *, text: str = "", timeout_sec: float = 30) -> str:
        return "" if argv[0] == "nft" else super().must(reason, argv, text=text, timeout_sec=timeout_sec)


def reached(*ports: int) -> dict[str, list[str]]:
    """Return the answer of each address and port to root, a user and a container. The IPv4 address comes first."""
    targets = [f"{address} {port}" for address in (IPV4, IPV6) for port in ports]
    return {
        "root": machine.reach(*targets),
        "nobody": machine.reach(*targets, uid=NOBODY),
        "container": machine.reach(*targets, box=True),
    }


def test_the_rules_for_nft_are_these() -> None:
    assert rules(BlockedAddresses((IPV4,), (53,))) == (
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


def test_without_the_isolation_every_user_reaches_the_identity() -> None:
    """Without the isolation the addresses are reachable. The other tests depend on that."""
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
        return [try_isolation(), reached(80, 53, 123, 67, 547)]

    # systemd-networkd renews the machine's address as its own user.
    others = ["identity", "time", "time", "time"]
    closed = ["ConnectionRefusedError", *others]
    assert machine.inside(work) == [
        "",
        {"root": ["identity", *others] * 2, "nobody": closed * 2, "container": closed * 2},
    ]


@pytest.mark.slow
def test_the_isolation_fails_without_a_packet_filter() -> None:
    class Bare(System):
        def have(self, program: str) -> bool:
            return program in processes.NEEDED

    def work() -> str:
        machine.network()
        return try_isolation(Bare(python=machine.open_python()))

    assert machine.inside(work) == ("no-tool: the image has no nft: add nftables to the image")


def test_a_packet_filter_that_does_not_block_the_user_is_detected() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        return try_isolation(Broken(python=machine.open_python()))

    assert machine.inside(work) == (
        f"not-isolated: gpu-runner can reach the machine's identity: {IPV4} (open), {IPV6} (open)"
    )


def test_a_packet_filter_that_also_blocks_the_agent_is_detected() -> None:
    machine.needs("nft")

    def work() -> str:
        machine.network()
        rule = f"type filter hook output priority 0; ip daddr {IPV4} reject;"
        block = f"table inet other {{ chain output {{ {rule} }}; }}"
        subprocess.run(["nft", "-f", "-"], input=block, text=True, check=True)
        return try_isolation(blocked=BlockedAddresses((IPV4,), ()))

    assert machine.inside(work) == (
        f"not-isolated: the agent itself no longer reaches the machine's identity: {IPV4} (ECONNREFUSED)"
    )
