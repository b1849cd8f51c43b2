"""Tests the change of a node group's maximum while an autoscaler changes the group too."""

from __future__ import annotations

import pytest
from gpu_ci.aws.limits.eks_api import ApiError
from gpu_ci.aws.limits.service import Cancelled, set_most

from tests.gpu_ci.aws.limits.fake_eks import FakeClock, FakeEks

BUSY = ApiError("ResourceInUseException", "Nodegroup l4 currently has update 1 in progress")
OUTDATED = ApiError("InvalidParameterException", "desiredSize can't be greater than maxSize")


def change(eks: FakeEks, wanted: int, clock: FakeClock | None = None) -> int:
    return set_most(eks, clock or FakeClock(), "ci", "l4", wanted, lambda _: None)


def test_a_group_that_has_the_maximum_already_is_not_changed() -> None:
    eks = FakeEks(desired=2, most=2)
    assert (change(eks, 2), eks.asked) == (2, [])


def test_the_maximum_is_raised_and_the_nodes_stay() -> None:
    eks, clock = FakeEks(desired=2, most=2, statuses=["InProgress", "InProgress"]), FakeClock()
    assert (change(eks, 4, clock), eks.desired, eks.asked, clock.waits) == (4, 2, [4], 2)


@pytest.mark.parametrize(("running", "expected"), [(0, 1), (1, 1), (3, 3)])
def test_the_maximum_is_never_lowered_below_the_nodes_there_are(running: int, expected: int) -> None:
    eks = FakeEks(desired=running, most=4)
    assert (change(eks, 1), eks.desired, eks.most) == (expected, running, expected)


def test_a_node_that_the_autoscaler_starts_before_the_change_is_seen() -> None:
    eks = FakeEks(desired=1, most=4)

    def start_two() -> None:
        eks.desired = 3

    eks.before_update = start_two
    assert (change(eks, 2), eks.asked) == (3, [2, 3])


def test_another_update_of_the_group_is_waited_for() -> None:
    eks = FakeEks(refusals=[BUSY, BUSY, BUSY])
    assert (change(eks, 4), eks.asked) == (4, [4, 4, 4, 4])


def test_what_eks_refuses_again_for_the_same_sizes_is_an_error() -> None:
    eks = FakeEks(refusals=[OUTDATED, OUTDATED])
    with pytest.raises(ApiError, match="InvalidParameterException"):
        change(eks, 4)
    assert eks.asked == [4, 4]


def test_what_eks_refuses_for_other_sizes_each_time_is_tried_again() -> None:
    eks = FakeEks(desired=1, most=4, refusals=[OUTDATED, OUTDATED])

    def start_one() -> None:
        eks.desired = min(3, eks.desired + 1)

    eks.before_update = start_one
    assert (change(eks, 1), eks.asked) == (3, [1, 2, 3])


def test_a_change_that_eks_does_not_show_is_an_error_after_an_hour() -> None:
    class Forgetful(FakeEks):
        def set_most(self, cluster: str, group: str, most: int) -> str:
            self.asked.append(most)
            assert len(self.asked) <= 1 + clock.waits, "it asked again at once"
            return "update-1"

    clock = FakeClock()
    with pytest.raises(ApiError, match=r"EKS still reports a maximum of 2 \(after 3600 s\)"):
        change(Forgetful(), 4, clock)
    assert clock.waits == 1800


def test_a_right_that_is_missing_is_an_error_at_once() -> None:
    eks = FakeEks(refusals=[ApiError("AccessDeniedException", "not authorized")])
    with pytest.raises(ApiError, match="not authorized"):
        change(eks, 4)
    assert eks.asked == [4]


def test_an_update_that_never_ends_is_an_error_after_an_hour() -> None:
    clock = FakeClock()
    with pytest.raises(ApiError, match=r"update update-1 has not ended \(after 3600 s\)"):
        change(FakeEks(statuses=["InProgress"] * 2000), 4, clock)
    assert clock.waits == 1800


def test_a_cancelled_deployment_waits_no_longer() -> None:
    with pytest.raises(Cancelled):
        change(FakeEks(refusals=[BUSY] * 9), 4, FakeClock(cancelled_at=2))
