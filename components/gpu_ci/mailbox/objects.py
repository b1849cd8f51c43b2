"""The objects of a bucket, and URLs with which a machine without credentials reads or writes one of them.

google_objects.py has the objects of Cloud Storage. It is apart, because components of AWS import nothing of Google.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol

MOST_SIGNED_SEC = 7 * 24 * 3600
"""The longest life of a signed URL, in seconds: the limit of both clouds for signature version 4."""
MOST_BYTES = 1_048_576
# A call takes at most 20 s (ports.Supplier): two attempts of this time each.
CONNECT_SEC, READ_SEC, ATTEMPTS = 3.0, 6.0, 2

Method = Literal["GET", "PUT"]


@dataclass(frozen=True)
class Signed:
    """A request that anyone may send who has it. It is a secret until it expires."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that the request must have. They are signed, so other values are refused."""


@dataclass(frozen=True)
class Stored:
    """An object, with the version that was read."""

    content: bytes
    version: str
    age_sec: float
    """Seconds since the object was written, from two times of the cloud's clock."""


class ObjectsError(Exception):
    """A request was not carried out. The text names the object and contains no secret.

    `is_temporary` is True if the same request may succeed later.
    """

    def __init__(self, message: str, *, is_temporary: bool) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class Objects(Protocol):
    """The objects of one bucket. Several threads may use it. Each method raises ObjectsError, within 20 seconds."""

    def read(self, key: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """Return the first bytes of an object, or None if it is missing. A machine may have written a large one."""

    def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
        """Write an object. With `only_new`, return False if it exists; it is not changed then.

        A lost answer is repeated. So False may also mean that this call has written the object.
        """

    def stored(self, key: str) -> Stored | None:
        """Return an object with its version, or None if it is missing."""

    def replace(self, key: str, data: bytes, version: str) -> str | None:
        """Replace this version of an object, or create the object for "". Return the new version.

        Return None if the object has another version. A lost answer is repeated, so this call may have written it.
        Equal contents may have equal versions, so each write needs other data.
        """

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is not an error."""

    def names(self, prefix: str) -> list[str]:
        """Return the keys of all objects that begin with the prefix, in alphabetical order."""

    def times(self, prefix: str) -> dict[str, float]:
        """Return the same keys, each with the time of its last write, in seconds since 1970 by the cloud's clock."""

    def signed(self, method: Method, key: str, within_sec: int, *, only_new: bool = False) -> Signed:
        """Return a request for one object that is valid for `within_sec` seconds, at most MOST_SIGNED_SEC.

        With `only_new`, a PUT of an existing object is refused with status 412. The request ends earlier if the
        credentials that signed it expire or lose their permission. Signing needs no permission of its own.
        """


def problem_of(within_sec: int) -> str:
    """Return what is wrong with the life of a signed URL, or ""."""
    if 1 <= within_sec <= MOST_SIGNED_SEC:
        return ""
    return f"a signed URL is valid for 1 to {MOST_SIGNED_SEC} seconds, and not for {within_sec}"


class S3Objects:
    """The objects of a bucket of Amazon S3. Implements Objects.

    Credentials and endpoint are botocore's: its chain of credentials, AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL.
    Permissions: s3:GetObject, s3:PutObject and s3:DeleteObject for the objects, s3:ListBucket for the bucket. Without
    s3:ListBucket, S3 answers 403 and not 404 for a missing object.

    A URL that temporary credentials have signed ends with them. A role of an instance, a task or a pod has them for one
    to six hours, whatever `within_sec` is (docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html).
    """

    def __init__(self, bucket: str, region: str = "") -> None:
        """Create the objects. `region` is the bucket's, by default the region of botocore's configuration.

        No request is sent yet.
        """
        self._bucket, self._region = bucket, region
        self._client: Any = None
        self._lock = threading.Lock()

    def read(self, key: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        def get(s3: Any) -> bytes:
            # The connection may break while the content is read.
            with s3.get_object(Bucket=self._bucket, Key=key)["Body"] as body:
                return bytes(body.read(most_bytes))

        found: bytes | None = self._run(key, get)
        return found

    def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
        values = {"Bucket": self._bucket, "Key": key, "Body": data, **_condition(only_new)}
        return self._run(key, lambda s3: s3.put_object(**values)) is not None

    def stored(self, key: str) -> Stored | None:
        def get(s3: Any) -> Stored:
            answer = s3.get_object(Bucket=self._bucket, Key=key)
            now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
            with answer["Body"] as body:
                return Stored(body.read(), answer["ETag"], (now - answer["LastModified"]).total_seconds())

        found: Stored | None = self._run(key, get)
        return found

    def replace(self, key: str, data: bytes, version: str) -> str | None:
        condition = {"IfMatch": version} if version else _condition(only_new=True)
        answer = self._run(key, lambda s3: s3.put_object(Bucket=self._bucket, Key=key, Body=data, **condition))
        return None if answer is None else str(answer["ETag"])

    def delete(self, key: str) -> None:
        self._run(key, lambda s3: s3.delete_object(Bucket=self._bucket, Key=key))

    def names(self, prefix: str) -> list[str]:
        return list(self.times(prefix))

    def times(self, prefix: str) -> dict[str, float]:
        def listed(s3: Any) -> dict[str, float]:
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            found = (each for page in pages for each in page.get("Contents", ()))
            return {str(each["Key"]): each["LastModified"].timestamp() for each in found}

        return dict(self._run(prefix, listed))

    def signed(self, method: Method, key: str, within_sec: int, *, only_new: bool = False) -> Signed:
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

        if problem := problem_of(within_sec):
            raise ValueError(problem)
        operation = "get_object" if method == "GET" else "put_object"
        values = {"Bucket": self._bucket, "Key": key, **_condition(only_new)}
        try:
            url = self._s3().generate_presigned_url(operation, values, ExpiresIn=within_sec, HttpMethod=method)
        except BotoCoreError as error:
            raise self._error(key, str(error), is_temporary=True) from None
        return Signed(url, {"If-None-Match": "*"} if only_new else {})

    def __str__(self) -> str:
        return f"s3://{self._bucket}"

    def _s3(self) -> Any:
        """Return the client. Its creation takes 0.3 s and reads the credentials, so it happens at the first use."""
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.session import get_session  # type: ignore[import-untyped]

        with self._lock:
            if self._client is None:
                config = Config(
                    signature_version="s3v4",
                    connect_timeout=CONNECT_SEC,
                    read_timeout=READ_SEC,
                    # By default, a signed URL has the host of us-east-1, which redirects to a host that is not signed.
                    # An endpoint with an IP address still has the bucket in the path.
                    s3={"addressing_style": "virtual"},
                    retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
                    # A checksum would become a part of each signed URL, and the machine would have to send it.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                )
                self._client = get_session().create_client("s3", region_name=self._region or None, config=config)
            return self._client

    def _run(self, key: str, call: Callable[[Any], Any]) -> Any:
        """Return the result of the call, or None if its condition is not met or its object is missing."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return call(self._s3())
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            if status == 412 or code == "NoSuchKey":
                return None
            # 409 is ConditionalRequestConflict: another write of the same object has not ended yet.
            is_temporary = status in (0, 401, 408, 409, 429) or status >= 500 or code == "ExpiredToken"
            text = f"S3 answered {status} {code}: {error.response.get('Error', {}).get('Message', '')}"
            raise self._error(key, text, is_temporary=is_temporary) from None
        except (BotoCoreError, OSError) as error:
            raise self._error(key, f"S3 could not be reached: {error}", is_temporary=True) from None

    def _error(self, key: str, text: str, *, is_temporary: bool) -> ObjectsError:
        return ObjectsError(f"{self}/{key}: {text}", is_temporary=is_temporary)


def _condition(only_new: bool) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if only_new else {}
