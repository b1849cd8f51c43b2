"""Check the API server's rules for the types of Secrets.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, ValidateSecret.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import has_unknown, invalid, required
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.resource import Problem

ACCOUNT_TOKEN, ACCOUNT = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"
# The keys that a type needs, and whether the value must not be empty.
KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
JSON_TYPES = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
BASIC = ("username", "password")


def secret_type(given: Mapping[str, Any]) -> Iterator[Problem]:
    data = {**(given.get("data") or {}), **(given.get("stringData") or {})}
    kind = given.get("type")
    if has_unknown(kind) or any(has_unknown(given.get(field)) for field in ("data", "stringData")):
        return
    if kind == ACCOUNT_TOKEN and not inner(given, "metadata", "annotations", ACCOUNT):
        yield required(f"metadata.annotations[{ACCOUNT}]")
    if kind == "kubernetes.io/basic-auth" and not any(name in data for name in BASIC):
        yield from (required(f"data[{name}]") for name in BASIC)
    for name in KEYS.get(str(kind), ()):
        if name not in data or (kind == "kubernetes.io/ssh-auth" and not data[name]):
            yield required(f"data[{name}]")
        elif kind in JSON_TYPES and (message := _not_json(given, name)):
            yield invalid(f"data[{name}]", "<secret contents redacted>", message)


def _not_json(given: Mapping[str, Any], name: str) -> str:
    """Return the first error of Go's encoding/json, or nothing for a JSON object."""
    text = inner(given, "stringData", name)
    if text is None:
        try:
            text = base64.b64decode(str(inner(given, "data", name))).decode(errors="replace")
        except binascii.Error:
            return ""  # another rule reports it
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            return "unexpected end of JSON input"
        return f"invalid character '{text[error.pos]}' looking for beginning of value"
    return (
        "" if isinstance(found, dict | None) else "json: cannot unmarshal into Go value of type map[string]interface {}"
    )
