"""The program creates Kueue once for each cluster, and a LocalQueue for each queue that its pools name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program import gke

pytestmark = pytest.mark.usefixtures("short_definitions")

KUEUE = {"queues": {"vision": {"gpus": 4, "cohort": "gpu"}, "speech": {"gpus": 2, "cohort": "gpu"}}}


def names(found: Deployment) -> list[str]:
    """Return the names of the resources of Kueue, sorted."""
    return sorted(row.name for row in found.rows if "kueue" in row.type.lower() or "kueue" in row.name)


def deployed(pool: Any, **cluster: Any) -> Deployment:
    return gke.deployed(gke.stack(pool, cluster))


def test_the_stack_that_manages_the_cluster_creates_kueue_and_all_queues() -> None:
    found = deployed({"queue": "vision"}, kueue=KUEUE)
    kueue = ["", "-flavor", "-namespace", "-release", "-speech", "-vision"]
    assert names(found) == [*(f"gpu-kueue{each}" for each in kueue), "gpu-runners-queue-vision"]
    waits = set(gke.row(found, "gpu-runners-queue-vision").request.dependencies)
    assert {gke.row(found, name).urn for name in ("gpu-kueue-release", "gpu-kueue-vision")} <= waits


def test_another_stack_on_the_cluster_creates_only_the_queues_of_its_namespace() -> None:
    assert names(deployed({"queue": "speech"}, kueue=KUEUE, managed=False)) == ["gpu-runners-queue-speech"]


def test_runners_wait_until_their_local_queue_exists() -> None:
    found = deployed({"queue": "vision"}, kueue=KUEUE)
    release = gke.row(found, "l4-runners-release")
    assert gke.row(found, "gpu-runners-queue-vision").urn in set(release.request.dependencies)
    labels = release.inputs["values"]["template"]["metadata"]["labels"]
    assert labels == {"kueue.x-k8s.io/queue-name": "vision"}


def test_without_kueue_nothing_of_it_is_created() -> None:
    found = deployed({})
    assert names(found) == []
    assert "labels" not in gke.row(found, "l4-runners-release").inputs["values"]["template"]["metadata"]
