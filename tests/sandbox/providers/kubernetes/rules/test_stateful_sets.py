"""StatefulSets and claims that an API server of Kubernetes 1.36 accepts or refuses, with its messages."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed, deployment
from tests.sandbox.providers.kubernetes.rules.test_object_rules import CONTAINER, DNS_LABEL, PLACE, POD, SPEC, SUBDOMAIN

STATEFUL_SET = "kubernetes:apps/v1:StatefulSet"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
MODES = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'
TEMPLATE, CLAIM_PLACE = "spec/volumeClaimTemplates/0", "spec.volumeClaimTemplates[0].spec"


def stateful_set() -> dict[str, Any]:
    """A database whose container mounts the claim `data` and the volume `tmp`."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    given = deployment(serviceName="web", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}])
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108
    given = changed(given, f"{CONTAINER}/volumeMounts", mounts)
    return changed(given, f"{POD}/volumes", [{"name": "tmp", "emptyDir": {}}])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec/replicas", 2),
        # A claim template takes the place of a volume with its name.
        (f"{POD}/volumes/1", {"name": "data", "emptyDir": {}}),
        (
            f"{POD}/initContainers/0",
            {"name": "init", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]},
        ),
        # The controller sets both for each pod.
        (f"{POD}/hostname", "Not_A_Name"),
        (f"{POD}/subdomain", "Not_A_Name"),
        # The API server does not check this count of a StatefulSet.
        ("spec/revisionHistoryLimit", -1),
        ("spec/serviceName", ...),
    ],
)
def test_a_stateful_set_mounts_its_claims_and_its_volumes(cluster: Cluster, path: str, value: Any) -> None:
    assert cluster.problems(STATEFUL_SET, changed(stateful_set(), path, value)) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (f"{CONTAINER}/volumeMounts/0/name", "date", f'{PLACE}.volumeMounts[0].name: Not found: "date"'),
        (f"{TEMPLATE}/metadata/name", "other", f'{PLACE}.volumeMounts[0].name: Not found: "data"'),
        ("spec/volumeClaimTemplates", [], f'{PLACE}.volumeMounts[0].name: Not found: "data"'),
        (f"{POD}/volumes", [], f'{PLACE}.volumeMounts[1].name: Not found: "tmp"'),
        ("metadata/name", "a.b", 'metadata.name: Invalid value: "a.b": must not contain dots'),
        ("spec/serviceName", "A", f'spec.serviceName: Invalid value: "A": {DNS_LABEL}'),
        ("spec/minReadySeconds", -1, "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"),
        (
            f"{POD}/activeDeadlineSeconds",
            60,
            f"{SPEC}.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
        ),
        (
            f"{TEMPLATE}/spec/accessModes",
            [],
            f"{CLAIM_PLACE}.accessModes: Required value: at least 1 access mode is required",
        ),
        (f"{TEMPLATE}/spec/resources", ..., f"{CLAIM_PLACE}.resources[storage]: Required value"),
    ],
)
def test_a_stateful_set_is_refused_in_the_words_of_the_api_server(
    cluster: Cluster, path: str, value: Any, expected: str
) -> None:
    assert cluster.problems(STATEFUL_SET, changed(stateful_set(), path, value)) == [expected]


@pytest.mark.parametrize(
    "path",
    ["spec/volumeClaimTemplates", TEMPLATE, f"{TEMPLATE}/metadata/name", f"{TEMPLATE}/spec", f"{POD}/volumes", POD],
)
def test_mounts_are_not_checked_against_volumes_that_a_preview_does_not_know(cluster: Cluster, path: str) -> None:
    mounted = changed(stateful_set(), f"{CONTAINER}/volumeMounts/0/name", "date")
    given = mounted if path != f"{TEMPLATE}/spec" else stateful_set()
    assert cluster.problems(STATEFUL_SET, changed(given, path, UNKNOWN)) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec/accessModes", ["ReadWriteOnce", "ReadOnlyMany"], []),
        ("spec/storageClassName", "", []),
        ("spec/accessModes", ["ReadWriteTwice"], [
            f'spec.accessModes: Unsupported value: "ReadWriteTwice": supported values: {MODES}'
        ]),
        ("spec/accessModes", ["ReadWriteOncePod", "ReadWriteMany"], [
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"
        ]),
        ("spec/resources/requests", {}, ["spec.resources[storage]: Required value"]),
        ("spec/resources/requests/storage", "0", [
            'spec.resources[storage]: Invalid value: "0": must be greater than zero'
        ]),
        ("spec/resources/requests", UNKNOWN, []),
        ("spec/storageClassName", "Fast", [f'spec.storageClassName: Invalid value: "Fast": {SUBDOMAIN}']),
        ("spec/volumeMode", "File", [
            'spec.volumeMode: Unsupported value: "File": supported values: "Block", "Filesystem"'
        ]),
    ],
)  # fmt: skip
def test_a_claim_requests_storage_in_known_modes(cluster: Cluster, path: str, value: Any, expected: list[str]) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    given = {"metadata": {"name": "it", "namespace": "default"}, "spec": spec}
    assert cluster.problems(CLAIM, changed(given, path, value)) == expected
