"""The objects of the bridge's bucket, through Google's library for Cloud Storage.

The library's own checksums are off: each reader of an object verifies its SHA-256.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..gate.google_service import PLATFORM, ApiError, CredentialsError, credentials, http_error, is_of_network
from .protocol import DIGEST

ENDPOINT = "GOOGLE_STORAGE_CUSTOM_ENDPOINT"
"""The environment variable with another address of Cloud Storage, including storage/v1/."""
# "a multiple of 256 KiB" (cloud.google.com/storage/docs/performing-resumable-uploads).
_CHUNK_BYTES = 16 * 2**20
_RETRY_WITHIN_SEC = 60.0


class Entry(NamedTuple):
    """One generation of an object, without its content."""

    size: int
    sha256: str
    """The digest in the custom metadata, or ""."""
    blob: Any
    """The object of Google's library."""


class GoogleStorage:
    """The objects of one bucket. Each call can raise ApiError.

    Names are unique to a step or to a content, so a repeated write has no other effect than the first one. With `once`,
    a request is not repeated. A poll uses this, so that a signal during an outage ends the step soon.
    """

    def __init__(self, bucket: str) -> None:
        from google.cloud import storage
        from google.cloud.storage.retry import DEFAULT_RETRY

        # Otherwise the library requests the bucket's own metadata, which builds may not read.
        os.environ["DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"] = "true"
        endpoint = os.environ.get(ENDPOINT, "").rstrip("/").removesuffix("/storage/v1")
        options = {"api_endpoint": endpoint} if endpoint else {}
        with _api_errors():
            self._client = storage.Client(None, credentials(os.environ, PLATFORM), client_options=options)
        self._bucket = self._client.bucket(bucket)
        self._retry = DEFAULT_RETRY.with_timeout(_RETRY_WITHIN_SEC)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def find(self, name: str, *, once: bool = False) -> Entry | None:
        """Return an object, or None if it does not exist."""
        with _api_errors():
            blob = self._bucket.get_blob(name, retry=None if once else self._retry)
        if blob is None:
            return None
        return Entry(blob.size, (blob.metadata or {}).get(DIGEST, ""), blob)

    def read(self, entry: Entry, sink: BinaryIO, *, once: bool = False) -> None:
        """Write the content of one generation into `sink`."""
        entry.blob.chunk_size = _CHUNK_BYTES
        with _api_errors():
            if entry.size:  # a range of an empty object does not exist
                entry.blob.download_to_file(sink, checksum=None, retry=None if once else self._retry)

    def write(self, name: str, content: bytes) -> None:
        """Write a small object."""
        with _api_errors():
            self._bucket.blob(name).upload_from_string(
                content, content_type="application/json", checksum=None, retry=self._retry
            )

    def upload(self, name: str, path: Path, sha256: str) -> None:
        """Write an object from a file, in chunks."""
        blob = self._bucket.blob(name, chunk_size=_CHUNK_BYTES)
        blob.metadata = {DIGEST: sha256}
        with _api_errors():
            blob.upload_from_filename(str(path), content_type="application/gzip", checksum=None, retry=self._retry)

    def delete(self, name: str) -> None:
        """Delete an object, unless it does not exist."""
        try:
            with _api_errors():
                self._bucket.delete_blob(name, retry=self._retry)
        except ApiError as error:
            if not error.missing:
                raise


@contextmanager
def _api_errors() -> Iterator[None]:
    """Turn each error of Google's library into an ApiError."""
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except CredentialsError as missing:
        raise ApiError("unauthenticated", str(missing)) from None
    except (GoogleAPICallError, GoogleAuthError, RequestException, RetryError) as raised:
        error: Any = raised.cause if isinstance(raised, RetryError) else raised
        if isinstance(error, GoogleAPICallError):
            raise http_error(int(error.code or 0), getattr(error.response, "content", b"")) from None
        if isinstance(error, GoogleAuthError) and not is_of_network(error):
            raise ApiError("unauthenticated", str(error)) from None
        raise ApiError("unreachable", f"cannot connect to the storage API: {error}") from None
