"""A cache on disk of the shapes read from an SDK, for the next start of a provider."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.sdk.types import ObjectShape, Shape

# Increase this number when the result of the reader changes. A cache of another format is discarded.
FORMAT = 1


class ShapeCache:
    """One JSON file for one SDK at one version. If the file is broken, the SDK is read again."""

    def __init__(self, folder: Path | None, package: str, version: str, stamp: str) -> None:
        self.path = folder / f"shapes-{package}-{version}.json" if folder else None
        self.stamp = stamp
        self.tokens: dict[str, tuple[str, str]] = {}
        self.resources: dict[str, Shape] = {}
        self.objects: dict[str, ObjectShape] = {}
        self.enums: dict[str, tuple[str | float, ...]] = {}
        self._changed = False
        self._load()

    def changed(self) -> None:
        self._changed = True

    def _load(self) -> None:
        if self.path is None:
            return
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT or stored["stamp"] != self.stamp:
                return
            tokens = {token: (folder, name) for token, (folder, name) in stored["tokens"].items()}
            resources = {token: Shape.from_json(token, one) for token, one in stored["resources"].items()}
            objects = {key: ObjectShape.from_json(one) for key, one in stored["objects"].items()}
            enums = {key: tuple(values) for key, values in stored["enums"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
        self.tokens, self.resources, self.objects, self.enums = tokens, resources, objects, enums

    def save(self) -> None:
        """Write the cache if it changed. If two providers write at the same time, the additions of one are lost."""
        if self.path is None or not self._changed:
            return
        text = json.dumps(self._to_json(), separators=(",", ":"))
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.path)
        except OSError:
            # A full or read-only disk only makes the next start slower.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        self._changed = False

    def _to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "stamp": self.stamp,
            "tokens": {token: list(place) for token, place in self.tokens.items()},
            "resources": {token: shape.to_json() for token, shape in self.resources.items()},
            "objects": {key: shape.to_json() for key, shape in self.objects.items()},
            "enums": {key: list(values) for key, values in self.enums.items()},
        }
