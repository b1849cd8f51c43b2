"""What the components of this repository ask for is what the sandbox's schemas and rules take."""

from __future__ import annotations

import pytest
from gpu_ci.component import Component

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPONENTS, COMPUTED, build
from tests.sandbox.providers.gcp.conftest import Google

GOOGLES = {token: component for token, component in COMPONENTS.items() if token.startswith("gpu-ci:gcp:")}


@pytest.mark.parametrize("component", GOOGLES.values(), ids=GOOGLES)
def test_a_component_asks_for_nothing_that_is_refused(google: Google, component: type[Component]) -> None:
    rows = [row for row in deploy(lambda: build(component), computed=COMPUTED).rows if row.type.startswith("gcp:")]
    assert rows
    assert {row.name: found for row in rows if (found := google.problems(row.type, row.inputs))} == {}
