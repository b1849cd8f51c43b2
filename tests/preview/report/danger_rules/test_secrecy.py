"""Tests of the rule `secret-exposed`, whose findings contain no secret value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_preview.model import Operation, Place, Severity
from gpu_preview.report.danger_rules import secrecy
from gpu_preview.report.locations import StackLines

from ...danger_cases import DELETE, REPLACE, SAME, SECRET, UNKNOWN, UPDATE, found, texts

VARIABLE = "github:index/actionsSecret:ActionsSecret"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
GONE = "secret-exposed: LaunchTemplate x"
STACK = "pulumi:pulumi:Stack"


@pytest.mark.parametrize("operation", [UPDATE, REPLACE])
@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ({"value": SECRET}, {"value": "hunter2"}, "value"),
        ({"data": SECRET}, {"data": {"password": "hunter2"}}, "data"),
        ({"data": {"a": SECRET}}, {"data": {"a": "hunter2", "b": 1}}, "data.a"),
        ({"list": ["known", SECRET]}, {"list": ["hunter2", "known"]}, "list[0]"),
        ({"env": [{"name": "A", "value": "a"}, {"name": "B", "value": SECRET}]},
         {"env": [{"name": "B", "value": "hunter2"}]}, "env[0].value"),
    ],
)  # fmt: skip
def test_a_secret_that_is_plain_now_is_reported_without_its_value(
    operation: Operation, before: Any, after: Any, where: str
) -> None:
    [finding] = found(VARIABLE, operation, before, after)
    assert finding.text == f"ActionsSecret x: {where} was secret and is plain now"
    assert (finding.rule, finding.severity) == ("secret-exposed", Severity.DANGER)
    assert "hunter2" not in finding.model_dump_json()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"value": SECRET}, {"value": SECRET}),
        ({"value": SECRET}, {"value": UNKNOWN}),
        ({"value": SECRET}, {"value": None}),
        ({"value": SECRET}, {}),
        ({"value": SECRET}, {"value": {"a": SECRET, "b": UNKNOWN}}),
        ({"value": "plain"}, {"value": "other"}),
        ({"value": "plain"}, {"value": SECRET}),
        ({"list": [SECRET, "known"]}, {"list": ["known"]}),
    ],
)
def test_a_secret_that_stays_one_or_goes_is_no_danger(before: Any, after: Any) -> None:
    assert found(VARIABLE, UPDATE, before, after) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ebs": {"encrypted": "true"}}, {"ebs": {"encrypted": "false"}}),
        ({"ebs": {"encrypted": True}}, {"ebs": {"encrypted": False}}),
        ({"ebs": {"encrypted": True}}, {"ebs": {}}),
        ({"blocks": [{"deviceName": "a", "encrypted": True}, {"deviceName": "b", "encrypted": True}]},
         {"blocks": [{"deviceName": "b", "encrypted": False}]}),
    ],
)  # fmt: skip
def test_encryption_that_is_switched_off_is_reported(before: Any, after: Any) -> None:
    [finding] = found(TEMPLATE, UPDATE, before, after)
    assert finding.text.endswith("encrypted was on and is off: the resource is no longer encrypted")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ebs": {"encrypted": True}}, {"ebs": {"encrypted": "true"}}),
        ({"ebs": {"encrypted": False}}, {"ebs": {}}),
        ({"ebs": {"encrypted": True}}, {"ebs": {"encrypted": UNKNOWN}}),
        ({"ebs": {"encrypted": True}}, {}),
        ({"blocks": [{"deviceName": "a", "encrypted": True}, {"deviceName": "b"}]}, {"blocks": [{"deviceName": "b"}]}),
    ],
)
def test_encryption_that_stays_was_never_on_or_goes_with_its_disk_is_no_danger(before: Any, after: Any) -> None:
    assert found(TEMPLATE, UPDATE, before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"kmsKeyId": "a"}, {}, [f"{GONE}: kmsKeyId is removed: the resource is no longer encrypted this way"]),
        ({"kmsKeyId": "a"}, {"kmsKeyId": ""},
         [f"{GONE}: kmsKeyId is removed: the resource is no longer encrypted this way"]),
        ({"diskEncryptionKey": {"kmsKeySelfLink": "a"}}, {"diskEncryptionKey": {}},
         [f"{GONE}: diskEncryptionKey is removed: the resource is no longer encrypted this way"]),
        ({"kmsKeyId": "a"}, {"kmsKeyId": "b"}, []),
        ({"kmsKeyId": "a"}, {"kmsKeyId": UNKNOWN}, []),
        ({"kmsKeyId": ""}, {}, []),
        ({"disk": {"kmsKeyId": "a"}}, {}, []),
    ],
)  # fmt: skip
def test_a_key_of_ones_own_that_is_gone_is_reported_and_another_key_is_not(
    before: Any, after: Any, expected: list[str]
) -> None:
    assert texts(found(TEMPLATE, UPDATE, before, after)) == expected


def test_a_resource_that_is_the_encryption_of_another_is_missed() -> None:
    type_ = "aws:ebs/encryptionByDefault:EncryptionByDefault"
    assert texts(found(type_, DELETE, {"enabled": True})) == [
        "secret-exposed: EncryptionByDefault x is deleted: it no longer configures encryption with a key"
    ]
    assert [each.rule for each in found(type_, UPDATE, {"enabled": True}, {"enabled": False})] == ["secret-exposed"]
    assert found(type_, REPLACE, {"enabled": True}, {"enabled": True}) == []
    assert found("aws:eks/cluster:Cluster", SAME, {"enabled": True}, {"enabled": False}) == []


@pytest.mark.parametrize(
    ("value", "count"),
    [("hunter2", 1), ("{b: hunter2}", 1), ("{b: {secure: v1:x}}", 0), ("{secure: v1:y}", 0), ("null", 0)],
)
def test_a_value_of_a_stack_file_that_was_encrypted_is_reported_without_it(
    tmp_path: Path, value: str, count: int
) -> None:
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text("config:\n  a:token: {secure: v1:x}\n")
    after.write_text(f"config:\n  a:token: {value}\n")
    lines = StackLines.read(after, "Pulumi.dev.yaml")
    found = list(secrecy.in_stack_files(before, after, lines))
    place = Place(file=lines.file, line=2, end_line=2)
    text = "Pulumi.dev.yaml: a:token was encrypted and is plain text now"
    assert [(each.text, each.place) for each in found] == [(text, place)] * count
    assert "hunter2" not in repr(found)
    before.write_text("config: [")
    assert list(secrecy.in_stack_files(before, after, lines)) == []


def test_a_secret_that_is_plain_with_the_same_value_is_reported_of_what_the_engine_calls_the_same() -> None:
    [finding] = found(VARIABLE, SAME, {"value": SECRET}, {"value": "hunter2"})
    assert finding.text == "ActionsSecret x: value was secret and is plain now"
    assert found(VARIABLE, SAME, {"value": "hunter2"}, {"value": SECRET}) == []
