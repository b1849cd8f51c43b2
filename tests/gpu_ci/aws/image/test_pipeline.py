"""The resources of an image pipeline: closed machines, few permissions, tests, and the images that are kept."""

from __future__ import annotations

from typing import Any

import botocore.session  # type: ignore[import-untyped]
import pytest
from botocore.validate import ParamValidator  # type: ignore[import-untyped]
from gpu_ci.aws import resource_names

from tests.gpu_ci.aws.image.image_pipelines import PRIVATE, PUBLIC, pipeline
from tests.gpu_ci.harness import Row

MODEL = botocore.session.get_session().get_service_model("imagebuilder")


def test_the_key_of_a_tag_of_long_names_has_at_most_128_characters() -> None:
    keys = [resource_names.in_use_key("s" * 100, pool) for pool in ("a" * 40, "b" * 40)]
    assert [len(key) <= 128 for key in keys] == [True, True]
    assert len(set(keys)) == 2


def versions(**changes: Any) -> dict[str, tuple[str, str]]:
    rows = [row for row in pipeline(**changes).rows if "version" in row.inputs]
    return {row.name: (row.inputs["name"], row.inputs["version"]) for row in rows}


def test_new_content_is_a_new_version_under_the_same_name_and_old_content_the_old_version() -> None:
    before, after = versions(), versions(images=[PUBLIC, PRIVATE])
    assert [name for name, _ in before.values()] == ["stack-nodes-pull", "stack-nodes-test", "stack-nodes"]
    assert {key: name for key, (name, _) in before.items()} == {key: name for key, (name, _) in after.items()}
    assert before["nodes-pull"][1] != after["nodes-pull"][1]
    assert versions(disk_gib=200)["nodes-recipe"] != before["nodes-recipe"]
    assert versions() == before
    assert all(int(part) < 2**30 for _, version in before.values() for part in version.split("."))


def request(row: Row) -> dict[str, Any]:
    """Return the request of the API that the provider makes of the inputs of a resource."""
    inputs = {key: value for key, value in row.inputs.items() if key != "region"}
    if "version" in inputs:
        inputs["semanticVersion"] = inputs.pop("version")
    for mapping in inputs.get("blockDeviceMappings", []):
        for name in ("encrypted", "deleteOnTermination"):
            mapping["ebs"][name] = mapping["ebs"][name] == "true"
    return dict(_whole({"name": row.name, **inputs, "clientToken": "token"}))


def _whole(value: Any) -> Any:
    """Return the value with whole numbers, which the engine passes as floats."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) else value


@pytest.mark.parametrize("changes", [{}, {"images": [PUBLIC, PRIVATE], "pools": ["a10g"]}], ids=["default", "more"])
def test_every_request_is_valid_for_the_model_of_the_api(changes: dict[str, Any]) -> None:
    rows = [row for row in pipeline(**changes).rows if row.type.startswith("aws:imagebuilder/")]
    assert len(rows) == 7
    for row in rows:
        shape = MODEL.operation_model(f"Create{row.type.rpartition(':')[2]}").input_shape
        sent = request(row)
        assert sent.keys() - shape.members.keys() == set(), row.name
        assert not ParamValidator().validate(sent, shape).has_errors(), row.name
