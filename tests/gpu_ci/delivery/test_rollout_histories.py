"""Random rollouts with a fault at each request: lost requests and answers, kills, other writers, failed operations."""

from __future__ import annotations

import pytest

from . import google_requests
from .rollouts import BAD, History

FAST, ALL, PARTS = 20, 2000, 10


def test_histories_with_faults() -> None:
    reasons = {check(seed) for seed in range(FAST)}
    # Good and bad models, with and without traffic, and failed operations: all ends occur.
    assert {"", "errors", "requested", "deploy-failed", "max-hold"} <= reasons


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_more_histories_with_faults(part: int) -> None:
    for seed in range(FAST + part, ALL, PARTS):
        check(seed)


def check(seed: int) -> str:
    """Run a history, check what holds in each, and return the reason of its end."""
    history = History(seed)
    end = history.run()
    fake, rollout = history.rollout.fake, history.rollout
    assert end.reason or end.status == "done", (seed, end)
    assert fake.removed_while_open == [], seed
    # The fake checks the sum of each split. Each write of ours also has a sum of 100, or no split.
    patches = rollout.patches()
    assert all(sum(each["trafficSplit"].values()) in (0, 100) and each["etag"] for each in patches), seed
    # A rollback is one write: its split has one model, and no later write of the rollout changes it.
    for at, patch in enumerate(patches):
        labels = patch["labels"]
        if labels["gpu-ci-status"] == "rolled-back":
            stable = labels["gpu-ci-stable"]
            assert patch["trafficSplit"] == ({stable: 100} if stable else {}), seed
            later = [each for each in patches[at + 1 :] if each["labels"]["gpu-ci-rollout"] == labels["gpu-ci-rollout"]]
            assert all(each["trafficSplit"] == patch["trafficSplit"] for each in later), seed
    # Only a write with the labels moves traffic.
    assert not any("trafficSplit" in body for _, path, _, body in fake.requests if path.endswith("eployModel")), seed
    if not history.foreign and end.status in ("done", "rolled-back"):
        labels = fake.labels
        winner = labels["gpu-ci-rollout"] if end.status == "done" else labels["gpu-ci-stable"]
        assert fake.split == ({winner: 100} if winner else {}), (seed, end)
        # After the faults, one more pass leaves no model without use.
        fake.fault = lambda *_: None
        fake.sleep(3600)
        rollout.watch()
        assert end.status == "done" or labels["gpu-ci-rollout"] not in fake.models, (seed, end)
    is_judged = history.version == BAD and fake.per_minute and rollout.settings.strategy == "canary" and patches
    if is_judged and patches[0]["labels"]["gpu-ci-stable"] and not history.foreign:
        assert end.status != "done", (seed, end)
    for request in fake.requests:
        google_requests.check(*request)
    return end.reason
