"""`secret-exposed`: what was secret is plain, and what was encrypted is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...diff.moved_secrets import exposes_secret
from ...diff.paths import Step
from ...diff.placeholders import is_in_plain
from ...diff.value_pairs import ValuePair, leaves, pairs, revealed
from ...engine.states import STACK, Change, World
from ...model import Finding, Severity
from ..danger_rule import SECRET_EXPOSED, shortened

SWITCHES = frozenset(
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
KEYS = frozenset(
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
"""Names of properties that say by which key, or how, something is encrypted."""
ENCRYPTS = frozenset(
    {
        "aws:ebs/encryptionByDefault:EncryptionByDefault",
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
    }
)
"""Resources that are the encryption of another."""
_BY_DEFAULT = "aws:ebs/encryptionByDefault:EncryptionByDefault"


def check(change: Change, _world: World) -> Iterator[Finding]:
    if change.type in ENCRYPTS and change.ends == "is deleted":
        yield SECRET_EXPOSED.found(change, f"{change.name} is deleted: what it encrypted by a key is so no longer")
    yield from exposed(change, _world)
    if change.before is None:
        return
    reported: tuple[Step, ...] = ()
    for pair in change.inputs:
        if reported and pair.path[: len(reported)] == reported:
            continue  # a part of what was told just now
        if text := _lost(change, pair):
            reported = pair.path
            yield SECRET_EXPOSED.found(change, f"{change.name}: {shortened(pair.text, 120)} {text}")


def exposed(change: Change, _world: World) -> Iterator[Finding]:
    """What was secret and is plain now, also where the engine calls the resource the same: it compares values alone.

    Of the stack it is its outputs; those of a resource are the provider's, which knows what is secret.
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
            text = "holds a value in plain that the stack file encrypts"
            yield SECRET_EXPOSED.found(change, f"{change.name}: {shortened(pair.text, 120)} {text}")
    for key in sorted(after.keys() - reported):
        if exposes_secret(before.get(key), after[key]):
            text = "has lost a secret and has something plain that is new: make sure that it is not the same"
            found = SECRET_EXPOSED.found(change, f"{change.name}: {shortened(key, 120)} {text}")
            yield found.model_copy(update={"severity": Severity.WARNING})


def config(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[Step, ...]]:
    """Where under `config:` of a stack file something is plain that `pulumi config set --secret` had encrypted."""
    for pair in pairs(before, after):
        if _is_secure(pair.before) and pair.after is not None and not _all_secure(pair.after):
            yield pair.path


def _lost(change: Change, pair: ValuePair) -> str:
    """What was encrypted, and is not. Where the thing itself is gone, there is no pair, and nothing to tell."""
    switch = pair.key in SWITCHES or (pair.key == "enabled" and change.type == _BY_DEFAULT)
    if switch and _on(pair.before) and (pair.after is None or _off(pair.after)):
        return "was on and is off: it is not encrypted any more"
    # A list or a map that was empty named no key.
    if pair.key in KEYS and pair.before and (pair.after is None or pair.after in ("", [], {})):
        return "is gone: what it names encrypts this no longer"
    return ""


def _on(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in ("true", "enabled"))


def _off(value: Any) -> bool:
    return value is False or (isinstance(value, str) and value.lower() in ("false", "disabled", ""))


def _is_secure(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secure"}


def _all_secure(value: Any) -> bool:
    """Whether each part of it is encrypted, as `pulumi config set --path --secret` leaves it."""
    return isinstance(value, Mapping | list) and all(path[-1:] == ("secure",) for path, _ in leaves(value))
