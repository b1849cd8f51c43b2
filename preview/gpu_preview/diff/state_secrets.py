"""Removes the secrets from the deployment of an exported state.

The engine marks a secret with its signature. The same value can also occur without it: in an output listed in
`additionalSecretOutputs`, in a JSON text, or because a provider repeats an input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_common import pulumi_wire

from ..json_text import as_list, as_map

STRIPPED = "[secret taken out of the state]"
"""The text in place of a secret; the sandbox accepts any secret for it (docs/how-it-works/sandbox.md)."""

_REMOVED_KEYS = ("secrets_providers", "pending_operations")
# A shorter text, such as `true` or `8080`, occurs in many places that are unrelated to the secret.
_SHORTEST = 6


def without_secrets(deployment: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the deployment without secrets, and their number. ValueError for JSON that cannot be a value."""
    found: list[Any] = []
    given = {key: value for key, value in deployment.items() if key not in _REMOVED_KEYS}
    resources = [_with_named_outputs(each, found) for each in as_list(given.get("resources"))]
    marked = _without({**given, **({"resources": resources} if resources else {})}, found)
    plain = {text for each in found for text in _texts(each) if len(text) >= _SHORTEST} - {STRIPPED}
    again: list[Any] = []
    repeated = [_without_repeated(each, plain, again) for each in as_list(marked.get("resources"))]
    return {**marked, **({"resources": repeated} if repeated else {})}, len(found) + len(again)


def _secret() -> dict[str, str]:
    return {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "plaintext": json.dumps(STRIPPED)}


def _is_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get(pulumi_wire.SIGNATURE) == pulumi_wire.SECRET


def _with_named_outputs(resource: Mapping[str, Any], found: list[Any]) -> dict[str, Any]:
    """Return the resource with unmarked secret outputs marked as secrets. They are added to `found`."""
    outputs = dict(as_map(resource.get("outputs")))
    for name in as_list(resource.get("additionalSecretOutputs")):
        if name in outputs and not _is_secret(outputs[name]):
            found.append(_without(outputs[name], found))
            outputs[name] = _secret()
    return {**resource, **({"outputs": outputs} if outputs else {})}


def _without(value: Any, found: list[Any]) -> Any:
    """Return the value without marked secrets. The secrets that the state contains are added to `found`."""
    if _is_secret(value):
        found.append(_opened(value.get("plaintext")))
        return _secret()
    if isinstance(value, str) and pulumi_wire.SECRET in value:
        return _text_without(value, found)
    return _mapped(value, lambda part: _without(part, found))


def _text_without(text: str, found: list[Any]) -> Any:
    """Return a text with the signature, parsed as JSON, without its secrets. Any other such text is wholly secret."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, Mapping | list):
        return json.dumps(_without(document, found))
    found.append(text)
    return _secret()


def _without_repeated(resource: Mapping[str, Any], plain: set[str], found: list[Any]) -> dict[str, Any]:
    """Return the resource with a secret for each text that is secret elsewhere. An ID must stay a text."""

    def part(value: Any) -> Any:
        if isinstance(value, str) and value in plain:
            found.append(value)
            return _secret()
        return value if _is_secret(value) else _mapped(value, part)

    kept = {key: part(resource[key]) for key in ("inputs", "outputs") if key in resource}
    for key in ("id", "importID"):
        if resource.get(key) in plain:
            found.append(resource[key])
            kept[key] = STRIPPED
    return {**resource, **kept}


def _mapped(value: Any, part: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: part(one) for key, one in value.items()}
    return [part(one) for one in value] if isinstance(value, list) else value


def _opened(plaintext: Any) -> Any:
    """Return the value of a secret, which is JSON in a text."""
    try:
        return json.loads(plaintext)
    except (TypeError, ValueError):
        return plaintext


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            opened = _opened(value)
            yield from _texts(opened) if isinstance(opened, Mapping | list) else ()
    elif isinstance(value, Mapping | list):
        entries = [value[key] for key in value if key != pulumi_wire.SIGNATURE] if isinstance(value, Mapping) else value
        for one in entries:
            yield from _texts(one)
