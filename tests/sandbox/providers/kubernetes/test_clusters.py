"""A kubeconfig identifies a cluster, and the objects of two clusters are independent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.provider import NAMESPACE
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Placement
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.kubernetes.conftest import Cluster, kubeconfig, on
from tests.sandbox.providers.kubernetes.helm.test_releases import RELEASE, release
from tests.sandbox.providers.kubernetes.scheduling.test_scheduler import group, place

SPACE = {"metadata": {"name": "runners"}}
WIDE: dict[str, dict[str, Any]] = {
    NAMESPACE: SPACE,
    "kubernetes:scheduling.k8s.io/v1:PriorityClass": {"metadata": {"name": "runners"}, "value": 7},
}
TAKEN = (
    'namespaces "runners"',
    'priorityclasses.scheduling.k8s.io "runners"',
)
OTHERS = (
    "\n  hint: the stack test/dev has this object in the same cluster: remove it from one of the stacks, or rename it"
)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Cluster, Cluster]:
    """A provider for each of two clusters, over one world."""
    return on(tmp_path, kubeconfig=kubeconfig("ci")), on(tmp_path, kubeconfig=kubeconfig("other"))


def test_objects_and_releases_of_one_name_are_two_in_two_clusters(two: tuple[Cluster, Cluster]) -> None:
    plugin = release("nvidia-device-plugin", {}, name="plugin", namespace="runners")
    for cluster in two:
        for token, given in WIDE.items():
            cluster.up(token, "it", given)
        cluster.up(RELEASE, "plugin", plugin)
    assert [row.cluster for row in two[0].world.find(NAMESPACE)] == ["us-east-1/ci", "us-east-1/other"]
    assert len(two[0].world.find("kubernetes:apps/v1:DaemonSet")) == 2
    # And what goes from one stays in the other.
    gone = two[0].resource(RELEASE, "plugin", plugin, id="runners/plugin")
    two[0].lifecycle.delete(gone)
    assert [(row.type, row.cluster) for row in two[0].world.find("kubernetes:[ah]*") if "Role" not in row.type] == [
        (RELEASE, "us-east-1/other"), ("kubernetes:apps/v1:DaemonSet", "us-east-1/other"),
    ]  # fmt: skip
    assert two[0].cloud.locate(RELEASE, "runners/plugin") is None


@pytest.mark.parametrize(("token", "expected"), list(zip(WIDE, TAKEN, strict=True)))
def test_two_providers_of_one_cluster_collide_in_the_words_of_the_api(
    tmp_path: Path, token: str, expected: str
) -> None:
    # The second one names the region by the server's address.
    server = "https://AB.gr7.us-east-1.eks.amazonaws.com"
    first, second = on(tmp_path, kubeconfig=kubeconfig("ci")), on(tmp_path, kubeconfig=kubeconfig("ci", "", server))
    first.up(token, "it", WIDE[token])
    with pytest.raises(Refused) as refused:
        second.up(token, "it", WIDE[token])
    assert str(refused.value) == f"{expected} already exists{OTHERS}"


def test_a_group_gives_nodes_to_its_own_cluster_alone(tmp_path: Path) -> None:
    here, elsewhere = on(tmp_path, kubeconfig=kubeconfig("ci")), on(tmp_path, kubeconfig=kubeconfig("other"))
    group(here, amiType="BOTTLEROCKET_x86_64_NVIDIA")
    assert place(here) == Placement("t4-0")
    assert elsewhere.cloud.workloads.scheduler.knows_no_node()
    # One that tells no name means the only cluster there is; of two it can be neither.
    unnamed = on(tmp_path)
    assert place(unnamed) == Placement("t4-0")
    group(here, "l4", clusterName="other")
    assert unnamed.cloud.workloads.scheduler.knows_no_node()


CHANGES: dict[str, tuple[str, Any, bool]] = {
    "another cluster": ("kubeconfig", kubeconfig("other"), True),
    "other credentials": ("kubeconfig", kubeconfig("other", server="https://ci.example"), False),
    "one not known yet": ("kubeconfig", UNKNOWN, True),
    "a namespace": ("namespace", kubeconfig("other"), False),
}


@pytest.mark.parametrize(("name", "value", "replaced"), CHANGES.values(), ids=CHANGES)
def test_another_cluster_makes_another_provider_and_so_all_objects_anew(
    cluster: Cluster, name: str, value: Any, replaced: bool
) -> None:
    old = {"kubeconfig": kubeconfig("ci")}
    assert cluster.cloud.config_replaces(old, {**old, name: value}, name) is replaced
