"""Faults a person plants in the world, so that what a cloud does on a bad day can be tried at will."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

KINDS = {
    "stockout": "no capacity in the zone: a VM, or a machine of an EKS node group, is not made",
    "quota": "the vendor's quota error at create",
    "slow": "a create or an update takes --seconds longer",
    "crash": "the provider dies right after it made the resource, before the engine hears of it",
    "preempt": "a Spot VM that runs is taken away: Google tells its guest, and stops it 30 s later at the latest",
    "refuse": "the vendor refuses the create or the update, with --message",
    "busy": "the vendor refuses the delete of what is still in use",
    "guest": "the next VMs, and pods of Jobs, run with --set KEY=VALUE in their environment",
    "unregistered": "GitHub registers no runner scale set: its App, installation or runner group is wrong",
    "rate-limit": "GitHub answers that the installation's requests of the hour are used up, for --seconds",
    "secondary-limit": "GitHub answers with its secondary rate limit, and to wait --seconds",
    "image": "the image of a Job's next pod cannot be pulled",
}


@dataclass(frozen=True)
class Fault:
    """One planted fault; `times` is how often it still strikes, 0 for always."""

    kind: str
    # A glob over the type, the logical name and the id.
    on: str = "*"
    times: int = 1
    zone: str = ""
    seconds: float = 0.0
    message: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    id: int = 0

    def strikes(self, type: str, name: str, attributes: dict[str, str]) -> bool:  # noqa: A002 - Pulumi's own word
        if self.zone and attributes.get("zone", self.zone) != self.zone:
            return False
        wanted = self.on.lower()
        return any(fnmatchcase(one.lower(), wanted) for one in (type, name, attributes.get("id", "")) if one)
