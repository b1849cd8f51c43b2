"""The programs on the component pages: they build the component, in Python and in YAML.

The TypeScript of the pages is compiled with the generated SDK in tests/engine/test_examples.py.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
import yaml
from gpu_ci.kinds import ComponentInfo, catalog
from gpu_ci.schema import schema

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import CALLS, COMPUTED
from tools.docs import snippets

pytestmark = pytest.mark.usefixtures("short_definitions")

every_component = pytest.mark.parametrize("component", catalog(), ids=[each.name for each in catalog()])
SCHEMA = schema()
KEY = "-----BEGIN RSA PRIVATE KEY-----\nhush-hush\n-----END RSA PRIVATE KEY-----\n"


def with_secrets(value: Any) -> Any:
    """Do what the YAML language host does with `fn::secret` and with a reference to the configuration."""
    if isinstance(value, dict):
        if "fn::secret" in value:
            return pulumi.Output.secret(value["fn::secret"])
        return {key: with_secrets(each) for key, each in value.items()}
    return pulumi.Output.secret(KEY) if value == "${appKey}" else value


def given(component: ComponentInfo) -> dict[str, Any]:
    return snippets.arguments(component, SCHEMA["resources"][component.token])


@every_component
def test_the_python_of_a_component_builds_it(component: ComponentInfo) -> None:
    text = snippets.python(component, given(component))
    deployment = deploy(
        lambda: exec(compile(text, "snippet", "exec"), {}),  # noqa: S102 - our own generated text
        computed=COMPUTED,
        calls=CALLS,
        config={"project:appKey": KEY},
    )
    assert [row.name for row in deployment.rows if row.type == component.token] == [snippets.name_of(component)]


@every_component
def test_the_yaml_of_a_component_has_its_token_and_valid_properties(component: ComponentInfo) -> None:
    program = yaml.safe_load(snippets.in_yaml(component, given(component)))
    (resource,) = program["resources"].values()
    assert resource["type"] == component.token
    fields = SCHEMA["resources"][component.token]
    assert set(fields.get("requiredInputs", [])) <= set(resource["properties"]) <= set(fields["inputProperties"])
    # ARGS refuses a wrong value. The Outputs need the loop of a program.
    deploy(lambda: component.load().ARGS(**with_secrets(resource["properties"])))
    wanted = {secret.key for secret in snippets.secrets_in(given(component))}
    assert set(program.get("config", {})) == wanted


def test_values_are_written_in_each_language() -> None:
    value = {"a": True, "b-c": [1, None], "d": 'say "x"', "e": snippets.Secret("key")}
    assert snippets.literal(value, snippets.typescript_atom, "", snippets.typescript_key) == (
        '{\n  a: true,\n  "b-c": [1, null],\n  d: "say \\"x\\"",\n  e: new pulumi.Config().requireSecret("key"),\n}'
    )
    assert (
        snippets.literal({"a": True, "b": None}, snippets.python_atom, "", snippets.quoted) == '{"a": True, "b": None}'
    )


def test_fields_that_take_outputs_are_named_by_their_path() -> None:
    types = {
        "Inner": {"properties": {"key": {"type": "string"}, "size": {"type": "integer", "plain": True}}},
        "Other": {"properties": {"key": {"type": "string"}, "path": {"type": "string"}}},
    }
    inner = {"$ref": "#/types/Inner", "plain": True}
    fields = {
        "name": {"type": "string", "plain": True},
        "network": {"type": "string"},
        "app": inner,
        "each": {"type": "array", "items": inner, "plain": True},
        "subnets": {"type": "object", "additionalProperties": {"type": "string"}, "plain": True},
        "either": {"oneOf": [inner, {"$ref": "#/types/Other", "plain": True}], "plain": True},
    }
    assert snippets.taking_outputs(fields, types) == [
        "network", "app.key", "each[].key", "subnets.<name>", "either.key", "either.path",
    ]  # fmt: skip
