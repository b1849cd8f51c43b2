"""The programs on the component pages build the component."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.kinds import ComponentInfo, catalog

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import CALLS, COMPUTED, schema
from tools.docs import examples

pytestmark = pytest.mark.usefixtures("short_definitions")

# The pages of pools and images show entries of a stack file, which tests/test_docs.py reads.
COMPONENTS = [each for each in catalog() if not each.kind and not each.image_kind]
KEY = "-----BEGIN RSA PRIVATE KEY-----\nhush-hush\n-----END RSA PRIVATE KEY-----\n"


def given(component: ComponentInfo) -> dict[str, Any]:
    return examples.arguments(component, schema()["resources"][component.token])


@pytest.mark.parametrize("component", COMPONENTS, ids=[each.token for each in COMPONENTS])
def test_the_python_of_a_component_builds_it(component: ComponentInfo) -> None:
    text = examples.python(component, given(component))
    deployment = deploy(
        lambda: exec(compile(text, "snippet", "exec"), {}),  # noqa: S102 - our own generated text
        computed=COMPUTED,
        calls=CALLS,
        config={"project:appKey": KEY, "project:webhookSecret": "hush-hush-hush-hush"},
    )
    assert [row.name for row in deployment.rows if row.type == component.token] == ["ci"]
