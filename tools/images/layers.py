"""Reads the layers of an image in an OCI layout, and finds files that no layer may have.

A file that a later command deletes is still in the layer of the command that wrote it, so each layer is read by itself.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_READ_BYTES = 1 << 20
"""Larger files are not searched for secrets."""

_PACKAGE_LIST = re.compile(r"var/lib/dpkg/info/[^/]+\.list")
"""The files of an installed package, which are not checked: some have passwords and keys as public examples."""

PATHS = {
    "an index of a package manager": re.compile(
        r"var/lib/apt/lists/.*[^/]|var/cache/apt/[^/]+\.bin|var/cache/(dnf|yum|apk)/.*|etc/apk/cache/.*"
    ),
    "a downloaded package": re.compile(r".*\.(deb|rpm|apk|whl|conda)"),
    "a cache": re.compile(
        r"(root|home/[^/]+)/\.(cache|ccache|npm|conda/pkgs)/.*[^/]|var/cache/debconf/.*-old|var/cache/ldconfig/aux-cache"
    ),
    "a log": re.compile(r"var/log/.*"),
    "a temporary file": re.compile(r"(var/)?tmp/.*"),
    "an identity of one machine": re.compile(
        r"etc/machine-id|var/lib/dbus/machine-id|var/lib/systemd/random-seed|etc/ssh/ssh_host_[^/]*_key"
    ),
    "a setting or a login of this machine": re.compile(
        r"(.*/)?(\.netrc|\.pypirc|\.npmrc|\.git-credentials|\.docker/config\.json|pip\.conf|uv\.toml)"
    ),
    "a key": re.compile(r"(.*/)?(id_(rsa|dsa|ecdsa|ed25519)|[^/]+\.(p12|pfx|jks))"),
    "a state of Pulumi": re.compile(r"(.*/)?(\.pulumi|\.sandbox)/.*"),
}
CONTENTS = {
    "a private key": re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}"),
    "a token of GitHub": re.compile(rb"\b(?:gh[oprsu]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{82})\b"),
    "an access key of AWS": re.compile(rb"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    "a key of a Google service account": re.compile(rb'"type":\s*"service_account"'),
    "an address with a password": re.compile(rb"https?://[^\s/:@\"'<>{}$]+:(?=[^@]*\d)[^\s/:@\"'<>{}$]{8,}@[a-z0-9]"),
}


def read(layout: Path) -> tuple[list[Path], dict[str, Any]]:
    """Return the layers and the configuration of the only image of an OCI layout, the lowest layer first."""
    [entry] = _json(layout / "index.json")["manifests"]
    manifest = _json(_blob(layout, entry["digest"]))
    config: dict[str, Any] = _json(_blob(layout, manifest["config"]["digest"]))
    return [_blob(layout, each["digest"]) for each in manifest["layers"]], config


def problems(layers: Iterable[Path], config: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each file, and for each entry of the configuration, that an image must not have."""
    packaged: set[str] = set()
    found = []
    for number, layer in enumerate(layers, 1):
        for name, content in _files(layer):
            if _PACKAGE_LIST.fullmatch(name):
                packaged.update(content.decode().splitlines())
            kinds = [f"is {what}" for what, pattern in PATHS.items() if pattern.fullmatch(name)]
            kinds += [f"has {what}" for what in _secrets(content)]
            found += [(number, f"/{name}", kind) for kind in kinds]
    for number, path, kind in found:
        if path not in packaged:
            yield f"layer {number}: {path} {kind}"
    for what in _secrets(json.dumps(config).encode()):
        yield f"configuration: has {what}"
    for entry in config.get("config", {}).get("Env", []):
        name, _, value = entry.partition("=")
        if value and re.search(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|INDEX_URL|PROXY", name, re.IGNORECASE):
            yield f"configuration: the variable {name} has a value"


def _files(blob: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(blob, "r|*") as archive:
        for member in archive:
            name = member.name.removeprefix("./").removeprefix("/")
            if not member.isfile() or name.rpartition("/")[2].startswith(".wh."):
                continue
            content = archive.extractfile(member) if member.size <= _READ_BYTES else None
            yield name, content.read() if content else b""


def _secrets(content: bytes) -> list[str]:
    return [what for what, pattern in CONTENTS.items() if pattern.search(content)]


def _blob(layout: Path, digest: str) -> Path:
    algorithm, _, value = digest.partition(":")
    return layout / "blobs" / algorithm / value


def _json(file: Path) -> Any:
    return json.loads(file.read_text())
