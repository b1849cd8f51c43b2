"""The objects of the bridge's bucket, through Google's Python client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol
from urllib.parse import urlsplit

from ..gate.credentials import PLATFORM
from ..gate.google_service import ApiError, GoogleService
from .protocol import DIGEST

ENDPOINT = "GOOGLE_STORAGE_CUSTOM_ENDPOINT"
"""The environment variable with another address of Cloud Storage, including storage/v1/."""
# "a multiple of 256 KiB" (cloud.google.com/storage/docs/performing-resumable-uploads).
_CHUNK_BYTES = 16 * 2**20
_LONGEST_PAUSE_SEC = 16.0


class Entry(NamedTuple):
    """An object without its content."""

    generation: int
    size: int
    sha256: str
    """The digest in the custom metadata, or ""."""
    created: float
    """The Unix time of its creation."""


class Storage(Protocol):
    """The calls that the bridge needs. Each can raise ApiError.

    With `once`, a request is not repeated. A poll uses this, so that a signal during an outage ends the step soon.
    """

    def find(self, name: str, *, once: bool = False) -> Entry | None:
        """Return an object, or None if it does not exist."""

    def read(self, name: str, generation: int, sink: BinaryIO, *, once: bool = False) -> None:
        """Write the content of one generation into `sink`."""

    def create(self, name: str, content: bytes) -> int:
        """Create a small object, and return its generation. Return 0 if it exists."""

    def replace(self, name: str, content: bytes, generation: int) -> int:
        """Replace a generation, and return the new one. Return 0 if the object has another generation."""

    def delete(self, name: str, generation: int) -> None:
        """Delete a generation, unless the object has another one."""

    def upload(self, name: str, path: Path, sha256: str, stopped: Callable[[], bool], generation: int = 0) -> None:
        """Create an object from a file, or replace a generation, in chunks. `stopped` ends it between two of them.

        If the object has another generation, another build has uploaded it meanwhile, and nothing changes.
        """


class GoogleStorage(GoogleService):
    """The objects of one bucket."""

    def __init__(self, bucket: str) -> None:
        endpoint = os.environ.get(ENDPOINT, "")
        super().__init__("storage", "v1", endpoint, PLATFORM)
        self._root = endpoint.rstrip("/").removesuffix("/storage/v1")
        self._bucket = bucket
        self._objects = self._service.objects()

    def find(self, name: str, *, once: bool = False) -> Entry | None:
        fields = "generation,size,metadata,timeCreated"
        try:
            row = self._run(self._objects.get(bucket=self._bucket, object=name, fields=fields), 0 if once else None)
        except ApiError as error:
            if error.missing:
                return None
            raise
        created = datetime.fromisoformat(row["timeCreated"]).timestamp()
        return Entry(int(row["generation"]), int(row["size"]), str(row.get("metadata", {}).get(DIGEST, "")), created)

    def read(self, name: str, generation: int, sink: BinaryIO, *, once: bool = False) -> None:
        from googleapiclient.http import MediaIoBaseDownload

        call = self._objects.get_media(bucket=self._bucket, object=name, generation=str(generation))
        call.http = self._connection()
        download = MediaIoBaseDownload(sink, call, chunksize=_CHUNK_BYTES)
        done = False
        while not done:
            _, done = self._answer(lambda: download.next_chunk(num_retries=0 if once else self._retries))

    def create(self, name: str, content: bytes) -> int:
        return self._write(name, content, 0)

    def replace(self, name: str, content: bytes, generation: int) -> int:
        return self._write(name, content, generation)

    def delete(self, name: str, generation: int) -> None:
        try:
            self._run(self._objects.delete(bucket=self._bucket, object=name, ifGenerationMatch=str(generation)))
        except ApiError as error:
            if error.status not in (404, 412):
                raise

    def upload(self, name: str, path: Path, sha256: str, stopped: Callable[[], bool], generation: int = 0) -> None:
        from googleapiclient.http import MediaFileUpload

        body = {"name": name, "metadata": {DIGEST: sha256}}

        class Chunks(MediaFileUpload):  # type: ignore[misc]
            def has_stream(self) -> bool:
                """Return False, so that each chunk is sent as bytes.

                httplib2 repeats a request on a broken connection, but without the content of a file that it has read.
                """
                return False

        media = Chunks(str(path), mimetype="application/gzip", chunksize=_CHUNK_BYTES, resumable=True)
        call = self._objects.insert(bucket=self._bucket, body=body, media_body=media, ifGenerationMatch=str(generation))
        call.http = self._connection()
        self._redirect(call)
        failures = 0
        while not stopped():
            try:
                _, answer = self._answer(call.next_chunk)
            except ApiError as error:
                if error.status == 412:
                    return  # another build has uploaded the same content meanwhile
                failures += 1
                if not error.not_yet or failures > self._retries:
                    raise
                # The next call asks how much has arrived.
                time.sleep(min(2.0**failures, _LONGEST_PAUSE_SEC))
                continue
            failures = 0
            if answer is not None:
                return

    def _redirect(self, call: Any) -> None:
        """Send an upload to the endpoint. Google's client always uses https for uploads (2.202)."""
        if self._root:
            where = urlsplit(call.uri)
            call.uri = f"{self._root}{where.path}?{where.query}"

    def _write(self, name: str, content: bytes, generation: int) -> int:
        from googleapiclient.http import MediaInMemoryUpload

        call = self._objects.insert(
            bucket=self._bucket,
            body={"name": name},
            media_body=MediaInMemoryUpload(content, mimetype="application/json"),
            ifGenerationMatch=str(generation),
            fields="generation",
        )
        self._redirect(call)
        try:
            return int(self._run(call)["generation"])
        except ApiError as error:
            if error.status == 412:
                return 0
            raise
