"""Tests of the rules on data, protection and secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_preview.model import Operation, Severity
from gpu_preview.report.danger_rules import find, secrecy

from ...danger_cases import CREATE, DELETE, REPLACE, SAME, SECRET, UNKNOWN, UPDATE, found, resource, state, texts

BUCKET = "gcp:storage/bucket:Bucket"
SECRET_OF_KUBERNETES = "kubernetes:core/v1:Secret"


@pytest.mark.parametrize(
    ("type_", "inputs", "text"),
    [
        ("gcp:compute/disk:Disk", {}, "the disk's content"),
        ("aws:ebs/volume:Volume", {}, "the volume's content"),
        ("gcp:artifactregistry/repository:Repository", {}, "every image and package in it"),
        ("gcp:vertex/aiEndpoint:AiEndpoint", {}, "its deployed models, its traffic split and its address"),
        ("gcp:secretmanager/secret:Secret", {}, "every version of it"),
        ("aws:secretsmanager/secret:Secret", {}, "its value"),
        ("kubernetes:core/v1:PersistentVolumeClaim", {},
         "the volume's content, if its storage class does not retain the volume"),
        ("github:index/repository:Repository", {"archiveOnDestroy": False}, "its code, issues and releases"),
        (BUCKET, {"forceDestroy": True}, "every object in it"),
        (BUCKET, {},
         "every object in it; without forceDestroy the cloud refuses the deletion until the resource is empty"),
        ("aws:ecr/repository:Repository", {"forceDelete": False},
         "every image in it; without forceDelete the cloud refuses the deletion until the resource is empty"),
        ("aws:rds/instance:Instance", {"deletionProtection": True},
         "all data in it; because of deletionProtection, the cloud refuses the deletion"),
    ],
)  # fmt: skip
def test_a_resource_with_data_is_reported_if_it_is_deleted_or_replaced(
    type_: str, inputs: dict[str, Any], text: str
) -> None:
    for operation, how in ((DELETE, "is deleted"), (REPLACE, "is replaced")):
        [finding] = found(type_, operation, inputs, inputs)
        assert finding.text == f"{type_.rpartition(':')[2]} x {how}, and with it {text}"
        assert (finding.rule, finding.severity) == ("loses-data", Severity.DANGER)
        assert found(type_, operation, inputs, inputs, retained=True) == []
    for operation in (CREATE, UPDATE, SAME):
        assert found(type_, operation, inputs, inputs) == []


def test_data_of_the_program_is_restored_by_a_replacement() -> None:
    assert found(SECRET_OF_KUBERNETES, REPLACE) == []
    assert texts(found(SECRET_OF_KUBERNETES, DELETE)) == [
        "loses-data: Secret x is deleted, and with it its value, unless it is kept somewhere else"
    ]


@pytest.mark.parametrize(("operation", "how"), [(DELETE, "is deleted"), (REPLACE, "is replaced")])
def test_a_protected_resource_of_any_type_is_reported_if_it_is_deleted(operation: Operation, how: str) -> None:
    [finding] = found("my:own:Thing", operation, protect=True)
    assert finding.text == f"Thing x {how}, but is protected: the engine refuses, and the update fails"
    assert (finding.rule, finding.severity) == ("protected", Severity.WARNING)
    assert found("my:own:Thing", operation) == []
    assert found("my:own:Thing", UPDATE, {"a": 1}, {"a": 2}, protect=True) == []


def test_protection_that_is_taken_off_is_reported_though_nothing_else_changes() -> None:
    one, other = state("my:own:Thing", protect=True), state("my:own:Thing")
    unchanged = [resource("my:own:Thing", SAME)]
    assert texts(find({one.urn: one}, {other.urn: other}, unchanged)) == [
        "protected: Thing x is no longer protected: a later change can delete it"
    ]
    assert find({one.urn: one}, {one.urn: one}, unchanged) == []
    assert find({other.urn: other}, {one.urn: one}, unchanged) == []


def unclear(type_: str, inputs: dict[str, Any] | None = None, **others: Any) -> list[tuple[str, str]]:
    """Return the findings on an update that may be a replacement."""
    one = state(type_, "x", inputs, **others)
    update = resource(type_, UPDATE, "x", may_replace=True)
    return [(each.rule, each.text) for each in find({one.urn: one}, {one.urn: one}, [update])]


MAYBE = "is updated or replaced: the sandbox does not know which of its properties force a replacement"


def test_an_update_that_may_be_a_replacement_is_a_danger_for_what_holds_data() -> None:
    [danger] = unclear("aws:rds/instance:Instance", {"deletionProtection": True})
    text = f"Instance x {MAYBE}; a replacement loses all data in it"
    assert danger == ("loses-data", f"{text}; because of deletionProtection, the cloud refuses the deletion")
    assert [rule for rule, _ in unclear("aws:dynamodb/table:Table")] == ["loses-data"]


def test_an_update_that_may_be_a_replacement_is_a_warning_for_what_holds_none_or_is_in_the_program() -> None:
    assert unclear("aws:sqs/queue:Queue") == [("replace-unknown", f"Queue x {MAYBE}")]
    assert [rule for rule, _ in unclear("aws:ssm/parameter:Parameter")] == ["replace-unknown"]
    assert unclear("aws:sqs/queue:Queue", retained=True) == []
    assert found("aws:sqs/queue:Queue", UPDATE, {"a": 1}, {"a": 2}) == []


def test_a_resource_that_loses_retain_on_delete_is_reported() -> None:
    before, after = (state(BUCKET, retained=each) for each in (True, False))
    [danger] = find({before.urn: before}, {after.urn: after}, [resource(BUCKET, SAME)])
    assert danger.rule == "protected"
    assert danger.text == "Bucket x loses retain_on_delete: a later change that removes it also deletes it in the cloud"
    assert find({after.urn: after}, {before.urn: before}, [resource(BUCKET, SAME)]) == []


def test_a_protection_that_goes_with_what_it_protects_is_a_danger() -> None:
    before, after = state("my:own:Thing", protect=True), state("my:own:Thing")
    [finding] = find({before.urn: before}, {after.urn: after}, [resource("my:own:Thing", REPLACE)])
    assert finding.text == "Thing x was protected: this change removes the protection, and the resource is replaced"
    assert (finding.rule, finding.severity) == ("protected", Severity.DANGER)


def test_a_resource_that_the_stack_stops_managing_is_reported_although_it_is_unchanged() -> None:
    before, after = (state(BUCKET, external=each) for each in (False, True))
    assert texts(find({before.urn: before}, {after.urn: after}, [resource(BUCKET, SAME)])) == [
        "protected: Bucket x is only read from now on: the stack no longer manages it"
    ]
    assert find({after.urn: after}, {after.urn: after}, [resource(BUCKET, SAME)]) == []
    replaced = find({before.urn: before}, {after.urn: after}, [resource(BUCKET, REPLACE)])
    assert [each.rule for each in replaced] == ["loses-data"]


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
    found = list(secrecy.in_stack_files(before, after, "Pulumi.dev.yaml"))
    text = "Pulumi.dev.yaml: a:token was encrypted and is plain text now"
    assert [each.text for each in found] == [text] * count
    assert "hunter2" not in repr(found)
    before.write_text("config: [")
    assert list(secrecy.in_stack_files(before, after, "Pulumi.dev.yaml")) == []


def test_a_secret_that_is_plain_with_the_same_value_is_reported_of_what_the_engine_calls_the_same() -> None:
    [finding] = found(VARIABLE, SAME, {"value": SECRET}, {"value": "hunter2"})
    assert finding.text == "ActionsSecret x: value was secret and is plain now"
    assert found(VARIABLE, SAME, {"value": "hunter2"}, {"value": SECRET}) == []
