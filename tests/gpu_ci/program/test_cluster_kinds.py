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

from tests.gpu_ci.program import gke
from tests.gpu_ci.program.stack import ON_CLUSTER, load, refused, told
from tests.gpu_ci.program.test_clusters import deployed, stack
from tests.gpu_ci.program.test_program import run

pytestmark = pytest.mark.usefixtures("short_definitions")

EKS: dict[str, Any] = ON_CLUSTER["gpu-ci:clusters"]["ci"]
HERE = "Pulumi.staging.yaml: gpu-ci:"


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


@pytest.mark.parametrize(
    ("kind", "got", "hint"),
    [
        ("ekss", "'ekss'", "did you mean eks"),
        ("openshift", "'openshift'", "such as kind: eks"),
        (None, "nothing", "such as kind: eks"),
        (["eks"], "a list", "did you mean eks"),
    ],
)
def test_an_unknown_kind_is_one_problem(kind: Any, got: str, hint: str) -> None:
    assert told(of(ci={**EKS, "kind": kind})) == (
        f"{HERE}clusters.ci.kind: unknown kind of cluster\n  got: {got}\n  expected: one of eks, gke\n  hint: {hint}"
    )


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"location": "us-central1"}, "gke"),
        ({"project": "acme-ci", "networkPolicies": False}, "gke"),
        ({"region": "us-east-1"}, "eks"),
        ({"region": "us-east-1", "location": "us-central1"}, "eks"),
        ({"networkPolicies": False}, "eks"),
        ({"x": 1}, "eks"),
    ],
)
def test_a_cluster_without_a_kind_is_checked_as_the_kind_that_alone_has_its_fields(
    fields: dict[str, Any], kind: str
) -> None:
    assert clusters.known({"gpu": fields})["gpu"].kind == kind
    problem = refused(of(ci={**fields, "kind": "aks"})).problems[0]
    assert (problem.path, problem.text) == ("gpu-ci:clusters.ci.kind", "unknown kind of cluster")
    assert problem.hint == "did you mean eks"  # "aks" is one letter away
    assert refused(of(ci={**fields, "kind": "openshift"})).problems[0].hint == f"such as kind: {kind}"


@pytest.mark.parametrize(
    ("given", "text", "got"),
    [
        (None, "has no fields", "nothing"),
        ({}, "has no fields", "a map"),
        ("gke", "must be a map", "text"),
        ([{"kind": "gke"}], "must be a map", "a list"),
    ],
)
def test_a_cluster_without_fields_is_one_problem_with_the_fields_that_its_pools_need(
    given: Any, text: str, got: str
) -> None:
    [problem] = refused({**gke.stack(), "gpu-ci:clusters": {"gpu": given}}).problems
    assert (problem.path, problem.text, problem.got, problem.hint) == (
        "gpu-ci:clusters.gpu",
        text,
        got,
        "such as {kind: gke, location: us-central1}",
    )
    [problem] = refused(of(ci=given)).problems
    assert problem.hint == "such as {region: us-east-1, subnets: {us-east-1a: subnet-0123456789abcdef0}}"


@pytest.mark.usefixtures("two_kinds")
def test_each_cluster_is_checked_with_the_fields_of_its_kind() -> None:
    wrong = refused(of(ci={**EKS, "size": 1}, two={"kind": "other", "region": "us-east-1"})).problems
    assert [(problem.path, problem.text) for problem in wrong] == [
        ("gpu-ci:clusters.ci.size", "unknown key"),
        ("gpu-ci:clusters.two.size", "is missing"),
        ("gpu-ci:clusters.two.region", "unknown key"),
    ]


@pytest.mark.usefixtures("two_kinds")
def test_fields_that_all_kinds_have_are_checked_in_each() -> None:
    two = {"kind": "other", "size": 1, "namespace": "arc-systems"}
    assert told(of(ci=EKS, two=two)).splitlines()[0] == (
        f"{HERE}clusters.two.namespace: is already the namespace of the controller"
    )


@pytest.mark.usefixtures("two_kinds")
def test_a_pool_on_a_cluster_of_another_kind_is_refused_with_the_clusters_that_fit() -> None:
    values = of(ci=EKS, two={"kind": "other", "size": 1})
    values["gpu-ci:pools"]["a10g"]["clusterName"] = "two"
    [problem, *_] = refused(values).problems
    assert (problem.path, problem.text, problem.got, problem.expected, problem.hint) == (
        "gpu-ci:pools.a10g.clusterName",
        "is a cluster of kind other, but kind eks-runners needs a cluster of kind eks",
        "'two'",
        "one of ci",
        "such as clusterName: ci",
    )
    del values["gpu-ci:clusters"]["ci"]
    [problem, *_] = refused(values).problems
    assert (problem.expected, problem.hint) == (
        "a cluster of kind eks",
        "use the kind for this cluster, or another cluster",
    )


@pytest.mark.usefixtures("two_kinds")
def test_clusters_of_two_kinds_are_in_one_stack_file() -> None:
    values = of(ci=copy.deepcopy(EKS), two={"kind": "other", "size": 3})
    found = load(values).clusters
    assert {name: type(each).__name__ for name, each in found.items()} == {"ci": "EksCluster", "two": "OtherCluster"}
    known = clusters.known(values["gpu-ci:clusters"])
    assert (known["two"].kind, known["two"].wiring) == ("other", {"region": "size-3"})
    assert list(clusters.of_kind(values["gpu-ci:clusters"], "other")) == ["two"]
