"""Serve the buckets of the emulated state: their settings, the objects of stacks, and the objects of programs.

An object that a program writes is in memory, and ends with the server. A role on a bucket is not checked.
"""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, Reply, StorageServer, StoredObject
from pulumi_sandbox.providers.gcp.project_apis import BUCKET_PATH, ProjectApis
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import World

OBJECT = "gcp:storage/bucketObject:BucketObject"


class WorldStorage(ObjectStorage):
    """The objects of the buckets of a world."""

    def __init__(self, world: World, projects: ProjectApis) -> None:
        super().__init__()
        self._world, self._projects = world, projects
        self._loaded: dict[tuple[str, str], str] = {}

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes, base: str) -> Reply:
        url = urlsplit(target)
        if BUCKET_PATH.fullmatch(url.path):
            call = Call(method, url.path, parse_qs(url.query), headers.get("authorization", ""), None, headers)
            found = self._projects.storage(call)
            return Reply(found.status, found.body.encode(), {"Content-Type": found.kind})
        self.load()
        return super().answer(method, target, headers, body, base)

    def load(self) -> None:
        """Add the buckets and objects that stacks have created since the last call."""
        with self._lock:
            for row in self._world.find(types.BUCKET):
                self.buckets.setdefault(str(row.inputs.get("name")), {})
            for row in self._world.find(OBJECT):
                place = str(row.inputs.get("bucket")), str(row.inputs.get("name"))
                state = repr(row.inputs)
                if self._loaded.get(place) != state:
                    self._loaded[place] = state
                    self._generation += 1
                    self.buckets.setdefault(place[0], {})[place[1]] = StoredObject(
                        content(row.inputs), self._generation
                    )


def delete_objects(world: World, bucket: str) -> None:
    """Delete the objects of stacks in a bucket."""
    for row in world.find(OBJECT):
        if row.inputs.get("bucket") == bucket:
            world.delete(OBJECT, row.id, f"the bucket {bucket} was deleted with its objects")


def content(inputs: Mapping[str, Any]) -> bytes:
    """Return the content of an object of a stack: a text, or a zip file of texts.

    The emulated state has no values of secrets, such as the input `content`, so only `source` has a content.
    """
    source = table(inputs.get("source"))
    if "assets" not in source:
        return str(source.get("text") or "").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, asset in sorted(table(source["assets"]).items()):
            archive.writestr(zipfile.ZipInfo(path), str(table(asset).get("text") or ""))
    return buffer.getvalue()


class BucketServer:
    """The server of the buckets. It starts when its address is first requested."""

    def __init__(self, storage: WorldStorage) -> None:
        self.storage = storage
        self._server: StorageServer | None = None
        self._starts = threading.Lock()

    def address(self) -> str:
        with self._starts:
            if self._server is None:
                self._server = StorageServer(self.storage)
            return self._server.address
