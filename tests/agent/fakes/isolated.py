"""Creates the network isolation on an emulated machine of the test."""

from __future__ import annotations

from gpu_agent.clock import Clock
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.host import BlockedAddresses
from gpu_agent.machine.system import System
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner.network_isolation import isolate

from tests.agent.fakes import machine
from tests.agent.fakes.machine import IPV4, IPV6

BLOCKED = BlockedAddresses((IPV4, IPV6), GoogleHost.blocked.ports)


def try_isolation(system: System | None = None, docker: str = "none", blocked: BlockedAddresses = BLOCKED) -> str:
    """Isolate. If that fails, return the reason and the detail."""
    system = system or System(python=machine.open_python())
    try:
        isolate(blocked, docker, system, Clock(), Clock().now() + 30)
    except AgentExit as ended:
        return str(ended)
    return ""
