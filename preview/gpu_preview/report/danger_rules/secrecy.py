"""The rule `secret-exposed`: a secret value becomes plain text, or a resource is no longer encrypted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ... import pulumi_files
from ...diff.differences import exposes_secret
from ...diff.value_pairs import Step, ValuePair, leaves, pairs, revealed
from ...diff.values import is_in_plain
from ...engine.states import STACK, Change, StackStates
from ...json_text import as_map
from ...model import Finding, Severity
from ..danger_rule import SECRET_EXPOSED, shortened

ENCRYPTION_SWITCHES = frozenset(
    {
        "atRestEncryptionEnabled",
        "enableEncryption",
        "encrypted",
        "encryptionAtHost",
        "storageEncrypted",
        "transitEncryptionEnabled",
    }
)
"""Names of properties that switch encryption on."""
ENCRYPTION_SETTINGS = frozenset(
    {
        "databaseEncryption",
        "defaultKmsKeyName",
        "diskEncryptionKey",
        "encryptionConfig",
        "encryptionConfiguration",
        "encryptionConfigurations",
        "encryptionSpec",
        "kmsKeyArn",
        "kmsKeyId",
        "kmsKeyName",
        "kmsKeySelfLink",
        "kmsMasterKeyId",
        "serverSideEncryptionConfiguration",
        "serverSideEncryptionConfigurations",
    }
)
"""Names of properties with the key or the method of encryption."""
ENCRYPTS = frozenset(
    {
        "aws:ebs/encryptionByDefault:EncryptionByDefault",
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
    }
)
"""Types of resources that configure the encryption of other resources."""
_BY_DEFAULT = "aws:ebs/encryptionByDefault:EncryptionByDefault"


def check(change: Change, _stack_states: StackStates) -> Iterator[Finding]:
    if change.type in ENCRYPTS and change.ends == "is deleted":
        yield SECRET_EXPOSED.found(change, f"{change.name} is deleted: it no longer configures encryption with a key")
    yield from exposed(change, _stack_states)
    if change.before is None:
        return
    reported: tuple[Step, ...] = ()
    for pair in change.inputs:
        if reported and pair.path[: len(reported)] == reported:
            continue  # This value is a part of the value reported last.
        if text := _lost_encryption(change, pair):
            reported = pair.path
            yield SECRET_EXPOSED.found(change, f"{change.name}: {shortened(pair.text, 120)} {text}")


def exposed(change: Change, _stack_states: StackStates) -> Iterator[Finding]:
    """Yield values that were secret and are plain now.

    The engine may report such a resource as the same, because it compares only the values. The outputs are checked only
    for the stack: the provider of any other resource decides which of its outputs are secret.
    """
    if change.after is None:
        return
    yield from _exposed(change, change.before.inputs if change.before else {}, change.after.inputs)
    if change.type == STACK:
        yield from _exposed(change, change.before.outputs if change.before else {}, change.after.outputs)


def _exposed(change: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
    if before == after:
        return
    reported = set()
    for pair in revealed(before, after):
        reported.add(pair.path[0])
        yield SECRET_EXPOSED.found(change, f"{change.name}: {shortened(pair.text, 120)} was secret and is plain now")
    for pair in pairs(before, after):
        if pair.path[0] not in reported and is_in_plain(pair.after) and not is_in_plain(pair.before):
            reported.add(pair.path[0])
            text = "has a value as plain text that the stack file encrypts"
            yield SECRET_EXPOSED.found(change, f"{change.name}: {shortened(pair.text, 120)} {text}")
    for key in sorted(after.keys() - reported):
        if exposes_secret(before.get(key), after[key]):
            text = "loses a secret and gets a new plain value: make sure that the plain value is not the secret"
            finding = SECRET_EXPOSED.found(change, f"{change.name}: {shortened(key, 120)} {text}")
            yield finding.model_copy(update={"severity": Severity.WARNING})


def in_stack_files(before: Path | None, after: Path | None, name: str) -> Iterator[Finding]:
    """Yield each value under `config:` of a stack file that was encrypted and is plain now.

    `pulumi config set --secret` encrypts a value.
    """
    if after is None:
        return
    for pair in pairs(*({} if path is None else _config(path) for path in (before, after))):
        if _is_secure(pair.before) and pair.after is not None and not _all_secure(pair.after):
            text = f"{name}: {'.'.join(map(str, pair.path))} was encrypted and is plain text now"
            yield SECRET_EXPOSED.of(text)


def _config(path: Path) -> dict[str, Any]:
    """Return the `config:` of a stack file with the project's defaults, or an empty map if the file cannot be read."""
    try:
        own = as_map(as_map(pulumi_files.loaded(path)).get("config"))
    except pulumi_files.InvalidStackFileError:
        return {}
    return {**pulumi_files.defaults(path), **{key: value for key, value in own.items() if isinstance(key, str)}}


def _lost_encryption(change: Change, pair: ValuePair) -> str:
    """Return a text if the property switched encryption on, or set its key or method, and no longer does so; or "".

    If the parent of the property is removed, such as a disk with its key, there is no pair and nothing to report.
    """
    is_switch = pair.key in ENCRYPTION_SWITCHES or (pair.key == "enabled" and change.type == _BY_DEFAULT)
    if is_switch and _on(pair.before) and (pair.after is None or _off(pair.after)):
        return "was on and is off: the resource is no longer encrypted"
    # An empty list, map or text before the change set no key and no method.
    if pair.key in ENCRYPTION_SETTINGS and pair.before and (pair.after is None or pair.after in ("", [], {})):
        return "is removed: the resource is no longer encrypted this way"
    return ""


def _on(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in ("true", "enabled"))


def _off(value: Any) -> bool:
    return value is False or (isinstance(value, str) and value.lower() in ("false", "disabled", ""))


def _is_secure(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secure"}


def _all_secure(value: Any) -> bool:
    """Return True if each leaf of a map or list is encrypted, as after `pulumi config set --path --secret`."""
    return isinstance(value, Mapping | list) and all(path[-1:] == ("secure",) for path, _ in leaves(value))
