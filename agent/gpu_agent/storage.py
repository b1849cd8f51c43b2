"""Objects of Cloud Storage, read and written with the machine's identity (JSON API v1)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from . import http
from .clock import Clock
from .outcomes import AgentExit
from .retry import RetryableError, retry_after_sec, retry_until

DIGEST = "sha256"
"""The key of an object's digest in its custom metadata."""
# "a multiple of 256 KiB", and 8 MiB is recommended (cloud.google.com/storage/docs/performing-resumable-uploads).
_CHUNK_BYTES = 8 * 2**20
_ATTEMPT_SEC = 60.0
_BOUNDARY = "gpu-ci-object"
_RANGE = re.compile(r"bytes=0-(\d+)")


class GoogleBucket:
    """One bucket. Each method repeats a request that fails, until the deadline.

    Raises AgentExit: no-source, storage-refused, or storage-unreachable.
    """

    def __init__(self, base: str, name: str, token: Callable[[float], str], clock: Clock) -> None:
        """Create the bucket. `token` returns an access token before a deadline."""
        self._base, self._name, self._token, self._clock = base.rstrip("/"), name, token, clock

    def read(self, name: str, sink: BinaryIO, deadline: float, limit_bytes: int) -> None:
        """Write the content of an object into `sink`. An attempt that fails leaves nothing in it."""
        url = f"{self._base}/storage/v1/b/{quote(self._name, safe='')}/o/{quote(name, safe='')}?alt=media"

        def attempt() -> None:
            sink.seek(0)
            sink.truncate()
            try:
                http.download(
                    url,
                    sink,
                    headers=self._authorization(deadline),
                    deadline=deadline,
                    clock=self._clock,
                    limit_bytes=limit_bytes,
                )
            except http.Unreachable as error:
                if http.TOO_LONG in error.reason:
                    raise AgentExit("wrong-source", f"gs://{self._name}/{name}: {error.reason}") from None
                if error.status in (401, 403, 404):
                    raise AgentExit("no-source", f"gs://{self._name}/{name}: {error.reason}") from None
                raise _unreachable(str(error)) from None

        retry_until(attempt, deadline=deadline, clock=self._clock, wait=_pause)

    def write(self, name: str, content: bytes, sha256: str, deadline: float) -> None:
        """Create an object that does not exist yet."""
        head = json.dumps({"name": name, "metadata": {DIGEST: sha256}}).encode()
        body = b"\r\n".join(
            (
                f"--{_BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n".encode(),
                head,
                f"--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n".encode(),
                content,
                f"--{_BOUNDARY}--\r\n".encode(),
            )
        )
        kind = {"Content-Type": f"multipart/related; boundary={_BOUNDARY}"}
        self._repeat(lambda: self._created("POST", self._upload_url("multipart", name), kind, body, deadline), deadline)

    def write_file(self, name: str, path: Path, sha256: str, deadline: float) -> None:
        """Create an object from a file, which may be larger than the memory."""
        size = path.stat().st_size
        head = json.dumps({"name": name, "metadata": {DIGEST: sha256}}).encode()
        kind = {"Content-Type": "application/json; charset=UTF-8", "X-Upload-Content-Length": str(size)}
        sessions: list[str] = []

        def start() -> None:
            answer = self._created("POST", self._upload_url("resumable", name), kind, head, deadline)
            if answer is not None and not answer.headers.get("location"):
                raise _unreachable("Cloud Storage started no upload")
            sessions.append(answer.headers["location"] if answer is not None else "")

        self._repeat(start, deadline)
        if not sessions[0]:
            return  # the object exists
        position = 0
        with path.open("rb") as file:

            def send() -> bool:
                """Send the next chunk. Return True after the last one."""
                nonlocal position
                if position < 0:
                    # An earlier request failed, so the number of bytes that arrived is unknown.
                    answer = self._ask("PUT", sessions[0], {"Content-Range": f"bytes */{size}"}, b"", deadline)
                else:
                    file.seek(position)
                    chunk = file.read(_CHUNK_BYTES)
                    end = position + len(chunk) - 1
                    position = -1
                    place = {"Content-Range": f"bytes {end - len(chunk) + 1}-{end}/{size}"}
                    answer = self._ask("PUT", sessions[0], place, chunk, deadline)
                if answer.status in (200, 201):
                    return True
                if answer.status != 308:
                    raise self._refusal(answer, name)
                found = _RANGE.fullmatch(answer.headers.get("range", ""))
                position = int(found[1]) + 1 if found else 0
                return False

            while not self._repeat(send, deadline):
                pass

    def _repeat(self, attempt: Callable[[], Any], deadline: float) -> Any:
        return retry_until(attempt, deadline=deadline, clock=self._clock, wait=_pause)

    def _upload_url(self, kind: str, name: str) -> str:
        # The names are unique to this machine. So an existing object is one that an earlier attempt created, whose
        # answer was lost.
        query = f"uploadType={kind}&name={quote(name, safe='')}&ifGenerationMatch=0"
        return f"{self._base}/upload/storage/v1/b/{quote(self._name, safe='')}/o?{query}"

    def _created(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> http.Answer | None:
        """Send the request, and return the answer. Return None if the object exists."""
        answer = self._ask(method, url, headers, body, deadline)
        if answer.status == 412:
            return None
        if answer.status >= 300:
            raise self._refusal(answer, "")
        return answer

    def _refusal(self, answer: http.Answer, name: str) -> Exception:
        text = f"gs://{self._name}/{name}: Cloud Storage answered {answer.status}"
        if answer.status in (408, 429) or answer.status >= 500:
            return RetryableError(AgentExit("storage-unreachable", text), retry_after_sec(answer, self._clock))
        return AgentExit("storage-refused", text)

    def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> http.Answer:
        until = min(deadline, self._clock.now() + _ATTEMPT_SEC)
        given = {**self._authorization(deadline), **headers}
        try:
            return http.ask(method, url, headers=given, body=body, deadline=until, clock=self._clock)
        except http.Unreachable as error:
            raise _unreachable(str(error)) from None

    def _authorization(self, deadline: float) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token(deadline)}"}


def _unreachable(text: str) -> RetryableError:
    return RetryableError(AgentExit("storage-unreachable", text))


def _pause(attempts: int) -> float:
    """Return a short pause: the output of a command waits for these requests."""
    return float(min(0.5 * 2 ** (attempts - 1), 8.0))
