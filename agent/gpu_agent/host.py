"""What the agent asks of the cloud it runs in. What is Google's lives in google.py; another cloud is another file."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Notice(NamedTuple):
    """The cloud is about to take the machine: `preempted` or `maintenance`, and its own words."""

    reason: str
    announcement: str


class BlockedAddresses(NamedTuple):
    """Addresses that answer whoever asks with the machine's identity, and what on them a job may still use."""

    addresses: tuple[str, ...]
    """IPv4 and IPv6."""
    ports: tuple[int, ...]
    """Ports (TCP and UDP) that stay open: a cloud's name, time and DHCP servers have the same address."""


class Host(Protocol):
    """The machine's cloud."""

    cut: BlockedAddresses
    """What a job must not reach."""

    def name(self) -> str:
        """The machine's own name, unique among those that live."""

    def attribute(self, key: str) -> str | None:
        """One value the machine was made with; None where there is none. AgentExit where nobody answers in time."""

    def awaited_attribute(self, key: str, deadline: float) -> str | None:
        """One value that the machine was not made with, as soon as there is one; None at the deadline."""

    def publish(self, key: str, value: str, within_sec: float = 15.0, *, is_public_key: bool = False) -> None:
        """Put a value where the machine's owner reads it without entering it. OSError where that fails for so long.

        What looks like a secret is redacted, and a public key does.
        """

    def log(self, severity: str, message: str, within_sec: float, **fields: Any) -> None:
        """One entry of the cloud's own log. It never raises: a log that is down ends no machine."""

    def secret(self, name: str, deadline: float, grant_sec: float) -> bytes:
        """A secret's value, by the machine's identity. AgentExit: no-secret (refused), secrets-unreachable (late).

        A refusal is final after `grant_sec`: a new grant takes a while to hold.
        """

    def notice(self, timeout_sec: float) -> Notice | None:
        """Wait that long for the cloud to announce an end."""

    def power_off(self) -> None:
        """End the machine. What has to be told must have been told."""
