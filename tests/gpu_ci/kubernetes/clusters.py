"""What the tests of clusters build."""

from __future__ import annotations

from typing import Any

from gpu_ci.component import Component

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED


def build(component: type[Component], name: str, **choices: Any) -> Deployment:
    """A component that needs no wiring, from its own example with these changes."""
    return deploy(lambda: component(name, component.ARGS(**{**component.EXAMPLE, **choices})), computed=COMPUTED)


def values(deployment: Deployment) -> dict[str, Any]:
    """What the one Helm release of a deployment is given."""
    found: dict[str, Any] = deployment.one(":Release").inputs["values"]
    return found
