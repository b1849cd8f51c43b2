"""A fake of Cloud Storage's JSON API for one project. Requests are validated against Google's discovery document.

It is as strict as the service, with Google's answers for three cases:

- a write of an existing object without its generation
- a second write of one object within a second
- a missing object for an account without the permission to list
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httplib2  # type: ignore[import-untyped]
from pulumi_sandbox.providers.gcp.discovery import document, methods

STORAGE = "storage.v1"
ROOT = "https://storage.googleapis.com"


@dataclass
class Stored:
    content: bytes
    generation: int
    updated: float


@dataclass
class FakeStorage:
    """The buckets, with an `http` object that replaces the network for users of httplib2."""

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

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: Any = None, **_: Any
    ) -> tuple[httplib2.Response, bytes]:
        name, path, query = self._method(method, uri)
        self.asked.append(name)
        self.fault("before", name)
        status, extra, content = self._answer(name, path, query, body)
        self.fault("after", name)
        date = format_datetime(datetime.fromtimestamp(self.now(), UTC), usegmt=True)
        return httplib2.Response({"status": str(status), "date": date, **extra}), content

    def close(self) -> None:
        pass

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
