"""The definitions of Tekton's operator, and the settings that they accept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_ci import versions
from gpu_ci.kubernetes import tekton
from gpu_ci.kubernetes.tekton import TektonArgs


def unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths that a schema does not have, which the API server refuses in a server-side apply."""
    known = schema.get("properties", {})
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name in known:
            yield from unknown(each, known[name], f"{path}.{name}")
        elif not schema.get("x_kubernetes_preserve_unknown_fields"):
            yield f"{path}.{name}"


def test_the_definitions_are_those_of_the_pinned_chart_with_the_names_of_the_sdk() -> None:
    assert tekton.definitions_version() == versions.TEKTON_CHART
    found = tekton.definitions()
    assert len(found) == 13
    assert {each["spec"]["scope"] for each in found} == {"Cluster"}
    assert '"x-kubernetes-' not in json.dumps(found)


def test_the_definition_of_the_config_has_every_setting() -> None:
    [config] = [each for each in tekton.definitions() if each["spec"]["names"]["kind"] == "TektonConfig"]
    [version] = config["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert list(unknown(tekton._spec(TektonArgs(retention_days=30)), spec, "spec")) == []
    assert list(unknown({"prunner": {}}, spec, "spec")) == ["spec.prunner"]
