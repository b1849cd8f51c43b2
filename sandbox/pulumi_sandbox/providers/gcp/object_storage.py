"""Emulate buckets and objects of Cloud Storage: the calls of the JSON API v1 that programs of builds make.

Sources: discovery document storage v1, and cloud.google.com/storage/docs/performing-resumable-uploads. The content of
objects is in memory, and ends with the server. A role on a bucket is not checked.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import threading
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json
from pulumi_sandbox.providers.machines.metadata import is_token
from pulumi_sandbox.world.store import World

BUCKET_OBJECT = "gcp:storage/bucketObject:BucketObject"
OBJECT = re.compile(r"(?:/download)?(?:/storage/v1)?/b/([^/]+)/o/([^/]+)")
OBJECTS = re.compile(r"(?:/storage/v1)?/b/([^/]+)/o")
UPLOAD = re.compile(r"/upload/storage/v1/b/([^/]+)/o")
RANGE = re.compile(r"bytes=(\d+)-(\d*)")
CONTENT_RANGE = re.compile(r"bytes (?:\*|(\d+)-(\d+))/(\d+|\*)")
CHUNK_BYTES = 256 * 1024
"""Every chunk but the last one has a multiple of this size."""
LARGEST_CHUNK_BYTES = 1024**3


@dataclass
class StoredObject:
    """One object with its custom metadata."""

    content: bytes
    generation: int
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat().replace("+00:00", "Z"))


@dataclass
class Upload:
    """A resumable upload that has not ended."""

    bucket: str
    resource: dict[str, Any]
    query: dict[str, list[str]]
    content: bytearray = field(default_factory=bytearray)
    reply: Answer | None = None
    """The answer to the last chunk, which later requests get too."""


class ObjectStorage:
    """The objects of these buckets, and of the buckets of a world. Several threads may call it."""

    def __init__(self, *buckets: str, world: World | None = None) -> None:
        self.buckets: dict[str, dict[str, StoredObject]] = {name: {} for name in buckets}
        self._world = world
        self._loaded: dict[tuple[str, str], str] = {}
        self._uploads: dict[str, Upload] = {}
        self._generation = 1_700_000_000_000_000
        self._lock = threading.RLock()

    def load(self) -> None:
        """Add the buckets and objects that stacks have created since the last call."""
        if self._world is None:
            return
        with self._lock:
            for row in self._world.find(types.BUCKET):
                self.buckets.setdefault(str(row.inputs.get("name")), {})
            for row in self._world.find(BUCKET_OBJECT):
                place, state = (str(row.inputs.get("bucket")), str(row.inputs.get("name"))), repr(row.inputs)
                if self._loaded.get(place) != state:
                    self._loaded[place] = state
                    self._generation += 1
                    stored = StoredObject(content(row.inputs), self._generation)
                    self.buckets.setdefault(place[0], {})[place[1]] = stored

    def append(self, bucket: str, name: str, content: bytes) -> None:
        """Add to the end of an object, which is created if it does not exist, as Cloud Build writes its log."""
        with self._lock:
            objects = self.buckets.setdefault(bucket, {})
            before = objects[name].content if name in objects else b""
            self._generation += 1
            objects[name] = StoredObject(before + content, self._generation)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes, base: str) -> Answer:
        """Return the answer. Header names are in lower case, and `base` is the address of the server."""
        if not is_token(headers.get("authorization", "")):
            return _error(401, "required", "Anonymous caller does not have storage access.")
        self.load()
        url = urlsplit(target)
        query = parse_qs(url.query)
        with self._lock:
            if match := UPLOAD.fullmatch(url.path):
                return self._upload(method, unquote(match[1]), query, headers, body, base)
            if match := OBJECT.fullmatch(url.path):
                return self._object(method, unquote(match[1]), unquote(match[2]), query, headers)
            if (match := OBJECTS.fullmatch(url.path)) and method == "GET":
                return self._list(unquote(match[1]), query)
        return _error(404, "notFound", f"The sandbox does not serve {method} {url.path}.")

    def _object(
        self, method: str, bucket: str, name: str, query: dict[str, list[str]], headers: Mapping[str, str]
    ) -> Answer:
        found = self.buckets.get(bucket, {}).get(name)
        generation = query.get("generation", [""])[0]
        if found is None or (generation and int(generation) != found.generation):
            return _error(404, "notFound", f"No such object: {bucket}/{name}")
        if refusal := _precondition(query, found):
            return refusal
        if method == "DELETE":
            del self.buckets[bucket][name]
            return _content(204, {})
        if query.get("alt") != ["media"]:
            return as_json(200, _resource(bucket, name, found))
        wanted = RANGE.fullmatch(headers.get("range", ""))
        if not wanted:
            return _content(200, {}, found.content, found.content_type)
        size, first = len(found.content), int(wanted[1])
        if first >= size:
            return _content(416, {"Content-Range": f"bytes */{size}"})
        last = min(int(wanted[2] or size - 1), size - 1)
        place = f"bytes {first}-{last}/{size}"
        return _content(206, {"Content-Range": place}, found.content[first : last + 1], found.content_type)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> Answer:
        if bucket not in self.buckets:
            return _error(404, "notFound", "The specified bucket does not exist.")
        prefix = query.get("prefix", [""])[0]
        rows = [
            _resource(bucket, name, found)
            for name, found in sorted(self.buckets[bucket].items())
            if name.startswith(prefix)
        ]
        return as_json(200, {"kind": "storage#objects", "items": rows} if rows else {"kind": "storage#objects"})

    def _upload(
        self, method: str, bucket: str, query: dict[str, list[str]], headers: Mapping[str, str], body: bytes, base: str
    ) -> Answer:
        if bucket not in self.buckets:
            return _error(404, "notFound", "The specified bucket does not exist.")
        kind = query.get("uploadType", [""])[0]
        if kind == "resumable" and method == "PUT":
            return self._continue(query.get("upload_id", [""])[0], headers, body)
        if kind == "resumable":
            resource = json.loads(body or b"{}")
            name = query.get("name", [resource.get("name", "")])[0]
            if refusal := _precondition(query, self.buckets[bucket].get(name)):
                return refusal
            identity = uuid.uuid4().hex
            self._uploads[identity] = Upload(bucket, {**resource, "name": name}, query)
            place = f"{base}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={identity}"
            return _content(200, {"Location": place})
        if kind == "multipart":
            head, content = _parts(headers, body)
            resource = json.loads(head or b"{}")
            name = query.get("name", [resource.get("name", "")])[0]
            return self._store(bucket, {**resource, "name": name}, query, content)
        name = query.get("name", [""])[0]
        return self._store(bucket, {"name": name}, query, body)

    def _continue(self, identity: str, headers: Mapping[str, str], body: bytes) -> Answer:
        upload = self._uploads.get(identity)
        place = CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        if upload is None or place is None:
            return _error(404 if upload is None else 400, "invalid", "No such upload, or an invalid Content-Range.")
        if upload.reply:
            return upload.reply
        if place[1] is not None and body:
            if int(place[1]) != len(upload.content):
                return _error(503, "backendError", "The chunk does not follow the last one.")
            is_last = place[3] == str(int(place[2]) + 1)
            if not is_last and len(body) % CHUNK_BYTES:
                return _error(400, "invalid", "The size of a chunk must be a multiple of 262144.")
            upload.content += body
        if place[3] == str(len(upload.content)):
            upload.reply = self._store(upload.bucket, upload.resource, upload.query, bytes(upload.content))
            upload.content.clear()
            return upload.reply
        return _content(308, {"Range": f"bytes=0-{len(upload.content) - 1}"} if upload.content else {})

    def _store(self, bucket: str, resource: dict[str, Any], query: dict[str, list[str]], content: bytes) -> Answer:
        name = str(resource["name"])
        if refusal := _precondition(query, self.buckets[bucket].get(name)):
            return refusal
        self._generation += 1
        stored = StoredObject(content, self._generation, dict(resource.get("metadata") or {}))
        self.buckets[bucket][name] = stored
        return as_json(200, _resource(bucket, name, stored))


def _parts(headers: Mapping[str, str], body: bytes) -> tuple[bytes, bytes]:
    """Return the two parts of a multipart upload. Python's parser of mail would change line ends of the content."""
    boundary = re.search(r'boundary="?([^";]+)', headers.get("content-type", ""))
    _, head, rest = body.split(f"--{boundary[1] if boundary else ''}".encode(), 2)
    end = rest.rindex(f"--{boundary[1] if boundary else ''}--".encode())
    return _payload(head), _payload(rest[:end])


def _payload(part: bytes) -> bytes:
    blank = b"\r\n\r\n" if b"\r\n\r\n" in part else b"\n\n"
    _, _, content = part.partition(blank)
    return content.removesuffix(b"\n").removesuffix(b"\r")


def _precondition(query: dict[str, list[str]], found: StoredObject | None) -> Answer | None:
    wanted = query.get("ifGenerationMatch", [""])[0]
    if wanted and int(wanted) != (found.generation if found else 0):
        return _error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
    return None


def _resource(bucket: str, name: str, found: StoredObject) -> dict[str, Any]:
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": name,
        "generation": str(found.generation),
        "size": str(len(found.content)),
        "timeCreated": found.created,
        "updated": found.created,
        "md5Hash": base64.b64encode(hashlib.md5(found.content, usedforsecurity=False).digest()).decode(),
        **({"metadata": found.metadata} if found.metadata else {}),
    }


def _error(status: int, reason: str, message: str) -> Answer:
    errors = [{"domain": "global", "reason": reason, "message": message}]
    return as_json(status, {"error": {"code": status, "message": message, "errors": errors}})


def _content(status: int, headers: Mapping[str, str], content: bytes = b"", kind: str = "text/plain") -> Answer:
    return Answer(status, "", kind, headers, content)


class StorageServer:
    """Serves an ObjectStorage on a free port of 127.0.0.1, from the first use of its address until it is closed."""

    def __init__(self, storage: ObjectStorage) -> None:
        self.storage = storage
        self._server: LocalServer | None = None
        self._starts = threading.Lock()

    @property
    def address(self) -> str:
        with self._starts:
            if self._server is None:
                methods = ("GET", "POST", "PUT", "DELETE")
                self._server = LocalServer("storage", self.answer, methods, largest_body=LARGEST_CHUNK_BYTES)
            return f"http://{self._server.address}"

    def close(self) -> None:
        if self._server:
            self._server.close()

    def answer(self, request: Request) -> Answer:
        headers = {name.lower(): value for name, value in request.headers.items()}
        found = self.storage.answer(request.command, request.path, headers, request.content, self.address)
        return replace(found, headers={"Date": request.date_time_string(), **found.headers})


def delete_objects(world: World, bucket: str) -> None:
    """Delete the objects of stacks in a bucket."""
    for row in world.find(BUCKET_OBJECT):
        if row.inputs.get("bucket") == bucket:
            world.delete(BUCKET_OBJECT, row.id, f"the bucket {bucket} was deleted with its objects")


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
