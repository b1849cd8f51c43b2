"""A server-side apply to Kubernetes 1.36 refuses wrong types and keys before any rule runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, changed, job
from tests.sandbox.providers.kubernetes.rules.test_object_rules import CONTAINER, PLACE, POD, QUANTITY, SPEC

UNSTRUCTURED = '&value.valueUnstructured{Value:[]interface {}{1, "a"}}'


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec/paralelism", 2, "spec.paralelism: field not declared in schema"),
        ("spec/parallelism", "2", "spec.parallelism: expected numeric (int or float), got string"),
        ("spec/parallelism", True, "spec.parallelism: expected numeric (int or float), got bool"),
        ("spec/parallelism", [1], "spec.parallelism: expected numeric (int or float), got []interface {}"),
        (
            "spec/parallelism",
            {"a": 1},
            "spec.parallelism: expected numeric (int or float), got map[string]interface {}",
        ),
        ("spec/parallelism", 1.5, "spec.parallelism: cannot convert float64 to int32"),
        ("spec/suspend", "true", "spec.suspend: expected boolean, got &{true}"),
        (f"{CONTAINER}/name", ..., f"{PLACE}.name: Required value"),
        (f"{CONTAINER}/image", 2, f"{PLACE}.image: expected string, got &value.valueUnstructured{{Value:2}}"),
        (f"{CONTAINER}/image", [1, "a"], f"{PLACE}.image: expected string, got {UNSTRUCTURED}"),
        (f"{CONTAINER}/command", "python3", f"{PLACE}.command: expected list, got &{{python3}}"),
        (
            f"{CONTAINER}/command",
            {"b": [True], "a": None},
            f"{PLACE}.command: expected list, got &{{map[a:<nil> b:[true]]}}",
        ),
        (f"{CONTAINER}/resources/limits/cpu", True, f"{PLACE}.resources.limits.cpu: {QUANTITY}"),
        (f"{CONTAINER}/resources/limits/cpu", [1], f"{PLACE}.resources.limits.cpu: expected any scalar, got &{{[1]}}"),
        (
            f"{CONTAINER}/livenessProbe/httpGet/port",
            True,
            f"{PLACE}.livenessProbe.httpGet.port: json: cannot unmarshal bool into Go value of type int32",
        ),
        (
            f"{POD}/containers/1",
            {"name": "smoke", "image": "x"},
            f'{SPEC}.containers: duplicate entries for key [name="smoke"]',
        ),
        (
            f"{CONTAINER}/ports",
            [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}],
            f'{PLACE}.ports: duplicate entries for key [containerPort=80,protocol="TCP"]',
        ),
        (f"{POD}/containers", None, f"{SPEC}.containers: Required value"),
    ],
)
def test_what_the_schema_of_the_kind_does_not_have_is_refused(
    cluster: Cluster, path: str, value: Any, expected: str
) -> None:
    assert cluster.problems(JOB, changed(job(), path, value)) == [expected]
