"""Tests of misleading steps in the engine's digest, and of digests that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_preview.engine.digest import DigestError, parse
from gpu_preview.model import Operation
from gpu_preview.report.analysis import warnings

from .test_digest import BUCKET, read, step

SECRET = "[secret]"
TOPIC = "urn:pulumi:s::p::gcp:bigquery/job:Job::j"
VM = "urn:pulumi:s::p::aws:ec2/instance:Instance::vm"


def unclear(urn: str, before: dict[str, Any], after: dict[str, Any], op: str = "update") -> Any:
    """Return the resource of a step whose type the sandbox knows only by its shape."""
    kind = urn.split("::")[2]
    diagnostic = {"severity": "info", "message": f"{kind}: only its shape is checked; more", "urn": urn}
    [found] = read(step(op, urn, {"inputs": before}, {"inputs": after}), diagnostics=[diagnostic]).resources
    return found


@pytest.mark.parametrize(
    ("urn", "before", "after", "expected"),
    [
        (BUCKET, {"name": "a"}, {"name": "b"}, True),
        (BUCKET, {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, False),
        (BUCKET, {"labels": {"a": "1"}, "name": "a"}, {"labels": {"a": "2"}, "name": "b"}, True),
        (BUCKET, {"tags": {"a": "1"}}, {"tags": {"a": "2"}}, True),
        (TOPIC, {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, True),
        (VM, {"tags": {"a": "1"}}, {"tags": {"a": "2"}}, False),
        (BUCKET, {"name": SECRET}, {"name": "b"}, False),
        (BUCKET, {}, {}, True),
    ],
)
def test_an_update_of_labels_or_of_secrecy_alone_is_no_replacement(
    urn: str, before: dict[str, Any], after: dict[str, Any], expected: bool
) -> None:
    assert unclear(urn, before, after).may_replace is expected


def test_a_secret_that_is_plain_with_the_same_value_is_among_the_differences() -> None:
    found = unclear(BUCKET, {"a": SECRET, "b": "1"}, {"a": "x", "b": "2"})
    assert [(each.path, each.before, each.after) for each in found.properties] == [
        ("a", SECRET, "[was secret, not shown]"),
        ("b", '"1"', '"2"'),
    ]


def test_a_replaced_external_resource_is_created_and_nothing_is_deleted() -> None:
    [found] = read(step("replace", BUCKET, {"inputs": {}, "external": True}, {"inputs": {}})).resources
    assert found.operation == Operation.CREATE


def test_an_imported_resource_is_reported_as_existing() -> None:
    found = read(step("import", BUCKET, None, {"inputs": {}}))
    assert (found.resources[0].operation, found.resources[0].imported) == (Operation.CREATE, True)
    assert [(each.rule, each.text) for each in warnings(found)] == [
        ("imported", "logs exists already and is imported: the stack manages it from now on, and nothing is created")
    ]
    assert not read(step("create", BUCKET, None, {"inputs": {}})).resources[0].imported


@pytest.mark.parametrize("order", [("delete", "create"), ("create", "delete")])
def test_the_worse_of_two_steps_on_one_resource_counts(order: tuple[str, str]) -> None:
    [found] = read(*(step(op, BUCKET, {"inputs": {}}, {"inputs": {}}) for op in order)).resources
    assert found.operation == Operation.DELETE


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(DigestError) as error:
        parse(json.dumps(document))
    return str(error.value)


def test_a_summary_that_counts_what_no_step_tells_is_refused() -> None:
    assert refused({"steps": [], "changeSummary": {"delete": 3}}) == (
        "counts changes in `changeSummary`, and has no `steps`: a part of it is missing"
    )
    assert parse(json.dumps({"steps": [], "changeSummary": {"same": 3}})).resources == ()
    failed = {"steps": [], "changeSummary": {"create": 1}, "diagnostics": [{"severity": "error", "message": "x"}]}
    assert parse(json.dumps(failed)).errors == ["x"]
