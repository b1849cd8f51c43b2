"""Random rollouts with a fault at each request: lost requests and answers, kills, other writers, failed operations."""

from __future__ import annotations

import pytest

from . import google_requests
from .rollouts import History

FAST, ALL = 200, 2000


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")


def test_histories_with_faults() -> None:
    ends = [check(seed) for seed in range(FAST)]
    # Good and bad models, with and without traffic: all ends occur.
    assert {"done", "rolled-back", "error"} <= set(ends), set(ends)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(9))
def test_more_histories_with_faults(part: int) -> None:
    for seed in range(FAST + part * 200, FAST + (part + 1) * 200):
        check(seed)


def check(seed: int) -> str:
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
    # The split never moves traffic to a third model.
    for key, body in fake.changes:
        assert key != "deploy" or "trafficSplit" not in body, seed
    if not history.foreign and end.status in ("done", "rolled-back"):
        labels = fake.labels
        winner = labels["gpu-ci-rollout"] if end.status == "done" else labels["gpu-ci-stable"]
        assert fake.split == ({winner: 100} if winner else {}), (seed, end)
        if end.status == "rolled-back" and "undeploy" not in end.reason and not history.chance:
            assert labels["gpu-ci-rollout"] not in fake.models, (seed, end)
    if history.version == "5" and fake.per_minute and history.rollout.settings.strategy == "canary" and fake.splits:
        if labels_stable := fake.labels.get("gpu-ci-stable"):
            assert end.status != "done" or history.foreign, (seed, end, labels_stable)
    for request in fake.requests:
        google_requests.check(*request)
    return end.status
