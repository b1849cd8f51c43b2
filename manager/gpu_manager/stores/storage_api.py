"""One Cloud Storage object, read with its generation and written only if the generation is the expected one.

The generation is Cloud Storage's number of an object's version. Each write gives the object another generation.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from gpu_ci.gcp.gate.google_service import CredentialsError, connect, credentials

from ..ports import Refused, Unavailable

ENDPOINT = "GOOGLE_STORAGE_CUSTOM_ENDPOINT"
"""The complete base address, including storage/v1/, as in Terraform's Google provider."""
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TIMEOUT_SEC = 10.0
# Google's client repeats throttled and lost requests. If a lost write had succeeded, the repeated one raises Changed.
_RETRIES = 2
_MISSING, _CHANGED = 404, 412


class Changed(Exception):  # noqa: N818 - an answer
    """The object has another generation than expected, or is missing."""


@dataclass(frozen=True)
class StoredContent:
    """The content of an object, with the generation that was read."""

    content: bytes
    generation: int
    age_sec: float
    """Seconds since the object was written, from two times in Google's answers."""


class StorageObject(Protocol):
    """The methods of Cloud Storage that the store needs."""

    def read(self) -> StoredContent | None:
        """Return the object, or None if it is missing. Raises Unavailable or Refused."""

    def write(self, content: bytes, generation: int) -> int:
        """Replace this generation, or create the object for 0. Return the new generation. Raises Changed, Unavailable
        or Refused.
        """


class GoogleObject:
    """An object accessed with Google's client, whose package contains the API description. One thread at a time.

    Permissions: storage.objects.get to read; storage.objects.create and storage.objects.delete to write
    (cloud.google.com/storage/docs/access-control/iam-json, objects.insert).
    """

    def __init__(self, bucket: str, name: str, http: Any = None, retries: int = _RETRIES) -> None:
        self._bucket, self._name = bucket, name
        self._http, self._retries = http, retries
        self._objects_api: Any = None

    @property
    def name(self) -> str:
        return self._name

    def sibling(self, name: str) -> GoogleObject:
        """Return another object of the bucket."""
        return GoogleObject(self._bucket, name, self._http, self._retries)

    def read(self) -> StoredContent | None:
        dates: list[str] = []
        while True:
            call = self._objects().get(bucket=self._bucket, object=self._name, fields="generation,updated")
            call.add_response_callback(lambda response: dates.append(response["date"]))
            metadata = self._run(call)
            if metadata is None:
                return None
            request = {"bucket": self._bucket, "object": self._name, "ifGenerationMatch": metadata["generation"]}
            try:
                content = self._run(self._objects().get_media(**request))
            except Changed:
                continue
            age = parsedate_to_datetime(dates[-1]) - datetime.fromisoformat(metadata["updated"])
            return None if content is None else StoredContent(content, int(metadata["generation"]), age.total_seconds())

    def write(self, content: bytes, generation: int) -> int:
        from googleapiclient.http import MediaInMemoryUpload

        media = MediaInMemoryUpload(content, mimetype="application/json")
        call = self._objects().insert(
            bucket=self._bucket,
            name=self._name,
            ifGenerationMatch=str(generation),
            media_body=media,
            fields="generation",
        )
        written = self._run(call)
        if written is None:
            raise Refused(f"{self}: its bucket does not exist")
        return int(written["generation"])

    def __str__(self) -> str:
        return f"gs://{self._bucket}/{self._name}"

    def _objects(self) -> Any:
        """Return the API's methods. They are created at first use, so that missing credentials raise an error there."""
        if self._objects_api is None:
            self._objects_api = _service(self._http or self._connection()).objects()
        return self._objects_api

    def _connection(self) -> Any:
        try:
            found = credentials(os.environ, _SCOPE)
        except CredentialsError as error:
            raise Unavailable(f"{self}: {error}") from None
        return connect(found, _TIMEOUT_SEC)

    def _run(self, call: Any) -> Any:
        """Return the answer, or None if the object is missing."""
        from google.auth.exceptions import GoogleAuthError
        from googleapiclient.errors import HttpError
        from httplib2 import HttpLib2Error  # type: ignore[import-untyped]

        try:
            return call.execute(num_retries=self._retries)
        except HttpError as error:
            status = error.resp.status
            if status == _MISSING:
                return None
            if status == _CHANGED:
                raise Changed(str(self)) from None
            is_temporary = status in (401, 408, 429) or status >= 500
            raise (Unavailable if is_temporary else Refused)(
                f"{self}: Google answered {status}: {error.reason}"
            ) from None
        except (GoogleAuthError, HttpLib2Error, OSError) as error:
            raise Unavailable(f"{self}: Cloud Storage could not be reached: {error}") from None


def _service(connection: Any) -> Any:
    from googleapiclient.discovery import build_from_document
    from googleapiclient.discovery_cache import get_static_doc

    document = json.loads(get_static_doc("storage", "v1"))
    if endpoint := os.environ.get(ENDPOINT, ""):
        # The client takes the address of uploads from here and not from its option api_endpoint.
        document["rootUrl"] = endpoint.rstrip("/").removesuffix(document["servicePath"].rstrip("/"))
        document["baseUrl"] = document["rootUrl"] + document["servicePath"]
    return build_from_document(document, http=connection)
