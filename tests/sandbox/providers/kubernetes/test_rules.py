"""Objects that the schemas of Kubernetes 1.36 refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.providers.kubernetes.conftest import GPU, JOB, Cluster, changed, job

SPEC, PLACE = "spec/template/spec", "spec.template.spec.containers[0]"
RESOURCES = f"{SPEC}/containers/0/resources"


def test_objects_as_the_documentation_writes_them_are_accepted(cluster: Cluster) -> None:
    assert cluster.problems(JOB, job()) == []
    widget = {"metadata": {"name": "w"}, "spec": {"anything": 1}}
    assert cluster.problems("kubernetes:example.com/v1:Widget", widget) == []
    stateful_set = {"metadata": {"name": "a"}, "spec": {"selector": {}, "serviceName": "A b", "template": {}}}
    assert cluster.problems("kubernetes:apps/v1:StatefulSet", stateful_set) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec/template/spec/restart", "Never", "spec.template.spec.restart: field not declared in schema"),
        (f"{SPEC}/containers/0/name", ..., f"{PLACE}.name: Required value"),
        ("spec/parallelism", "2", "spec.parallelism: expected numeric (int or float), got string"),
        (f"{SPEC}/containers/0/image", 3, f"{PLACE}.image: expected string, got integer"),
        (
            f"{SPEC}/containers/1",
            {"name": "smoke", "image": "x"},
            'spec.template.spec.containers: duplicate entries for key [name="smoke"]',
        ),
        (
            RESOURCES,
            {"limits": {GPU: "two"}},
            (
                f"{PLACE}.resources.limits.{GPU}: quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
    ],
)
def test_a_schema_refuses_fields_and_types(cluster: Cluster, path: str, value: Any, expected: str) -> None:
    assert cluster.problems(JOB, changed(job(), path, value)) == [expected]
