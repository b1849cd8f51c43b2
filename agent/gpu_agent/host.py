"""The interface between the agent and its cloud. google/compute_engine.py implements it for Google."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .storage import GoogleBucket


class Notice(NamedTuple):
    """An announcement of the cloud that the machine will end: `preempted` or `maintenance`, with the cloud's text."""

    reason: str
    announcement: str


class BlockedAddresses(NamedTuple):
    """Addresses that return the machine's identity to any process, with the ports that stay open for a job.

    The identity is the access token of the machine's service account.
    """

    addresses: tuple[str, ...]
    """The IPv4 and IPv6 addresses."""
    ports: tuple[int, ...]
    """The ports (TCP and UDP) that stay open, because a cloud's DNS, NTP and DHCP servers have the same address."""
    answer: bool = True
    """False if nothing may answer at the addresses, as on a rented host."""
    networks: tuple[str, ...] = ()
    """Other networks that a job must not reach, except at these ports and 53."""


class Host(Protocol):
    """The cloud of the machine."""

    blocked: BlockedAddresses
    """The addresses that a job must not reach."""

    def name(self) -> str:
        """Return the machine's name, which is unique among existing machines."""

    def attribute(self, key: str) -> str | None:
        """Return a value that was set at the machine's creation, or None. Raises AgentExit if no answer comes."""

    def awaited_attribute(self, key: str, deadline: float) -> str | None:
        """Wait for a value that is set after the machine's creation. Return None at the deadline."""

    def publish(self, key: str, value: str, within_sec: float = 15.0, *, is_public_key: bool = False) -> None:
        """Publish a value that the machine's owner can read from outside. Raises OSError if it fails in `within_sec`.

        Text that looks like a secret is redacted. A public key looks like a secret; `is_public_key` keeps it.
        """

    def log(self, severity: str, message: str, within_sec: float, **fields: Any) -> None:
        """Write an entry to the cloud's log. Raises nothing, because a failed log entry must not end the machine."""

    def secret(self, name: str, deadline: float, grant_sec: float) -> bytes:
        """Return a secret's value, read with the machine's identity.

        A refusal is final after `grant_sec`, because a new grant takes a while to take effect. Raises AgentExit:
        no-secret (refused) or secrets-unreachable (late).
        """

    def bucket(self, name: str) -> GoogleBucket:
        """Return a bucket, which is used with the machine's identity."""

    def registry_token(self, deadline: float) -> str:
        """Return a password with which a container engine pulls private images for a few minutes."""

    def notice(self, timeout_sec: float) -> Notice | None:
        """Wait at most this long for an announcement of an end."""

    def power_off(self) -> None:
        """Switch the machine off. Call it after all reports."""
