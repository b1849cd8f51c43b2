"""The validation in the provider's own schema, which the SDK does not contain.

Source: terraform-provider-github v6.13.0 (20728bb3), which pulumi-github 6.15.0 wraps. The messages are those of its
validators and of terraform-plugin-sdk v2 (helper/validation).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.types import text_of
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

Values = dict[str, Any]

# github/util.go, secretNameRegexp and validateSecretNameFunc. Variables have the same rule.
SETTING = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# github/resource_github_repository.go and resource_github_repository_ruleset.go.
REPOSITORY = re.compile(r"[-a-zA-Z0-9_.]{1,100}")
REPOSITORY_FORM = (
    "must include only alphanumeric characters, underscores or hyphens and consist of 100 characters or less"
)
ACCESS = ("all", "private", "selected")
# github/resource_github_repository_environment.go.
MAX_WAIT_MINUTES = 43200
MAX_REVIEWERS = 6


def check(token: str, inputs: Values, *, is_new: bool) -> Iterator[Problem]:
    """Check one resource by the provider's schema."""
    if token in types.SECRETS:
        yield from setting_name(inputs, "secretName")
        yield from secret_value(inputs)
    elif token in types.VARIABLES:
        yield from setting_name(inputs, "variableName")
    if token in (types.ORGANIZATION_SECRET, types.ORGANIZATION_VARIABLE):
        yield from one_of(inputs, "visibility", ACCESS)
        # github/util_diff.go, diffSecretVariableVisibility: checked for an existing resource, not for a new one.
        if not is_new and text_of(inputs, "visibility") in ("all", "private") and inputs.get("selectedRepositoryIds"):
            yield Problem(
                "selectedRepositoryIds", "cannot use selected_repository_ids without visibility being set to selected"
            )
    match token:
        case types.RUNNER_GROUP:
            yield from one_of(inputs, "visibility", ("all", "selected", "private"))
        case types.REPOSITORY:
            yield from repository(inputs)
        case types.ENVIRONMENT:
            yield from environment(inputs)


def setting_name(inputs: Values, key: str) -> Iterator[Problem]:
    name = inputs.get(key)
    if not isinstance(name, str):
        return
    if not SETTING.fullmatch(name):
        yield Problem(
            key,
            "secret names can only contain alphanumeric characters or underscores and must not start with a number",
        )
    if name.upper().startswith("GITHUB_"):
        yield Problem(key, "secret names must not start with the GITHUB_ prefix")


def secret_value(inputs: Values) -> Iterator[Problem]:
    """Check ExactlyOneOf, RequiredWith and StringIsBase64 of the four inputs for a secret's value."""
    set_inputs = [name for name in types.VALUES if inputs.get(name) is not None]
    all_inputs = "`encrypted_value,plaintext_value,value,value_encrypted`"
    if not set_inputs:
        yield Problem("value", f'"value": one of {all_inputs} must be specified')
    elif len(set_inputs) > 1:
        set_names = ",".join(_snake(name) for name in set_inputs)
        yield Problem(
            set_inputs[0],
            f'"{_snake(set_inputs[0])}": only one of {all_inputs} can be specified, but `{set_names}` were specified.',
        )
    if inputs.get("keyId") is not None and inputs.get("valueEncrypted") is None:
        yield Problem("keyId", '"key_id": all of `key_id,value_encrypted` must be specified')
    for name in ("encryptedValue", "valueEncrypted"):
        if isinstance(inputs.get(name), str) and not _is_base64(inputs[name]):
            # The real message repeats the value.
            yield Problem(name, f'expected "{_snake(name)}" to be a base64 string')


def repository(inputs: Values) -> Iterator[Problem]:
    yield from repository_name(inputs, "name")
    yield from one_of(inputs, "visibility", ("public", "private", "internal"))
    if inputs.get("private") is not None and inputs.get("visibility") is not None:
        yield Problem("private", '"private": conflicts with visibility')


def repository_name(inputs: Values, key: str) -> Iterator[Problem]:
    name = inputs.get(key)
    if isinstance(name, str) and not REPOSITORY.fullmatch(name):
        yield Problem(key, f"invalid value for {_snake(key)} ({REPOSITORY_FORM})")


def environment(inputs: Values) -> Iterator[Problem]:
    yield from between(inputs, "waitTimer", "waitTimer", 0, MAX_WAIT_MINUTES)
    for row in rows(inputs.get("reviewers")):
        for kind in ("teams", "users"):
            if isinstance(row.get(kind), list) and len(row[kind]) > MAX_REVIEWERS:
                yield Problem(f"reviewers[0].{kind}", f"Too many {kind}: no more than {MAX_REVIEWERS} are taken")


def one_of(inputs: Mapping[str, Any], key: str, allowed: tuple[str, ...], path: str = "") -> Iterator[Problem]:
    """Check the validator StringInSlice."""
    value = inputs.get(key)
    if isinstance(value, str) and value not in allowed:
        listed = " ".join(f'"{word}"' for word in allowed)
        yield Problem(path or key, f"expected {_snake(key)} to be one of [{listed}], got {value}")


def between(inputs: Mapping[str, Any], key: str, path: str, lowest: int, highest: int) -> Iterator[Problem]:
    """Check the validator IntBetween."""
    value = inputs.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and not lowest <= value <= highest:
        yield Problem(path, f"expected {_snake(key)} to be in the range ({lowest} - {highest}), got {value:g}")


def rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, or an empty list if it is not known."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def table(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one if it is not known."""
    return value if isinstance(value, Mapping) and value is not UNKNOWN else {}


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
