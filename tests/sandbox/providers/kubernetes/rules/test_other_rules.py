"""An API server refuses some policies, quotas, data, bindings, and updates of immutable fields."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, job

POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
QUOTA = "kubernetes:core/v1:ResourceQuota"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
SECRET = "kubernetes:core/v1:Secret"
BINDING = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
META = {"name": "it", "namespace": "default"}


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, []),
        ({}, ["spec.egress[0].to[0]: Required value: must specify a peer"]),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}, "podSelector": {}}, [
            "spec.egress[0].to[0]: Forbidden: may not specify both ipBlock and another peer"
        ]),
        ({"ipBlock": {"cidr": "10.0.0.1"}}, [
            ('spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.1": must be a valid CIDR value, (e.g. '
            "10.9.8.0/24 or 2001:db8::/64)")
        ]),
        ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}, [
            'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`'
        ]),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, [
            ("spec.egress[0].to[0].namespaceSelector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid "
            "selector operator")
        ]),
    ],
)  # fmt: skip
def test_the_peer_of_a_policy_is_one_kind_of_peer(cluster: Cluster, peer: dict[str, Any], expected: list[str]) -> None:
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [peer]}]}
    assert cluster.problems(POLICY, {"metadata": META, "spec": spec}) == expected


def test_ports_and_directions_of_a_policy_are_known(cluster: Cluster) -> None:
    ports = [{"protocol": "tcp", "port": 443}, {"port": 70000}, {"port": 90, "endPort": 80}, {"endPort": 80}]
    spec = {"podSelector": {}, "policyTypes": ["egress"], "egress": [{"ports": ports}]}
    at = "spec.egress[0].ports"
    assert cluster.problems(POLICY, {"metadata": META, "spec": spec}) == [
        f'{at}[0].protocol: Unsupported value: "tcp": supported values: "TCP", "UDP", "SCTP"',
        f"{at}[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
        f"{at}[2].endPort: Invalid value: 90: must be greater than or equal to `port`",
        f"{at}[3].endPort: Invalid value: 80: may not be specified when `port` is not specified",
        'spec.policyTypes[0]: Unsupported value: "egress": supported values: "Ingress", "Egress"',
    ]


def test_a_quota_counts_what_the_quota_system_knows(cluster: Cluster) -> None:
    hard = {"requests.nvidia.com/gpu": 4, "limits.cpu": "8", "pods": "1.5", "gpus": 2, "count/jobs.batch": 3}
    # The API server goes through a map in any order.
    assert sorted(cluster.problems(QUOTA, {"metadata": META, "spec": {"hard": hard}})) == [
        'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota',
        'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified',
        'spec.hard[pods]: Invalid value: "1500m": must be an integer',
    ]


def test_data_has_a_size_and_keys_of_a_form(cluster: Cluster) -> None:
    mebibyte = base64.b64encode(b"x" * 1024 * 1024).decode()
    assert cluster.problems(CONFIG_MAP, {"metadata": META, "binaryData": {"check.pyz": mebibyte}}) == []
    assert cluster.problems(
        CONFIG_MAP, {"metadata": META, "data": {"a": "b"}, "binaryData": {"check.pyz": mebibyte}}
    ) == [": Too long: may not be more than 1048576 bytes"]
    twice = {"metadata": META, "data": {"a/b": "", "x": ""}, "binaryData": {"x": ""}}
    assert sorted(cluster.problems(CONFIG_MAP, twice)) == [
        (
            "data[a/b]: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' "
            "or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        ),
        'data[x]: Invalid value: "x": duplicate of key present in binaryData',
    ]
    # The message for invalid base64 does not contain the value.
    assert cluster.problems(SECRET, {"metadata": META, "data": {"token": "hush!"}}) == [
        "data.token: error decoding from json: illegal base64 data at input byte 4"
    ]
    for wrong, at in (("aGV5aGk", 4), ("aGV5aG=k", 6)):
        assert cluster.problems(CONFIG_MAP, {"metadata": META, "binaryData": {"a": wrong}}) == [
            f"binaryData.a: error decoding from json: illegal base64 data at input byte {at}"
        ]


def test_a_cluster_role_binding_binds_a_cluster_role_to_accounts_in_namespaces(cluster: Cluster) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subjects = [{"kind": "ServiceAccount", "name": "ci"}, {"kind": "Team", "name": "ci"}]
    problems = cluster.problems(BINDING, {"metadata": {"name": "it"}, "roleRef": role, "subjects": subjects})
    assert problems == [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        "subjects[0].namespace: Required value",
        'subjects[1].kind: Unsupported value: "Team": supported values: "ServiceAccount", "User", "Group"',
    ]


@pytest.mark.parametrize(
    ("token", "old", "new", "expected"),
    [
        (JOB, job(), job(completionMode="Indexed", completions=1), [
            'Job.batch "smoke" is invalid: spec.completionMode: Invalid value: "Indexed": field is immutable'
        ]),
        (JOB, job(backoffLimit=1), job(backoffLimit=2), []),
        (SECRET, {"metadata": META, "immutable": True, "data": {}}, {"metadata": META, "data": {"a": ""}}, [
            ('Secret "it" is invalid: [immutable: Forbidden: field is immutable when `immutable` is set, data: '
            "Forbidden: field is immutable when `immutable` is set]")
        ]),
        (
            "kubernetes:scheduling.k8s.io/v1:PriorityClass",
            {"metadata": {"name": "it"}, "value": 1},
            {"metadata": {"name": "it"}, "value": 2},
            [
                'PriorityClass.scheduling.k8s.io "it" is invalid: value: Forbidden: may not be changed in an update.'
            ],
        ),
    ],
)  # fmt: skip
def test_an_update_of_what_never_changes_is_refused(
    cluster: Cluster, token: str, old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert cluster.refused(token, old, new) == expected
