"""Replaces the encrypted values of a stack file by marked placeholders.

The job of a pull request has no key, and needs none: a preview shows only that a value is secret. Different ciphertexts
get different placeholders, so that a rotated secret is a change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from .. import pulumi_files
from ..errors import PreviewError
from .value_pairs import joined
from .values import PLACEHOLDER

# bubblewrap accepts 9,000 arguments (bubblewrap.c, MAX_ARGS), and Linux 2 MiB (execve(2)). A secret needs two.
_MAX_SECRETS = 1_000
_MAX_PATH_BYTES = 1_000
# Keys of the encryption of a stack file (pulumi/pulumi v3.259.0, sdk/go/common/workspace/project.go, ProjectStack).
_KEYS = ("secretsprovider", "encryptedkey", "encryptionsalt")


def replace_secrets(file: Path) -> dict[str, str]:
    """Remove the secrets and the encryption settings from a revision's copy of a stack file.

    From a file without secrets, only the lines with encryption settings are removed.

    Returns:
        A placeholder for each secret, by its path.

    Raises:
        PreviewError: the secrets or their paths exceed the limits of one command line.
    """
    try:
        document = pulumi_files.loaded(file)
    except pulumi_files.InvalidStackFileError:
        return {}  # The engine refuses the file with its own message.
    if not isinstance(document, dict):
        return {}
    config = document.get("config")
    found = dict(_secure(config)) if isinstance(config, Mapping) else {}
    if len(found) > _MAX_SECRETS:
        raise PreviewError(f"{file.name}: has {len(found)} secrets\n  expected: at most {_MAX_SECRETS}")
    if (longest := max((len(path.encode()) for path in found), default=0)) > _MAX_PATH_BYTES:
        raise PreviewError(
            f"{file.name}: has a secret under a path of {longest} bytes\n  expected: at most {_MAX_PATH_BYTES}"
        )
    if found:
        document["config"] = _without(config)
        kept = {key: value for key, value in document.items() if key not in _KEYS}
        file.write_text(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True), encoding="utf-8")
    elif any(key in document for key in _KEYS):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not line.startswith(_KEYS)), encoding="utf-8")
    return found


def _secure(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        if set(value) == {"secure"}:
            digest = hashlib.sha256(str(value["secure"]).encode()).hexdigest()[:8]
            yield path, f"{PLACEHOLDER}-{digest}"
            return
        for key, one in value.items():
            # The first part of a path is the unchanged key, with its colon.
            yield from _secure(one, joined(path, key) if path else str(key))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _secure(one, joined(path, at))


def _without(value: Any) -> Any:
    """Return the value without encrypted values. In a list, a text replaces them, so that indexes stay the same."""
    if isinstance(value, Mapping):
        return {
            key: _without(one)
            for key, one in value.items()
            if not (isinstance(one, Mapping) and set(one) == {"secure"})
        }
    if isinstance(value, list):
        return [PLACEHOLDER if isinstance(one, Mapping) and set(one) == {"secure"} else _without(one) for one in value]
    return value
