"""Objects that an API server of Kubernetes 1.36 refuses, with its messages."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.kubernetes.conftest import DEPLOYMENT, GPU, JOB, Cluster, changed, deployment, job

LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
DNS_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
POD = "spec/template/spec"
SPEC = "spec.template.spec"
CONTAINER, PLACE = f"{POD}/containers/0", f"{SPEC}.containers[0]"


def test_objects_as_the_documentation_writes_them_are_taken(cluster: Cluster) -> None:
    assert cluster.problems(JOB, job()) == []
    assert cluster.problems(DEPLOYMENT, deployment(replicas=2)) == []
    assert (
        cluster.problems("kubernetes:example.com/v1:Widget", {"metadata": {"name": "w"}, "spec": {"anything": 1}}) == []
    )


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("metadata/name", "My_Job", f'metadata.name: Invalid value: "My_Job": {SUBDOMAIN}'),
        ("metadata/labels/pool", "a b", f'metadata.labels: Invalid value: "a b": {LABEL}'),
        ("metadata/labels", {"-pool": "a"}, f'metadata.labels: Invalid value: "-pool": {KEY}'),
        ("metadata/annotations", {"A b": "c"}, f'metadata.annotations: Invalid value: "A b": {KEY}'),
        ("spec/template/metadata/annotations", {"-": ""}, f'spec.template.annotations: Invalid value: "-": {KEY}'),
        (f"{CONTAINER}/name", "Smoke", f'{PLACE}.name: Invalid value: "Smoke": {DNS_LABEL}'),
        (f"{CONTAINER}/image", "", f"{PLACE}.image: Required value"),
        (
            f"{CONTAINER}/imagePullPolicy",
            "always",
            (
                f'{PLACE}.imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", '
                '"Never"'
            ),
        ),
        (f"{CONTAINER}/name", "", f"{PLACE}.name: Required value"),
        (f"{CONTAINER}/image", None, f"{PLACE}.image: Required value"),
        (
            f"{POD}/initContainers/0",
            {"name": "smoke", "image": "x"},
            f'{SPEC}.initContainers[0].name: Duplicate value: "smoke"',
        ),
        (
            f"{CONTAINER}/volumeMounts/0",
            {"name": "data", "mountPath": "/data"},
            f'{PLACE}.volumeMounts[0].name: Not found: "data"',
        ),
        (f"{POD}/nodeSelector/pool", "a/b", f'{SPEC}.nodeSelector: Invalid value: "a/b": {LABEL}'),
        (f"{POD}/containers", [], f"{SPEC}.containers: Required value"),
        ("spec/backoffLimit", -1, "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"),
        (
            "spec/completionMode",
            "indexed",
            'spec.completionMode: Unsupported value: "indexed": supported values: "NonIndexed", "Indexed"',
        ),
        (
            "spec/backoffLimitPerIndex",
            1,
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        ),
        (f"{POD}/restartPolicy", ..., f'{SPEC}.restartPolicy: Required value: valid values: "OnFailure", "Never"'),
    ],
)
def test_a_job_is_refused_in_the_words_of_the_api_server(
    cluster: Cluster, path: str, value: Any, expected: str
) -> None:
    assert cluster.problems(JOB, changed(job(), path, value)) == [expected]


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": GPU, "operator": "Exists", "effect": "NoSchedule"}, []),
        (
            {"key": GPU, "operator": "Exist"},
            ['operator: Unsupported value: "Exist": supported values: "Equal", "Exists"'],
        ),
        (
            {"key": GPU, "operator": "Exists", "effect": "NO_SCHEDULE"},
            [
                (
                    'effect: Unsupported value: "NO_SCHEDULE": supported values: "NoSchedule", "PreferNoSchedule", '
                    '"NoExecute"'
                )
            ],
        ),
        (
            {"key": GPU, "operator": "Exists", "value": "present"},
            ["operator: Invalid value: \"present\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            {"operator": "Equal", "value": "present"},
            [
                (
                    'operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match '
                    'all values and all keys"'
                )
            ],
        ),
        (
            {"key": GPU, "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 60},
            ["effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        ),
        ({"key": UNKNOWN, "operator": "Exist"}, []),
    ],
)
def test_a_toleration_has_a_known_operator_and_effect(
    cluster: Cluster, toleration: dict[str, Any], expected: list[str]
) -> None:
    problems = cluster.problems(JOB, changed(job(), f"{POD}/tolerations", [toleration]))
    assert problems == [f"{SPEC}.tolerations[0].{one}" for one in expected]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {GPU: 1}, "requests": {GPU: "1"}}, []),
        ({"limits": {GPU: 2}, "requests": {GPU: 1}}, [
            f'requests: Invalid value: "1": must be equal to {GPU} limit of 2'
        ]),
        ({"requests": {GPU: 1}}, ["limits: Required value: Limit must be set for non overcommitable resources"]),
        ({"limits": {GPU: "500m"}}, [f'limits[{GPU}]: Invalid value: "500m": must be an integer']),
        ({"limits": {GPU: -1}}, [f'limits[{GPU}]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"limits": {"gpu": 1}}, [
            'limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
            'limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ]),
        ({"limits": {"memory": "4GB"}}, [f"limits.memory: {QUANTITY}"]),
        ({"limits": {"cpu": "1500m"}, "requests": {"cpu": 2}}, [
            'requests: Invalid value: "2": must be less than or equal to cpu limit of 1500m'
        ]),
        ({"limits": {"cpu": "1.50", "memory": "2048Mi"}, "requests": {"memory": "3072Mi"}}, [
            'requests: Invalid value: "3Gi": must be less than or equal to memory limit of 2Gi'
        ]),
        ({"limits": {"memory": "1e6"}, "requests": {"memory": "1500000"}}, [
            'requests: Invalid value: "1500k": must be less than or equal to memory limit of 1e6'
        ]),
        ({"limits": {"memory": "512"}, "requests": {"memory": "0.75Ki"}}, [
            'requests: Invalid value: "768": must be less than or equal to memory limit of 512'
        ]),
        ({"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": "0.5", "memory": "1e6"}}, []),
        ({"limits": {GPU: UNKNOWN}, "requests": {GPU: 1}}, []),
    ],
)  # fmt: skip
def test_gpus_are_whole_and_requested_as_they_are_limited(
    cluster: Cluster, resources: dict[str, Any], expected: list[str]
) -> None:
    problems = cluster.problems(JOB, changed(job(), f"{CONTAINER}/resources", resources))
    assert problems == [f"{PLACE}.resources.{one}" for one in expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "gpu", "operator": "In", "values": ["t4"]}, []),
        ({"key": "gpu", "operator": "In"}, [
            "values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
        ]),
        ({"key": "gpu", "operator": "Exists", "values": ["t4"]}, [
            "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        ]),
        ({"key": "gpu", "operator": "Gt", "values": []}, [
            "values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
        ]),
        ({"key": "gpu", "operator": "in", "values": ["t4"]}, [
            'operator: Invalid value: "in": not a valid selector operator'
        ]),
    ],
)  # fmt: skip
def test_the_affinity_to_nodes_has_known_operators(
    cluster: Cluster, expression: dict[str, Any], expected: list[str]
) -> None:
    wanted = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    path = (
        f"{SPEC}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0]"
    )
    problems = cluster.problems(JOB, changed(job(), f"{POD}/affinity", affinity))
    assert problems == [f"{path}.{one}" for one in expected]


def test_a_selector_that_does_not_select_its_own_pods_is_refused(cluster: Cluster) -> None:
    other = changed(deployment(), "spec/template/metadata/labels", {"app": "other"})
    assert cluster.problems(DEPLOYMENT, other) == [
        'spec.template.metadata.labels: Invalid value: {"app":"other"}: `selector` does not match template `labels`'
    ]
    unlabelled = changed(deployment(), "spec/template/metadata", ...)
    assert cluster.problems(DEPLOYMENT, unlabelled) == [
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"
    ]
    empty = changed(deployment(), "spec/selector", {"matchLabels": {}})
    assert cluster.problems("kubernetes:apps/v1:DaemonSet", empty) == [
        "spec.selector: Invalid value: {}: empty selector is invalid for daemonset"
    ]
    assert cluster.problems(DEPLOYMENT, changed(deployment(), "spec/selector", {"matchLabels": {"app": UNKNOWN}})) == []


def test_several_mistakes_are_reported_at_once(cluster: Cluster) -> None:
    wrong = changed(changed(job(), "spec/parallelism", -1), f"{CONTAINER}/image", "")
    assert cluster.problems(JOB, wrong) == [
        "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        f"{PLACE}.image: Required value",
    ]


def test_what_a_preview_does_not_know_is_no_mistake(cluster: Cluster) -> None:
    for path in ("metadata", "spec", "spec/template", POD, f"{POD}/containers", CONTAINER, f"{CONTAINER}/resources"):
        assert cluster.problems(JOB, changed(job(), path, UNKNOWN)) == []
