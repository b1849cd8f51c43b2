"""Copies of stack files for the engine, so that no command changes a file that real deployments use.

The engine writes its encryption settings into the stack file, and deletes those of another secrets provider, such as
`encryptedkey`, the only copy of a data key (pulumi/pulumi v3.259.0, pkg/secrets/passphrase/manager.go,
NewPromptingPassphraseSecretsManager). The copies are in `.sandbox/stacks`, next to a project file of the same project,
for commands that accept no other stack file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from gpu_common.passphrase import opens

PASSPHRASE, PASSPHRASE_FILE = "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"
OWN_PASSPHRASE = "sandbox"  # noqa: S105 - it guards nothing, and the docs name it
# A salt for this passphrase, and the value `emulated-by-sandbox-secret` that this salt and passphrase encrypt.
SALT = "v1:rdHK0bDVB20=:v1:gdTHUdW6eJ3QWI3M:JFlRIlEH/xYCzIC9jgN12XBnZxkIIw=="
_PLACEHOLDER = "v1:jGjR0IBSui/M1xdq:N9KcdniTedE6FJUtyVItwaQ7Zk8Ll5yTNaC6m3bsHFTxjpKeqQ398jgB"
# The encryption settings of a stack file (sdk/go/common/workspace/project.go, ProjectStack), with the values in copies.
_SETTINGS = {"secretsprovider": "", "encryptedkey": "", "encryptionsalt": SALT}


@dataclass(frozen=True)
class EngineCopy:
    """The text of a stack file for the engine."""

    text: str
    passphrase: str
    encrypted_by: str = ""
    """What encrypts the secrets of the real file, if the sandbox cannot decrypt them."""
    placeholders: tuple[str, ...] = ()
    """The keys of these secrets, which are placeholders in the copy."""


def passphrases() -> Iterator[str]:
    """Yield the passphrase of the environment, if any, and that of the sandbox."""
    if (named := os.environ.get(PASSPHRASE)) is not None:
        yield named
    elif file := os.environ.get(PASSPHRASE_FILE):
        with contextlib.suppress(OSError, ValueError):
            yield Path(file).read_text().strip()
    yield OWN_PASSPHRASE


def engine_copy(text: str) -> EngineCopy:
    """Return the stack file for the engine. A file that is not YAML stays as it is, and the engine reports that."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        settings = _fields(root)
        secrets = list(_secrets(settings.get("config"), ""))
    except (yaml.YAMLError, RecursionError):
        return EngineCopy(text, OWN_PASSPHRASE)
    if root is not None and not isinstance(root, yaml.MappingNode):
        return EngineCopy(text, OWN_PASSPHRASE)
    found = {name: str(settings[name].value or "") for name in _SETTINGS if name in settings}
    provider, salt = found.get("secretsprovider", ""), found.get("encryptionsalt", "")
    is_passphrase = provider in ("", "passphrase", "default") and not found.get("encryptedkey")
    if is_passphrase and salt:
        for passphrase in passphrases():
            if (salt, passphrase) == (SALT, OWN_PASSPHRASE) or opens(salt, passphrase):
                return EngineCopy(text, passphrase)
    if not is_passphrase:
        encrypted_by = provider.partition(":")[0] or "another secrets provider"
    else:
        encrypted_by = "another passphrase" if salt else "the Pulumi service" if secrets else ""
    values = {settings[name]: value for name, value in _SETTINGS.items() if name in found}
    values |= dict.fromkeys((node for _, node in secrets), _PLACEHOLDER)
    return EngineCopy(
        _replaced(text, root, values, add_salt="encryptionsalt" not in found),
        OWN_PASSPHRASE,
        encrypted_by,
        tuple(dict.fromkeys(key for key, _ in secrets)),
    )


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


def _secrets(node: yaml.Node | None, key: str) -> Iterator[tuple[str, yaml.Node]]:
    """Yield each encrypted value with the key of the configuration that has it."""
    fields = _fields(node)
    if list(fields) == ["secure"] and isinstance(fields["secure"], yaml.ScalarNode):
        yield key, fields["secure"]
        return
    for name, inner in fields.items():
        yield from _secrets(inner, key or name)
    for inner in node.value if isinstance(node, yaml.SequenceNode) else ():
        yield from _secrets(inner, key)


def _replaced(text: str, root: yaml.Node | None, values: dict[yaml.Node, str], *, add_salt: bool) -> str:
    """Return the text with other values of these nodes. Everything else stays, as YAML has several readings."""
    line = f"encryptionsalt: {SALT}\n"
    spans = {(node.start_mark.index, node.end_mark.index): f" {json.dumps(value)}" for node, value in values.items()}
    if root is None:
        return f"{text}\n{line}"
    if add_salt and isinstance(root, yaml.MappingNode) and root.flow_style:
        spans[root.start_mark.index, root.start_mark.index + 1] = f'{{"encryptionsalt": "{SALT}",'
    elif add_salt:
        spans[root.start_mark.index, root.start_mark.index] = line + " " * root.start_mark.column
    for (start, end), value in sorted(spans.items(), reverse=True):
        ending = "\n" if text[start:end].endswith("\n") else ""  # that of a block scalar
        text = text[:start] + value + ending + text[end:]
    return text
