"""A bucket of S3 in moto, an emulator of AWS that others keep. It checks no signature."""

from __future__ import annotations

import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from gpu_ci.mailbox.objects import ObjectsError, S3Objects, Signed

BUCKET, REGION = "acme-mailbox", "eu-west-1"


@contextmanager
def s3() -> Iterator[S3Objects]:
    """Serve a bucket, and let botocore use it until the end of the block."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
        send("POST", Signed(f"http://{host}:{port}/moto-api/reset"))  # all servers of a process have the same buckets
        objects = S3Objects(BUCKET, REGION)
        objects._s3().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield objects
    server.stop()


def send(method: str, signed: Signed, body: bytes | None = None) -> tuple[int, bytes]:
    """Send a signed request, as a machine does. Return the status and the content."""
    # moto drops a body of the type that urllib sends by default.
    headers = {"Content-Type": "application/octet-stream", **signed.headers}
    request = urllib.request.Request(signed.url, body, headers, method=method)  # noqa: S310 - the test's own URL
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class Faulty:
    """Objects whose calls fail at one call: before it is sent, or after it, so that only the answer is lost."""

    def __init__(self, objects: S3Objects, at: int, *, is_sent: bool) -> None:
        self._objects, self._left, self._is_sent = objects, at, is_sent
        self.calls: list[str] = []

    def _call(self, name: str, call: object, *args: object, **values: object) -> object:
        self.calls.append(name)
        self._left -= 1
        result = call(*args, **values) if self._left or self._is_sent else None  # type: ignore[operator]
        if not self._left:
            raise ObjectsError(f"{name}: the answer was lost", is_temporary=True)
        return result

    def __getattr__(self, name: str) -> object:
        return lambda *args, **values: self._call(name, getattr(self._objects, name), *args, **values)


def boot_of(user_data: str) -> tuple[Signed, str]:
    """Return the request of the boot document in a boot script, and the document's SHA-256."""
    found = dict(re.findall(r"^(BOOT_\w+)='(.*)'$", user_data, re.MULTILINE))
    return Signed(found["BOOT_URL"]), found["BOOT_SHA256"]
