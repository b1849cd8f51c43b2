"""Fakes of Cloud Storage's JSON API and of S3, under the clients of the manager.

Requests to Google are validated against its discovery document, and those to S3 by botocore. Each fake is as strict as
the service, with its answers for these cases:

- a write of an object with another version, or with none
- a second write of one object within a second, in Cloud Storage
- a missing object for an account without the permission to list
- in S3, equal contents have equal versions, and times are whole seconds
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests
from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]
from gpu_ci.mailbox.google_objects import GoogleObjects
from gpu_ci.mailbox.objects import Objects, S3Objects
from pulumi_sandbox.providers.gcp.discovery import document, methods
from requests.adapters import BaseAdapter

STORAGE = "storage.v1"
ROOT = "https://storage.googleapis.com"


@dataclass
class Stored:
    content: bytes
    generation: int
    updated: float


@dataclass
class FakeStorage:
    """The buckets of Cloud Storage."""

    now: Callable[[], float]
    buckets: set[str] = field(default_factory=lambda: {"state"})
    permissions: set[str] = field(
        default_factory=lambda: {"storage.objects.create", "storage.objects.delete", "storage.objects.get"}
    )
    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The method of each request."""
    fault: Callable[[str, str], None] = lambda when, method: None
    """A function that is called before and after each request. Its exceptions reach the caller."""
    last_generation: int = 1_760_000_000_000_000

    READ, WRITE, ADDRESS = "get", "insert", "gs://state"

    def bucket(self, name: str = "state") -> Objects:
        """Return a bucket whose client sends its requests to this fake."""
        session = requests.Session()
        session.mount(ROOT, _Adapter(self))
        objects = GoogleObjects(name)
        objects._threads.session = session
        return objects

    def request(self, uri: str, method: str, headers: Any, body: Any) -> tuple[int, dict[str, str], bytes]:
        name, path, query = self._method(method, uri)
        self._begin(name)
        answer = self._answer(name, path, query, body or b"")
        return self._end(name, *answer)

    def _begin(self, name: str) -> None:
        self.asked.append(name)
        self.fault("before", name)

    def _end(self, name: str, status: int, extra: dict[str, str], content: bytes) -> tuple[int, dict[str, str], bytes]:
        self.fault("after", name)
        date = format_datetime(datetime.fromtimestamp(self.now(), UTC), usegmt=True)
        return status, {"Date": date, **extra}, content

    def _method(self, verb: str, uri: str) -> tuple[str, dict[str, str], dict[str, str]]:
        """Return the method of the document. Raises AssertionError for an unknown method or parameter."""
        parts = urlsplit(uri)
        assert f"{parts.scheme}://{parts.netloc}" == ROOT
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        service = document(STORAGE)["servicePath"]
        for name, described in methods(STORAGE, "objects").items():
            upload = described.get("mediaUpload", {}).get("protocols", {}).get("simple", {}).get("path")
            form = upload or f"/{service}{described['path']}"
            found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", form), parts.path)
            if described["httpMethod"] != verb or found is None:
                continue
            known = set(described["parameters"]) | set(document(STORAGE)["parameters"]) | {"uploadType"}
            assert set(query) <= known, f"objects.{name} has no parameter {set(query) - known}"
            return name, {key: unquote(value) for key, value in found.groupdict().items()}, query
        raise AssertionError(f"{verb} {uri} is no method of the API")

    def _answer(
        self, method: str, path: dict[str, str], query: dict[str, str], body: Any
    ) -> tuple[int, dict[str, str], bytes]:
        bucket = path["bucket"]
        if bucket not in self.buckets:
            return _error(404, "notFound", "The specified bucket does not exist.")
        key = (bucket, query["name"] if method == "insert" else path["object"])
        stored = self.objects.get(key)
        if method == "get":
            return self._get(stored, query)
        assert method == "insert", f"objects.{method} is not emulated"
        if "storage.objects.create" not in self.permissions:
            return _forbidden("storage.objects.create")
        # cloud.google.com/storage/docs/request-preconditions: 0 means that no live object exists.
        expected = query.get("ifGenerationMatch")
        if expected is not None and int(expected) != (stored.generation if stored else 0):
            return _error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        if stored and "storage.objects.delete" not in self.permissions:
            return _forbidden("storage.objects.delete")
        if stored and self.now() - stored.updated < 1:
            return _error(
                429, "rateLimitExceeded", "The object exceeded the rate limit for object mutation operations."
            )
        self.last_generation += 1
        self.objects[key] = Stored(bytes(body), self.last_generation, self.now())
        return _ok(self._metadata(self.objects[key]))

    def _get(self, stored: Stored | None, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "storage.objects.get" not in self.permissions:
            return _forbidden("storage.objects.get")
        if stored is None or str(stored.generation) != query.get("generation", str(stored.generation)):
            # cloud.google.com/storage/docs/json_api/v1/objects/get: 403 without the permission to list the bucket.
            if "storage.objects.list" not in self.permissions:
                return _forbidden("storage.objects.list")
            return _error(404, "notFound", "No such object.")
        if query.get("alt") == "media":
            return 200, {"content-type": "application/json"}, stored.content
        return _ok(self._metadata(stored))

    def _metadata(self, stored: Stored) -> dict[str, str]:
        updated = datetime.fromtimestamp(stored.updated, UTC).isoformat().replace("+00:00", "Z")
        row = {"generation": str(stored.generation), "updated": updated, "size": str(len(stored.content))}
        assert set(row) <= set(document(STORAGE)["schemas"]["Object"]["properties"])
        return row


def _ok(answer: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "application/json"}, json.dumps(answer).encode()


def _error(status: int, reason: str, message: str) -> tuple[int, dict[str, str], bytes]:
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    return status, {"content-type": "application/json"}, json.dumps({"error": error}).encode()


def _forbidden(permission: str) -> tuple[int, dict[str, str], bytes]:
    return _error(
        403, "forbidden", f"The account does not have {permission} access to the Google Cloud Storage object."
    )


class _Adapter(BaseAdapter):
    """The network of requests."""

    def __init__(self, storage: FakeStorage) -> None:
        super().__init__()
        self._storage = storage

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        status, headers, content = self._storage.request(
            str(request.url), str(request.method), request.headers, request.body
        )
        answer = requests.Response()
        answer.status_code, answer.raw = status, _Raw(content)
        answer.headers.update(headers)
        return answer

    def close(self) -> None:
        pass


class _Raw(io.BytesIO):
    """The content of an answer, as urllib3 has it."""

    def read(self, amount: int | None = None, decode_content: bool = False) -> bytes:
        return super().read(-1 if amount is None else amount)

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self.read()

    def release_conn(self) -> None:
        pass


class FakeS3(FakeStorage):
    """The buckets of S3."""

    READ, WRITE, ADDRESS = "s3:GetObject", "s3:PutObject", "s3://state"

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now, permissions={self.READ, self.WRITE})

    def bucket(self, name: str = "state") -> Objects:
        objects, _of_client[:] = S3Objects(name, "eu-west-1"), [self]
        objects._client = _client()
        return objects

    def request(self, uri: str, method: str, headers: Any, body: Any) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(uri)
        name = {"GET": self.READ, "PUT": self.WRITE}[method]
        self._begin(name)
        key = (parts.netloc.partition(".")[0], unquote(parts.path).removeprefix("/"))
        given = {each: value.decode() if isinstance(value, bytes) else value for each, value in headers.items()}
        content = body.read() if hasattr(body, "read") else body
        return self._end(name, *self._s3(name, key, {each.lower(): value for each, value in given.items()}, content))

    def _s3(
        self, name: str, key: tuple[str, str], headers: dict[str, str], body: Any
    ) -> tuple[int, dict[str, str], bytes]:
        stored = self.objects.get(key)
        if key[0] not in self.buckets:
            return _xml(404, "NoSuchBucket", "The specified bucket does not exist")
        if name not in self.permissions:
            return _xml(403, "AccessDenied", f"no identity-based policy allows the {name} action")
        if name == self.READ:
            if stored is None:
                # docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, "Permissions".
                return _xml(403, "AccessDenied", "no identity-based policy allows the s3:ListBucket action")
            at = datetime.fromtimestamp(int(stored.updated), UTC)
            return 200, {"ETag": _etag(stored), "Last-Modified": format_datetime(at, usegmt=True)}, stored.content
        # docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        wanted = headers.get("if-match")
        if wanted and stored is None:
            return _xml(404, "NoSuchKey", "The specified key does not exist.")
        if (wanted and stored and wanted != _etag(stored)) or (headers.get("if-none-match") == "*" and stored):
            return _xml(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        self.objects[key] = Stored(bytes(body), 0, self.now())
        return 200, {"ETag": _etag(self.objects[key])}, b""


_of_client: list[FakeS3] = []


@cache
def _client() -> Any:
    """Return a client for the newest fake. Its creation takes 0.3 s."""
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.session import Session  # type: ignore[import-untyped]

    def send(request: Any, **_: Any) -> Any:
        status, headers, content = _of_client[0].request(request.url, request.method, request.headers, request.body)
        return AWSResponse(request.url, status, headers, _Raw(content))

    session = Session()
    session.set_credentials("AKIAIOSFODNN7EXAMPLE", "planted")
    # Another test may have set an address in the environment.
    config = Config(retries={"total_max_attempts": 1}, request_checksum_calculation="when_required",
                    ignore_configured_endpoint_urls=True)  # fmt: skip
    client = session.create_client("s3", region_name="eu-west-1", config=config)
    client.meta.events.register("before-send.s3", send)
    return client


def _etag(stored: Stored) -> str:
    return f'"{hashlib.md5(stored.content, usedforsecurity=False).hexdigest()}"'


def _xml(status: int, code: str, message: str) -> tuple[int, dict[str, str], bytes]:
    return status, {}, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
