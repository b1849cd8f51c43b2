"""The schema other languages are generated from: complete, described, and changed only on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_ci.component import Component
from gpu_ci.kinds import catalog
from pydantic.alias_generators import to_camel

from tests.gpu_ci.support import schema


def test_it_has_every_resource_of_the_package() -> None:
    assert sorted(schema()["resources"]) == sorted(found.token for found in catalog())


def test_everything_in_it_is_described() -> None:
    found = schema()
    assert [path for path, node in _nodes(found["resources"]) if not node.get("description")] == []
    assert [path for path, node in _nodes(found["types"]) if not node.get("description")] == []


def test_components_are_marked_and_the_gate_is_none() -> None:
    marked = {token: node.get("isComponent", False) for token, node in schema()["resources"].items()}
    assert [token for token, is_component in marked.items() if not is_component] == [
        "gpu-ci:aws:NodeGroupLimits",
        "gpu-ci:aws:SmokeGate",
        "gpu-ci:gcp:DeployedModels",
        "gpu-ci:gcp:SmokeGate",
        "gpu-ci:gcp:StoppedMachines",
    ]


def test_outputs_are_those_the_classes_annotate() -> None:
    resources = schema()["resources"]
    for found in catalog():
        cls = found.load()
        names = cls.output_names() if issubclass(cls, Component) else cls.OUTPUTS
        assert list(resources[found.token]["properties"]) == [to_camel(name) for name in names]


def test_every_reference_is_to_a_type_it_has_and_no_type_is_empty() -> None:
    found = schema()
    fields = [node for _, node in _all(found)]
    choices = [*fields, *(choice for node in fields for choice in node.get("oneOf", []))]
    references = {node["$ref"].removeprefix("#/types/") for node in choices if "$ref" in node}
    assert references == {*found["types"], "pulumi.json#/Any"}
    assert [name for name, node in found["types"].items() if not node.get("enum") and not node.get("properties")] == []


def test_choices_are_plain_and_wiring_takes_outputs() -> None:
    inputs = schema()["resources"]["gpu-ci:gcp:RunnerPool"]["inputProperties"]
    late = sorted(name for name, node in inputs.items() if not node.get("plain"))
    assert late == ["network", "project", "subnetwork"]


def test_a_custom_resource_takes_outputs_everywhere() -> None:
    inputs = schema()["resources"]["gpu-ci:gcp:SmokeGate"]["inputProperties"]
    assert [path for path, node in _all(inputs) if node.get("plain")] == []


def test_types_enums_required_inputs_and_defaults_come_from_the_model() -> None:
    found = schema()
    pool = found["resources"]["gpu-ci:gcp:RunnerPool"]
    assert pool["requiredInputs"] == ["machineType", "zones", "project", "subnetwork", "max"]
    assert pool["inputProperties"]["max"]["type"] == "integer"
    assert pool["inputProperties"]["market"]["default"] == "spot"
    markets = [each["value"] for each in found["types"]["gpu-ci:gcp:RunnerPoolMarket"]["enum"]]
    assert markets == ["spot", "standard", "flex-start", "reservation"]
    assert found["types"]["gpu-ci:gcp:GuestAccelerator"]["required"] == ["type"]


def test_the_discriminator_selects_the_model_of_a_choice() -> None:
    found = schema()
    driver = found["resources"]["gpu-ci:gcp:RunnerPool"]["inputProperties"]["driver"]
    assert driver["discriminator"] == {
        "propertyName": "source",
        "mapping": {
            "image": "#/types/gpu-ci:gcp:ImageDriver",
            "installer": "#/types/gpu-ci:gcp:InstallerDriver",
            "cos": "#/types/gpu-ci:gcp:CosDriver",
        },
    }
    assert [choice["$ref"] for choice in driver["oneOf"]] == list(driver["discriminator"]["mapping"].values())
    source = found["types"]["gpu-ci:gcp:CosDriver"]["properties"]["source"]
    assert (source["type"], source["const"]) == ("string", "cos")


def _nodes(owners: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Resources, types and their properties: everything a reader of the documentation meets."""
    for token, owner in owners.items():
        yield token, owner
        for group in ("inputProperties", "properties"):
            for name, node in owner.get(group, {}).items():
                yield f"{token}.{name}", node


def _all(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        yield path, node
        for key, value in node.items():
            yield from _all(value, f"{path}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _all(value, f"{path}/{index}")
