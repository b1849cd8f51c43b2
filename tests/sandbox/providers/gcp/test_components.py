"""The sandbox's schemas and rules accept the inputs of this repository's components."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.component import Component

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPONENTS, COMPUTED, build
from tests.sandbox.providers.gcp.conftest import Google

_SECRET = "4dabf18193072939515e22adb298388d"

GOOGLES = {token: component for token, component in COMPONENTS.items() if token.startswith("gpu-ci:gcp:")}


@pytest.mark.parametrize("component", GOOGLES.values(), ids=GOOGLES)
def test_a_component_asks_for_nothing_that_is_refused(google: Google, component: type[Component]) -> None:
    rows = [row for row in deploy(lambda: build(component), computed=COMPUTED).rows if row.type.startswith("gcp:")]
    assert rows
    assert {row.name: found for row in rows if (found := google.problems(row.type, as_sent(row.inputs)))} == {}


def as_sent(inputs: dict[str, Any]) -> dict[str, Any]:
    """Without the marks of secrets, which the engine takes off for a provider that does not ask for them."""
    return {
        key: value["value"] if isinstance(value, dict) and _SECRET in value else value for key, value in inputs.items()
    }
