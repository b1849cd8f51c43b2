"""An EKS of one node group, whose autoscaler may act between two calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_ci.aws.limits.eks_api import ApiError, Sizes


@dataclass
class FakeEks:
    """Refuses what EKS refuses: a maximum below the desired size, and an update while another one runs."""

    desired: int = 0
    most: int = 2
    asked: list[int] = field(default_factory=list)
    refusals: list[ApiError] = field(default_factory=list)
    """Answers of the next updates, before EKS takes any."""
    suspended: list[str] = field(default_factory=list)
    not_suspended: ApiError | None = None
    before_update: Callable[[], None] = lambda: None
    statuses: list[str] = field(default_factory=lambda: ["Successful"])

    def sizes(self, cluster: str, group: str) -> Sizes:
        return Sizes(self.desired, self.most)

    def set_most(self, cluster: str, group: str, most: int) -> str:
        self.before_update()
        self.asked.append(most)
        if self.refusals:
            raise self.refusals.pop(0)
        if most < self.desired:
            raise ApiError("InvalidParameterException", "desiredSize can't be greater than maxSize")
        self.most = most
        return "update-1"

    def suspend_balancing(self, scaling_group: str) -> None:
        if self.not_suspended:
            raise self.not_suspended
        self.suspended.append(scaling_group)

    def update_status(self, cluster: str, group: str, update: str) -> str:
        return self.statuses.pop(0) if self.statuses else "Successful"


@dataclass
class FakeClock:
    waits: int = 0
    cancelled_at: int = -1

    def wait(self, seconds: float) -> bool:
        self.waits += 1
        return self.waits == self.cancelled_at
