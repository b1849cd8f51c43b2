"""Check rules that several Google resources share."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import Problem

# Discovery document compute v1, Metadata.items: value "less than or equal to 262144 bytes", all "less than 512 KB".
METADATA_VALUE_BYTES = 262144
METADATA_TOTAL_BYTES = 512 * 1024
# Google Cloud documentation "Requirements for labels" (docs.cloud.google.com/compute/docs/labeling-resources).
LABELS_MOST = 64
LABEL_KEY = r"[a-z\u00df-\u00f6\u00f8-\u00ff][\w-]{0,62}"
LABEL_VALUE = r"[\w-]{0,63}"


def metadata(inputs: dict[str, Any]) -> Iterator[Problem]:
    values = table(inputs.get("metadata"))
    if isinstance(script := inputs.get("metadataStartupScript"), str):
        values = values | {"startup-script": script}
    total = 0
    for key, value in values.items():
        size = len(value.encode()) if isinstance(value, str) else 0
        total += len(key.encode()) + size
        if size > METADATA_VALUE_BYTES:
            yield Problem(
                text(("metadata", key)),
                f"Value for field 'resource.properties.metadata.{key}' is too large: "
                f"maximum size {METADATA_VALUE_BYTES} character(s); actual size {size}.",
            )
    if total >= METADATA_TOTAL_BYTES:
        yield Problem(
            "metadata", f"all keys and values together must be less than {METADATA_TOTAL_BYTES} bytes, got {total}"
        )


def labels(labels_input: Any, path: str = "labels") -> Iterator[Problem]:
    pairs = table(labels_input)
    if len(pairs) > LABELS_MOST:
        yield Problem(path, f"expected at most {LABELS_MOST} labels, got {len(pairs)}")
    for key, value in pairs.items():
        if not re.fullmatch(LABEL_KEY, key) or key != key.lower():
            yield Problem(text((path, key)), f"Label key '{key}' violates format constraints.", LABEL_KEY)
        if isinstance(value, str) and (not re.fullmatch(LABEL_VALUE, value) or value != value.lower()):
            yield Problem(text((path, key)), f"Label value '{value}' violates format constraints.", LABEL_VALUE)


def address_range(value: Any, path: str) -> Iterator[Problem]:
    """Check that a range starts at its network address.

    The API refuses another one (github.com/CartoDB/cartodb/pull/15649, github.com/hashicorp/
    terraform-provider-google/issues/4032).
    """
    if not isinstance(value, str) or not value:
        return
    try:
        ipaddress.ip_network(value)
    except ValueError:
        try:
            hint = f"write {ipaddress.ip_network(value, strict=False)}"
        except ValueError:
            hint = "such as 10.10.0.0/20"
        message = f"Invalid value for field 'resource.{path}': '{value}'. Must be a valid CIDR address range."
        yield Problem(path, message, hint)
