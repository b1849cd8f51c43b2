"""The objects of a bucket of Cloud Storage, over its JSON API, and signed URLs of its XML API.

google-auth makes the requests and the signatures. google-cloud-storage could do both, but the runner manager would need
it for nothing else. A test compares the signed URLs with those of google-cloud-storage.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ..gcp.gate.google_service import PLATFORM, CredentialsError, credentials
from .objects import ATTEMPTS, CONNECT_SEC, MOST_BYTES, READ_SEC, Method, ObjectsError, Signed, Stored, problem_of

ENDPOINT = "GOOGLE_STORAGE_CUSTOM_ENDPOINT"
"""The environment variable with another address of Cloud Storage, including storage/v1/."""
_ALGORITHM = "GOOG4-RSA-SHA256"
_ONLY_NEW = {"x-goog-if-generation-match": "0"}


class GoogleObjects:
    """The objects of a bucket of Cloud Storage. Implements Objects.

    Credentials: those of the smoke gate (gcp/gate/google_service.py). Permissions: storage.objects.get, create, delete
    and list. Without list, Google answers 403 and not 404 for a missing object. An account without a key of its own,
    such as Cloud Run's, needs iam.serviceAccounts.signBlob for itself, and each signature is a request to IAM.

    A URL that IAM has signed may end after 12 hours (cloud.google.com/storage/docs/access-control/signed-urls).
    """

    def __init__(self, bucket: str, unix: Callable[[], float] = time.time) -> None:
        """Create the objects. `unix` is the clock of the signatures. No request is sent yet."""
        self._bucket, self._unix = bucket, unix
        address = os.environ.get(ENDPOINT, "").rstrip("/").removesuffix("/storage/v1")
        self._address = address or "https://storage.googleapis.com"
        self._credentials: Any = None
        self._threads = threading.local()  # a session of requests is not thread-safe

    def read(self, key: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        return self._send("GET", self._url(key), key, {"alt": "media"}, none_if=404, most_bytes=most_bytes)

    def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
        return self._write(key, data, {"ifGenerationMatch": "0"} if only_new else {}) is not None

    def stored(self, key: str) -> Stored | None:
        while True:
            dates: list[str] = []
            text = self._send("GET", self._url(key), key, {"fields": "generation,updated"}, none_if=404, dates=dates)
            if text is None:
                return None
            generation, updated = self._fields(key, text, "generation", "updated")
            if not (now := parsedate_tz(dates[0])):
                raise self._error(key, "Google's answer has no date", is_temporary=True)
            query = {"alt": "media", "ifGenerationMatch": generation}
            content = self._send("GET", self._url(key), key, query, none_if=412)
            if content is not None:
                return Stored(content, generation, mktime_tz(now) - datetime.fromisoformat(updated).timestamp())

    def replace(self, key: str, data: bytes, version: str) -> str | None:
        text = self._write(key, data, {"ifGenerationMatch": version or "0"})
        return None if text is None else self._fields(key, text, "generation")[0]

    def _write(self, key: str, data: bytes, condition: Mapping[str, str]) -> bytes | None:
        url = f"{self._address}/upload/storage/v1/b/{quote(self._bucket, safe='')}/o"
        return self._send("POST", url, key, {"uploadType": "media", "name": key, **condition}, data, none_if=412)

    def _fields(self, key: str, text: bytes, *names: str) -> list[str]:
        """Return fields of an object's description."""
        try:
            content = json.loads(text)
            return [str(content[name]) for name in names]
        except (ValueError, KeyError, TypeError):
            raise self._error(key, "Google's answer is not an object", is_temporary=True) from None

    def delete(self, key: str) -> None:
        self._send("DELETE", self._url(key), key, {}, none_if=404)

    def names(self, prefix: str) -> list[str]:
        return list(self.times(prefix))

    def times(self, prefix: str) -> dict[str, float]:
        found: dict[str, float] = {}
        page: dict[str, str] = {}
        while True:
            query = {"prefix": prefix, "fields": "items(name,timeCreated),nextPageToken", **page}
            text = self._send("GET", self._url(), prefix, query)
            try:
                content = json.loads(text or b"")
                for each in content.get("items", ()):
                    found[str(each["name"])] = datetime.fromisoformat(each["timeCreated"]).timestamp()
            except (ValueError, KeyError, TypeError, AttributeError):
                raise self._error(prefix, "Google's answer is not a list of objects", is_temporary=True) from None
            if "nextPageToken" not in content:
                return found
            page = {"pageToken": str(content["nextPageToken"])}

    def signed(self, method: Method, key: str, within_sec: int, *, only_new: bool = False) -> Signed:
        # cloud.google.com/storage/docs/authentication/signatures and .../canonical-requests
        if problem := problem_of(within_sec):
            raise ValueError(problem)
        email, sign = self._signer(key)
        at = datetime.fromtimestamp(self._unix(), UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{at[:8]}/auto/storage/goog4_request"
        extra = dict(_ONLY_NEW) if only_new else {}
        headers = {"host": urlsplit(self._address).netloc, **extra}
        query = {
            "X-Goog-Algorithm": _ALGORITHM,
            "X-Goog-Credential": f"{email}/{scope}",
            "X-Goog-Date": at,
            "X-Goog-Expires": within_sec,
            "X-Goog-SignedHeaders": ";".join(headers),
        }
        path, text = f"/{self._bucket}/{quote(key)}", urlencode(query, quote_via=quote, safe="")
        lines = [f"{name}:{value}\n" for name, value in headers.items()]
        request = "\n".join([method, path, text, "".join(lines), ";".join(headers), "UNSIGNED-PAYLOAD"])
        digest = hashlib.sha256(request.encode()).hexdigest()
        signature = sign("\n".join([_ALGORITHM, at, scope, digest]).encode())
        return Signed(f"{self._address}{path}?{text}&X-Goog-Signature={signature.hex()}", extra)

    def __str__(self) -> str:
        return f"gs://{self._bucket}"

    def _url(self, key: str = "") -> str:
        objects = f"{self._address}/storage/v1/b/{quote(self._bucket, safe='')}/o"
        return f"{objects}/{quote(key, safe='')}" if key else objects

    def _send(
        self,
        method: str,
        url: str,
        key: str,
        query: Mapping[str, str],
        data: bytes = b"",
        *,
        none_if: int = 0,
        most_bytes: int = 16 * MOST_BYTES,
        dates: list[str] | None = None,
    ) -> bytes | None:
        """Return the content of the answer, or None for this status. Append the answer's date to `dates`."""
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        values: dict[str, Any] = {"params": query, "data": data, "timeout": (CONNECT_SEC, READ_SEC)}
        try:
            with self._session(key).request(method, url, stream=True, allow_redirects=False, **values) as answer:
                status = answer.status_code
                content = bytes(answer.raw.read(most_bytes, decode_content=True))
                if dates is not None:
                    dates.append(answer.headers.get("Date", ""))
        except (GoogleAuthError, RequestException, HTTPError, OSError) as error:
            text = f"Cloud Storage could not be reached: {type(error).__name__}"
            raise self._error(key, text, is_temporary=True) from None
        if status < 300:
            return content
        if status == none_if:
            return None
        is_temporary = status in (401, 408, 409, 429) or status >= 500
        raise self._error(key, f"Google answered {status}: {_reason(content)}", is_temporary=is_temporary)

    def _session(self, key: str) -> Any:
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        if not hasattr(self._threads, "session"):
            session: Any = AuthorizedSession(self._found(key))  # type: ignore[no-untyped-call]
            # All requests may be repeated. raise_on_status=False returns the last answer.
            retry = Retry(
                ATTEMPTS - 1, status_forcelist=(500, 502, 503, 504), allowed_methods=None, raise_on_status=False
            )
            session.mount(self._address, HTTPAdapter(max_retries=retry))
            self._threads.session = session
        return self._threads.session

    def _found(self, key: str) -> Any:
        try:
            self._credentials = self._credentials or credentials(os.environ, PLATFORM)
        except CredentialsError as error:
            raise self._error(key, str(error), is_temporary=True) from None
        return self._credentials

    def _signer(self, key: str) -> tuple[str, Callable[[bytes], bytes]]:
        """Return the account of the signatures, and the function that signs with the account's key or with IAM."""
        from google.auth.credentials import Signing
        from google.auth.exceptions import GoogleAuthError
        from google.auth.iam import Signer
        from google.auth.transport.requests import Request

        found, request = self._found(key), Request()
        sign: Any = found
        try:
            if isinstance(found, Signing):
                email, sign = sign.signer_email, sign.sign_bytes
            else:
                if not found.valid:
                    found.refresh(request)  # this also reads the email of Cloud Run's account
                email = getattr(found, "service_account_email", "")
                signer: Any = Signer(request, found, email)  # type: ignore[no-untyped-call]
                sign = signer.sign
        except GoogleAuthError as error:
            raise self._error(key, f"no signature: {error}", is_temporary=True) from None
        if not email:
            text = "these credentials have no service account, so they cannot sign a URL; impersonate an account"
            raise self._error(key, text, is_temporary=False)

        def signature(message: bytes) -> bytes:
            try:
                return bytes(sign(message))
            except GoogleAuthError as error:
                raise self._error(key, f"no signature: {error}", is_temporary=True) from None

        return str(email), signature

    def _error(self, key: str, text: str, *, is_temporary: bool) -> ObjectsError:
        return ObjectsError(f"{self}/{key}: {text}", is_temporary=is_temporary)


def _reason(content: bytes) -> str:
    """Return the message of an error of the JSON API, or ""."""
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""
