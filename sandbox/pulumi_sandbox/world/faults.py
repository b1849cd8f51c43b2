"""Faults that a user plants in the world to test how a program handles errors of a cloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

KINDS = {
    "stockout": "no capacity in the zone: the create of a VM, or of a node of EKS or GKE, fails",
    "quota": "a create fails with the vendor's quota error",
    "slow": "a create or an update takes --seconds longer",
    "crash": "the provider crashes after it created the resource and before it reports it to the engine",
    "preempt": "a running Spot VM is preempted: the guest is notified and stopped at most 30 s later",
    "refuse": "the vendor refuses the create or the update, with --message",
    "busy": "the vendor refuses the delete because the resource is in use",
    "guest": "the next VMs, and pods of Jobs, run with --set KEY=VALUE in their environment",
    "image": "the image of a Job's next pod cannot be pulled",
}


@dataclass(frozen=True)
class Fault:
    """One planted fault. `times` is the number of times it still takes effect; 0 means always."""

    kind: str
    # A glob that matches the type, the logical name or the id.
    on: str = "*"
    times: int = 1
    zone: str = ""
    seconds: float = 0.0
    message: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    id: int = 0

    def applies_to(self, type: str, name: str, attributes: dict[str, str]) -> bool:  # noqa: A002 - Pulumi's own word
        """Return True if the fault's glob and zone match a resource."""
        if self.zone and attributes.get("zone", self.zone) != self.zone:
            return False
        wanted = self.on.lower()
        return any(fnmatchcase(one.lower(), wanted) for one in (type, name, attributes.get("id", "")) if one)
