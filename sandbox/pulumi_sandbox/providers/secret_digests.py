"""Keep secrets out of the world's file. The file stores keyed digests, which show only whether two values are equal."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gpu_common.pulumi_wire import SECRET, SIGNATURE

from pulumi_sandbox.providers.values import (
    UNKNOWN,
    Decoded,
    Path,
    Secrets,
    at,
    drop_nested,
    is_at_or_below,
    leaves,
    replaced,
)
from pulumi_sandbox.providers.wire import decode_wire, to_wire

MARK = "secret"
PREFIX = "hmac-sha256:"
# The value that a refresh returns for a secret that the engine does not know.
CHANGED = "(a secret that was changed outside of this stack)"
# In characters. An output that contains a shorter secret is not marked, because short texts occur by chance.
SHORTEST_MARKED = 6
# In characters. In errors, shorter secrets are redacted too. One or two characters would redact most of any text.
SHORTEST_MASKED = 3
REDACTED = "[secret]"
# A suggestion with a similar spelling reveals most of a secret.
SPELLING_HINT = re.compile(r"\n  hint: did you mean .*")


def digest(value: Any, key: bytes) -> str:
    text = json.dumps(to_wire({"": value}), sort_keys=True, separators=(",", ":"))
    return PREFIX + hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def is_digest(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() == {MARK}
        and isinstance(value[MARK], str)
        and value[MARK].startswith(PREFIX)
    )


def digest_paths(stored: Any) -> list[Path]:
    """Return the paths of the digests in a stored tree."""
    return [path[:-1] for path, _ in leaves(stored) if path and is_digest(at(stored, path[:-1]))]


def hash_secrets(values: Mapping[str, Any], secrets: Secrets, key: bytes) -> dict[str, Any]:
    """Return the values with secrets replaced by digests, in the form that the world stores."""

    def sealed(wire: Mapping[str, Any]) -> Any:
        if wire.get(SIGNATURE) == SECRET:
            (value,) = decode_wire({"": wire["value"]}).values.values()
            return {MARK: digest(value, key)}
        return None

    return dict(replaced(to_wire(values, secrets), sealed))


def restore_secrets(stored: Mapping[str, Any], engine_values: Iterable[Decoded], key: bytes) -> Decoded:
    """Replace the digests in stored values by the engine's secrets. Other digests become a placeholder."""
    value_of_digest = {
        digest(value, key): value
        for decoded in engine_values
        for path in decoded.secrets
        if (value := at(decoded.values, path, UNKNOWN)) is not UNKNOWN
    }

    def opened(tree: Mapping[str, Any]) -> Any:
        if is_digest(tree):
            value = to_wire({"": value_of_digest.get(tree[MARK], CHANGED)})[""]
            return {SIGNATURE: SECRET, "value": value}
        return None

    return decode_wire(replaced(stored, opened))


def with_known_texts(stored: Mapping[str, Any], known: Iterable[str], key: bytes) -> dict[str, Any]:
    """Replace each digest in stored values by the known text with this digest, if there is one."""
    if not digest_paths(stored):
        return dict(stored)
    texts = {digest(text, key): text for text in known}
    return dict(replaced(stored, lambda tree: texts.get(tree[MARK]) if is_digest(tree) else None))


def redact(stored: Any) -> Any:
    """Replace the digests in stored values by `[secret]`, for display."""
    return replaced(stored, lambda tree: REDACTED if is_digest(tree) else None)


def secret_paths(
    outputs: Mapping[str, Any], inputs: Mapping[str, Any], input_secrets: Secrets, secret_names: Collection[str]
) -> Secrets:
    """Return the paths of the secret outputs.

    An output is secret if the input at its path is secret, if the SDK marks the output, or if the output contains the
    text of a secret input.
    """
    missing = object()
    secrets: set[Path] = {path for path in input_secrets if at(outputs, path, missing) is not missing}
    secrets |= {(name,) for name in secret_names if outputs.get(name) is not None}
    texts = {
        value
        for path in input_secrets
        for _, value in leaves(at(inputs, path))
        if isinstance(value, str) and len(value) >= SHORTEST_MARKED
    }
    for path, value in leaves(outputs):
        if isinstance(value, str) and not is_at_or_below(path, secrets) and any(text in value for text in texts):
            secrets.add(path)
    return drop_nested(secrets)


def mask_secrets(text: str, decoded_values: Iterable[Decoded]) -> str:
    """Replace every secret in a message by `[secret]`. The message may quote it whole or as the end of a link."""
    decoded_values = tuple(decoded_values)
    # A value that is also in plain text in the same request is not redacted. Example: the SDKs mark effectiveLabels as
    # secret, which repeat all labels of a resource. A label such as `staging` would be redacted in every name.
    plain_texts = {
        str(value)
        for decoded in decoded_values
        for path, value in leaves(decoded.values)
        if not is_at_or_below(path, decoded.secrets)
    }
    secret_texts = {
        spelling
        for decoded in decoded_values
        for path in decoded.secrets
        for _, value in leaves(at(decoded.values, path))
        if isinstance(value, str | int | float)
        and str(value).lower() not in ("true", "false")  # A message names these words for other reasons.
        and str(value) not in plain_texts
        for spelling in spellings(str(value))
        if len(spelling) >= SHORTEST_MASKED
    }
    if not any(spelling in text for spelling in secret_texts):
        return text
    # The longest first, because a secret may contain another one.
    pattern = "|".join(re.escape(spelling) for spelling in sorted(secret_texts, key=len, reverse=True))
    return SPELLING_HINT.sub("", re.sub(pattern, REDACTED, text))


def spellings(value: str) -> set[str]:
    """Return the forms in which an error may quote a value: unchanged, escaped, or as the last part of a link."""
    forms = {value, json.dumps(value)[1:-1], repr(value)[1:-1]}
    return forms | {form.rpartition("/")[2] for form in forms}
