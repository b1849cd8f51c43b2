"""The sandbox's schemas and rules accept the inputs of this repository's components."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.component import Component
from pulumi_sandbox.providers.values import Asset

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPONENTS, COMPUTED, build
from tests.sandbox.providers.gcp.conftest import Google

_SIGNATURE, _SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"

GOOGLES = {token: component for token, component in COMPONENTS.items() if token.startswith("gpu-ci:gcp:")}


@pytest.mark.parametrize("component", GOOGLES.values(), ids=GOOGLES)
def test_a_component_asks_for_nothing_that_is_refused(google: Google, component: type[Component]) -> None:
    rows = [row for row in deploy(lambda: build(component), computed=COMPUTED).rows if row.type.startswith("gcp:")]
    assert rows
    assert {row.name: found for row in rows if (found := google.problems(row.type, as_sent(row.inputs)))} == {}


def as_sent(inputs: dict[str, Any]) -> dict[str, Any]:
    """Without the marks of secrets, which the engine takes off for a provider that does not ask for them."""
    return {key: _as_sent(value) for key, value in inputs.items()}


def _as_sent(value: Any) -> Any:
    if not isinstance(value, dict) or _SIGNATURE not in value:
        return value
    return value["value"] if value[_SIGNATURE] == _SECRET else Asset(value)
