"""Tests of all danger rules together: order, moved resources, hostile values, and the generated page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.engine.states import State
from gpu_preview.model import Operation
from gpu_preview.report.danger_rules import data_loss, exposure, find, jobs, secrecy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ..danger_cases import CREATE, DELETE, REPLACE, SECRET, UNKNOWN, UPDATE, found, resource, state, urn

GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
DISK = "gcp:compute/disk:Disk"

# Whatever any rule looks at, so that hostile values reach every branch.
TYPES = sorted(
    {
        *jobs.BY_TYPE,
        *data_loss.HOLDS,
        *exposure.FIREWALLS,
        *secrecy.ENCRYPTS,
        "pulumi:pulumi:Stack",
        "gpu-ci:gcp:SmokeGate",
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:batch/v1:Job",
        "aws:iam/role:Role",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",
        "gcp:projects/iAMMember:IAMMember",
        "github:index/actionsRunnerGroup:ActionsRunnerGroup",
        "github:index/repositoryRuleset:RepositoryRuleset",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "kubernetes:core/v1:Service",
        "",
    }
)
OTHERS = [
    "version", "image", "sourceImage", "torch", "branch", "policy", "assumeRolePolicy", "Statement", "Effect",
    "Principal", "Action", "Condition", "Resource", "Federated", "StringLike", "role", "member", "members",
    "roleRef", "name", "rules", "verbs", "resources", "updatePolicy", "type", "versions", "targetSize",
    "chart", "spec", "metadata", "annotations", "ingress", "cidr", "vpcConfig", "publicAccessCidrs",
    "sourceRanges", "allows", "ports", "direction", "match", "srcIpRanges", "attributeCondition", "oidc",
    "visibility", "selectedRepositoryIds", "enforcement",
]  # fmt: skip
KEYS = sorted(
    {rule.key for rule in exposure.EXPOSES} | secrecy.ENCRYPTION_SETTINGS | secrecy.ENCRYPTION_SWITCHES | set(OTHERS)
)
WORDS = ["", SECRET, UNKNOWN, "*", "Allow", "all", "0.0.0.0/0", "allUsers", "1.2", "R580", "a/b:1@sha256:0", "{", "[[["]
TEXTS = st.sampled_from(WORDS) | st.text(max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inside, max_size=4)
        | inside.map(lambda value: json.dumps(value))
    ),
    max_leaves=12,
)
INPUTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(type_=st.sampled_from(TYPES), operation=st.sampled_from(Operation), before=INPUTS, after=INPUTS)
def test_no_value_whatever_ends_the_search(type_: str, operation: Operation, before: Any, after: Any) -> None:
    for finding in found(type_, operation, before, after):
        assert 0 < len(finding.text) <= 600


@settings(max_examples=200, deadline=None)
@given(digest=VALUES)
@example(digest={"urn": 1, "inputs": [], "dependencies": "x", "stackTrace": [1, {"sourcePosition": {}}], "protect": 1})
def test_a_state_of_any_form_is_read(digest: Any) -> None:
    read = State.of(digest)
    assert isinstance(read.urn, str)
    assert find({read.urn: read}, {read.urn: read}, []) == []


def test_a_value_of_any_depth_is_handled() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = {"bypassActors": [deep]}
    github = "github:index/repositoryRuleset:RepositoryRuleset"
    assert found(github, UPDATE, {"bypassActors": []}, deep)[0].text.endswith("allows 1 more in bypassActors")


def test_the_worst_comes_first_and_nothing_comes_twice() -> None:
    before = [state(GROUP, "b"), state(DISK, "a"), state(DISK, "c", protect=True)]
    after = [state(DISK, "c")]
    resources = [resource(DISK, UPDATE, "c"), resource(DISK, DELETE, "a"), resource(GROUP, DELETE, "b")]
    found = find({each.urn: each for each in before}, {each.urn: each for each in after}, [*resources, resources[0]])
    assert [each.rule for each in found] == ["interrupts-jobs", "loses-data", "protected"]


def test_a_resource_that_moved_is_compared_with_what_it_was() -> None:
    old, new = state(GROUP, "old", {"targetSize": 3}), state(GROUP, "new", {"targetSize": 1})
    moved = resource(GROUP, UPDATE, "new", moved_from=old.urn)
    assert [each.urn for each in find({old.urn: old}, {new.urn: new}, [moved])] == [urn(GROUP, "new")]


def test_a_text_that_looks_like_a_secret_is_redacted() -> None:
    token = "ghp_" + "a" * 36
    member = {"role": "roles/owner", "member": f"user:{token}"}
    [finding] = found("gcp:projects/iAMMember:IAMMember", CREATE, after=member)
    assert finding.text == "IAMMember x grants roles/owner to user:[secret]"


def test_a_long_name_is_shortened() -> None:
    [finding] = find({urn(DISK, "n" * 5000): state(DISK, "n" * 5000)}, {}, [resource(DISK, DELETE, "n" * 5000)])
    assert len(finding.text) == 600
    assert finding.text.endswith("…")


@pytest.mark.parametrize("operation", [DELETE, REPLACE])
def test_a_resource_without_its_state_is_no_danger(operation: Operation) -> None:
    assert find({}, {}, [resource(GROUP, operation), resource(DISK, operation)]) == []


def test_every_type_of_the_tables_exists() -> None:
    """Compares the types with the sources of the packages, because a misspelt type would never match."""
    import pulumi_aws
    import pulumi_gcp
    import pulumi_github
    import pulumi_kubernetes

    named = {*jobs.BY_TYPE, *data_loss.HOLDS, *exposure.FIREWALLS, *secrecy.ENCRYPTS}
    packages = {"aws": pulumi_aws, "gcp": pulumi_gcp, "github": pulumi_github, "kubernetes": pulumi_kubernetes}
    missing = []
    for type_ in sorted(named):
        package, module, _ = type_.split(":")
        folder = Path(str(packages[package].__file__)).parent
        if package == "kubernetes" and module.startswith("actions."):
            continue  # custom resources, which no package has
        part = folder if module.startswith("index/") else folder / module.split("/")[0].replace(".k8s.io", "")
        part = folder if package == "kubernetes" else part
        sources = part.rglob("*.py") if package == "kubernetes" else part.glob("*.py")
        if not any(f"'{type_}'" in source.read_text() for source in sources):
            missing.append(type_)
    assert missing == []
