"""Clusters of several kinds in one stack file."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest
from gpu_ci.args import Integer
from gpu_ci.kubernetes.cluster import Cluster
from gpu_ci.stack import clusters
from pydantic import Field

from tests.gpu_ci.program.stack import ON_CLUSTER, load
from tests.gpu_ci.program.test_clusters import deployed, stack
from tests.gpu_ci.program.test_program import run

pytestmark = pytest.mark.usefixtures("short_definitions")

EKS: dict[str, Any] = ON_CLUSTER["gpu-ci:clusters"]["ci"]


class OtherCluster(Cluster):
    """A cluster of a cloud that only this test has."""

    CLUSTER_KIND: ClassVar[str] = "other"
    EXAMPLE: ClassVar[dict[str, Any]] = {"kind": "other", "size": 1}

    kind: Literal["other"] = Field(description="a cluster of this test")
    size: Integer = Field(ge=1, description="a field of this kind alone")

    @classmethod
    def known_wiring(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        return {"region": f"size-{described.get('size')}"}


@pytest.fixture
def two_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"eks": ("gpu_ci.aws.eks_cluster", "EksCluster"), "other": (__name__, "OtherCluster")}
    monkeypatch.setattr(sys.modules["gpu_ci.kinds"], "_clusters", lambda: found)  # gpu_ci.kinds is a function


def of(**described: Any) -> dict[str, Any]:
    """The stack with these clusters."""
    return stack(clusters=described)


def test_a_cluster_without_a_kind_is_an_eks_cluster() -> None:
    explicit = run(of(ci={"kind": "eks", **EKS}))
    rows = {(row.type, row.name): row.inputs for row in explicit.rows}
    assert rows == {(row.type, row.name): row.inputs for row in deployed().rows}


@pytest.mark.usefixtures("two_kinds")
def test_clusters_of_two_kinds_are_in_one_stack_file() -> None:
    values = of(ci=copy.deepcopy(EKS), two={"kind": "other", "size": 3})
    found = load(values).clusters
    assert {name: type(each).__name__ for name, each in found.items()} == {"ci": "EksCluster", "two": "OtherCluster"}
    known = clusters.known(values["gpu-ci:clusters"])
    assert (known["two"].kind, known["two"].wiring) == ("other", {"region": "size-3"})
    assert list(clusters.of_kind(values["gpu-ci:clusters"], "other")) == ["two"]
