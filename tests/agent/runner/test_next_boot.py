"""A later boot of the same disk starts with the rules of the network isolation, and starts nothing of the runner's
user.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.machine.system import BOOTED, System, User
from gpu_agent.runner.network_isolation import RULES, UNIT, block_at_boot, block_identity, disable_services_of, rules

from tests.agent.fakes import machine
from tests.agent.fakes.isolated import BLOCKED
from tests.agent.fakes.machine import IPV4, IPV6, NOBODY

ASKED = Path("/run/asked")


def with_systemd(code: int = 0) -> None:
    """A fake systemctl that records its arguments."""
    BOOTED.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", "/usr/local/sbin"], check=True)
    program = Path("/usr/local/sbin/systemctl")
    program.write_text(f'#!/bin/sh\necho "$*" >>{ASKED}\nexit {code}\n')
    program.chmod(0o755)


def test_a_later_boot_has_the_rules_before_its_agent_starts() -> None:
    machine.needs("nft")

    def work() -> list[Any]:
        machine.network()
        with_systemd()
        targets = (f"{IPV4} 80", f"{IPV6} 80", f"{IPV4} 53")
        block_identity(BLOCKED, System())
        # The kernel of the next boot has no rules yet. The command of the unit loads them.
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        before = machine.reach(*targets, uid=NOBODY)
        lines = UNIT.read_text().splitlines()
        [command] = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
        subprocess.run(command.split(), check=True)
        return [before, machine.reach(*targets, uid=NOBODY), ASKED.read_text(), RULES.read_text()]

    before, after, asked, kept = machine.inside(work)
    assert before == ["identity"] * 3
    assert after == ["ConnectionRefusedError", "ConnectionRefusedError", "identity"]
    assert asked == "enable gpu-agent-cut.service\n"
    assert kept == rules(BLOCKED)


def test_the_unit_starts_before_the_network_and_before_services_of_users() -> None:
    def work() -> str:
        with_systemd()
        block_at_boot("", System())
        return UNIT.read_text()

    unit = machine.inside(work)
    assert "DefaultDependencies=no\n" in unit
    assert "\nBefore=network-pre.target systemd-user-sessions.service\n" in unit
    assert "\nWantedBy=sysinit.target\n" in unit


@pytest.mark.parametrize("command", ["enable gpu-agent-cut.service", "mask --now user@990.service"])
def test_the_isolation_fails_if_systemd_refuses(command: str) -> None:
    def work() -> list[str]:
        with_systemd(code=5)
        found = []
        for make in (
            lambda: block_at_boot("", System()),
            lambda: disable_services_of(User("gpu-runner", 990, 990, Path("/")), System()),
        ):
            try:
                make()
            except Exception as error:
                found.append(str(error))
        return [*found, *ASKED.read_text().splitlines()]

    *said, one, two = machine.inside(work)
    assert said == ["not-isolated: systemctl failed (5): exit code 5"] * 2
    assert command in (one, two)
