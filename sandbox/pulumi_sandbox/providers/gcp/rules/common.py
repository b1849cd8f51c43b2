"""Check rules that several Google resources share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.inputs import is_known, rows, table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import DEFAULTS, Problem

# Discovery document compute v1, Metadata.items: value "less than or equal to 262144 bytes", all "less than 512 KB".
METADATA_VALUE_BYTES = 262144
METADATA_TOTAL_BYTES = 512 * 1024
METADATA_KEY = r"[a-zA-Z0-9-_]{1,128}"
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
        if not re.fullmatch(METADATA_KEY, key):
            yield Problem(text(("metadata", key)), f'the key "{key}" doesn\'t match regexp "^{METADATA_KEY}$"')
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


def labels(labels_input: Any, path: str) -> Iterator[Problem]:
    pairs = table(labels_input)
    if len(pairs) > LABELS_MOST:
        yield Problem(path, f"expected at most {LABELS_MOST} labels, got {len(pairs)}")
    for key, value in pairs.items():
        if not re.fullmatch(LABEL_KEY, key) or key != key.lower():
            yield Problem(
                text((path, key)),
                f"Label key '{key}' violates format constraints. The key must start with a lowercase character, can "
                "only contain lowercase letters, numeric characters, underscores and dashes. The key can be at most "
                "63 characters long. International characters are allowed.",
            )
        if isinstance(value, str) and (not re.fullmatch(LABEL_VALUE, value) or value != value.lower()):
            yield Problem(
                text((path, key)),
                f"Label value '{value}' violates format constraints. The value can only contain lowercase letters, "
                "numeric characters, underscores and dashes. The value can be at most 63 characters long. "
                "International characters are allowed.",
            )


def name_prefix(inputs: dict[str, Any]) -> Iterator[Problem]:
    # terraform-provider-google e03b7622, resource_compute_region_instance_template.go.
    prefix = inputs.get("namePrefix")
    if not isinstance(prefix, str) or not prefix:
        return
    if len(prefix) > 54:
        yield Problem("namePrefix", '"namePrefix" cannot be longer than 54 characters, name is limited to 63')
    if is_known(inputs.get("name")) and "name" not in rows(inputs.get(DEFAULTS)):
        yield Problem("name", '"name": conflicts with namePrefix')


def one_of(values: dict[str, Any], names: tuple[str, ...], path: str, *, at_least: bool = False) -> Iterator[Problem]:
    set_names = [name for name in names if values.get(name) not in (None, "")]
    if len(set_names) == 1 or (set_names and at_least):
        return
    got = " and ".join(set_names) or "none"
    yield Problem(f"{path}{names[0]}", f"{'at least' if at_least else 'exactly'} one of {', '.join(names)}, got {got}")
