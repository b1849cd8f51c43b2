"""The store of a manager in the cloud: one Cloud Storage object with the memory, the last view and a lease.

Only the process with the lease writes the object, and each of its writes renews the lease. A write replaces only the
generation that this process wrote last. A process whose lease was taken over can therefore no longer change the object.

Times of different clocks are never compared. Other processes compute the age of the lease from two times of Google's
clock. The holder measures with its own clock, from before its last write until an action.

The generation is Cloud Storage's number of an object's version. Each write gives the object another generation.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import groupby
from threading import Event, Lock, Thread
from typing import Any

from gpu_ci.gcp.gate.google_service import CredentialsError, connect, credentials
from gpu_ci.machine_records import MachineRecord

from ..memory import Memory, from_json, to_json
from ..ports import InUse, Refused, Unavailable, uptime

LEASE_SEC = 60.0
"""Another process takes over the lease if the object has not been written for this time."""
RENEW_SEC = 10.0
CALL_SEC = 45.0
"""The longest time from the start of an action until its last request is sent. A request times out after 20 s
(suppliers/compute_engine/api.py), is repeated once after at most 2 s, and may take 20 s to connect.
"""
_POLL_SEC = 5.0
# cloud.google.com/storage/quotas, "Maximum rate of writes to the same object name": one a second.
_WRITE_SEC = 1.0
ENDPOINT = "GOOGLE_STORAGE_CUSTOM_ENDPOINT"
"""The complete base address, including storage/v1/, as in Terraform's Google provider."""
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TIMEOUT_SEC = 10.0
# Google's client repeats throttled and lost requests. If a lost write had succeeded, the repeated one raises Changed.
_RETRIES = 2
_MISSING, _CHANGED = 404, 412


class BucketStore:
    """A store in one object. `holder` is a name of this process that no other process ever has."""

    def __init__(
        self,
        object_: GoogleObject,
        holder: str,
        clock: Callable[[], float] = uptime,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._object = object_
        self._records = object_.apart()  # the thread that renews the lease uses the other connection
        self._holder = holder
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._closed = Event()
        self._renewer: Thread | None = None
        self._generation = 0
        self._has_lease = False
        self._renewed_at = self._written_at = float("-inf")
        self._values: dict[str, Any] = {"memory": None, "view": None}
        self._written_values: dict[str, Any] = {}

    # -- the lease ----------------------------------------------------------------------------------------------------

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> bool:
        """Take the lease and renew it from now on. Return False if `stopped` is set first. Raises Refused.

        While another process has the lease, the method waits and reports that process.
        """
        while not stopped.is_set():
            try:
                if (holder := self.take()) == self._holder:
                    self._renewer = Thread(target=self._renew_until_closed, daemon=True)
                    self._renewer.start()
                    return True
                waiting(f"{holder} has the lease")
            except Unavailable as error:
                waiting(str(error))
            stopped.wait(_POLL_SEC)
        return False

    def take(self) -> str:
        """Take the lease if it is free, and return its current holder. Raises Unavailable or Refused."""
        with self._lock:
            try:
                found = self._object.read()
            except Refused:
                # Without storage.objects.list Google answers 403 for a missing object.
                if not self._write_generation(0, dict(self._values)):
                    raise
            else:
                (holder, lease_sec), values = parsed(found) if found else (("", LEASE_SEC), dict(self._values))
                if found and holder not in ("", self._holder) and found.age_sec < lease_sec:
                    return holder
                if not self._write_generation(found.generation if found else 0, values):
                    return "another process"
                self._values = dict(values)
            self._has_lease = True
        return self._holder

    def may_act(self) -> bool:
        """Return True if an action that begins now will have sent its last request before the lease ends."""
        return self._has_lease and self._clock() - self._renewed_at < LEASE_SEC - CALL_SEC

    def renew(self) -> None:
        """Write the object again if it was not written for a while. Raises Unavailable, Refused or InUse."""
        if self._clock() - self._renewed_at >= RENEW_SEC:
            self._write(dict(self._written_values))

    def close(self) -> None:
        """Release the lease, so that another process can take it at once."""
        self._closed.set()
        if self._renewer:
            self._renewer.join()
        with self._lock:
            if not self._has_lease:
                return
            self._has_lease = False
            self._pause()
            # One attempt is enough, because the lease ends by itself.
            with suppress(Unavailable, Refused, Changed):
                self._object.write(_content(self._values, ""), self._generation)

    def _renew_until_closed(self) -> None:
        while not self._closed.wait(1.0):
            try:
                self.renew()
            except (Unavailable, Refused):
                continue
            except InUse:
                return  # may_act() is False from now on, and the next save raises it

    # -- the memory and the view --------------------------------------------------------------------------------------

    def load(self, key: str = "memory") -> Memory:
        """Return the memory of this process or of the previous one, or an empty one if it cannot be read."""
        content = self._values.get(key)
        try:
            return from_json(json.dumps(content).encode()) if content else Memory()
        except ValueError:
            return Memory()

    def save(self, memory: Memory, key: str = "memory") -> None:
        """Save the memory.

        Raises:
            Unavailable, Refused, InUse: The memory was not saved, so no action that depends on it may be carried out.
        """
        self._values[key] = json.loads(to_json(memory))
        if self._values != self._written_values or not self.may_act():
            self._write(dict(self._values))

    def publish(self, view: dict[str, Any]) -> None:
        """Save the view of the last pass. If Cloud Storage fails, the next pass writes it. Raises InUse."""
        self._values["view"] = view
        with suppress(Unavailable, Refused):
            self._write(dict(self._values))

    def published(self) -> dict[str, Any] | None:
        """Return the last view of any process, or None before the first one. Raises Unavailable or Refused."""
        found = self._object.read()
        view = parsed(found)[1]["view"] if found else None
        return None if view is None else dict(view)

    # -- the records --------------------------------------------------------------------------------------------------

    def add(self, records: Iterable[MachineRecord]) -> None:
        """Store records of machines, each once, in the object of the day on which the machine was gone.

        Raises Unavailable or Refused after the records of all other days are stored.
        """
        problems: list[Unavailable | Refused] = []
        for day, of_day in groupby(sorted(records, key=lambda each: each.gone), lambda each: each.gone.date()):
            place = self._records.sibling(f"records/{day}.jsonl")
            try:
                lines, generation = _lines_of(place)
                known = {key for key, _, _ in lines}
                new = [each.line() for each in of_day if each.key not in known]
                if new:
                    content = "".join(f"{line}\n" for line in (*(line for _, _, line in lines), *new))
                    place.write(content.encode(), generation)
            except Changed:
                problems.append(Unavailable(f"{place}: cannot be read, or another manager has changed it"))
            except (Unavailable, Refused) as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def records(self, since: datetime) -> Iterator[str]:
        """Yield the records of machines that are gone since then, each as a line of JSON.

        Raises Unavailable, or Refused for an object with other content.
        """
        day, last = since.date(), datetime.now(UTC).date()
        while day <= last:
            lines, _ = _lines_of(self._records.sibling(f"records/{day}.jsonl"))
            yield from (line for _, gone, line in lines if gone >= since)
            day += timedelta(days=1)

    def _write(self, values: dict[str, Any]) -> None:
        with self._lock:
            if not self._has_lease:
                raise InUse(f"{self._object}: another manager has taken the lease over")
            if not self._write_generation(self._generation, values):
                # The answer to a write of this process was lost, or another process has the object.
                generation = self._own_generation()
                if generation is None or not self._write_generation(generation, values):
                    self._has_lease = False
                    raise InUse(f"{self._object}: another manager has taken the lease over")

    def _own_generation(self) -> int | None:
        found = self._object.read()
        return found.generation if found and parsed(found)[0][0] == self._holder else None

    def _write_generation(self, generation: int, values: dict[str, Any]) -> bool:
        """Write the object, which renews the lease. Return False if the object has another generation."""
        self._pause()
        begun = self._clock()
        try:
            self._generation = self._object.write(_content(values, self._holder), generation)
        except Changed:
            return False
        except Unavailable:
            self._written_at = self._clock()  # Google may have written the object
            raise
        self._renewed_at, self._written_at, self._written_values = begun, self._clock(), values
        return True

    def _pause(self) -> None:
        """Wait until Google accepts the next write of the object (_WRITE_SEC)."""
        self._sleep(max(0.0, self._written_at + _WRITE_SEC - self._clock()))


def _content(values: dict[str, Any], holder: str) -> bytes:
    """Return the content of the object: the lease, and the stored values."""
    return json.dumps({"lease": {"holder": holder, "seconds": LEASE_SEC}, **values}).encode()


def parsed(found: StoredContent) -> tuple[tuple[str, float], dict[str, Any]]:
    """Return the holder and seconds of the lease, and the stored values. All are empty if no manager wrote
    the object.
    """
    try:
        value = json.loads(found.content)
        lease = (str(value["lease"]["holder"]), float(value["lease"]["seconds"]))
        memories = {key: each for key, each in value.items() if key.startswith("memory")}
        return lease, {**memories, "memory": value["memory"], "view": value["view"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return ("", LEASE_SEC), {"memory": None, "view": None}


def _lines_of(place: GoogleObject) -> tuple[list[tuple[str, datetime, str]], int]:
    """Return the key, the end and the line of each record in an object, and the generation of the object.

    Raises:
        Unavailable: There is no answer.
        Refused: The object has other content.
    """
    try:
        found = place.read()
    except Refused:
        # Google's answer about a missing object without storage.objects.list, which the manager does not have.
        found = None
    try:
        # splitlines would also split at U+2028 in the name of a job, which JSON does not escape.
        lines = found.content.decode().removesuffix("\n").split("\n") if found and found.content else []
        records = [(MachineRecord.model_validate_json(line), line) for line in lines]
    except ValueError:
        raise Refused(f"{place}: has other content than records; move it away") from None
    return [(each.key, each.gone, line) for each, line in records], found.generation if found else 0


class Changed(Exception):  # noqa: N818 - an answer
    """The object has another generation than expected, or is missing."""


@dataclass(frozen=True)
class StoredContent:
    """The content of an object, with the generation that was read."""

    content: bytes
    generation: int
    age_sec: float
    """Seconds since the object was written, from two times in Google's answers."""


class GoogleObject:
    """An object accessed with Google's client, whose package contains the API description. One thread at a time.

    Permissions: storage.objects.get to read; storage.objects.create and storage.objects.delete to write
    (cloud.google.com/storage/docs/access-control/iam-json, objects.insert).
    """

    def __init__(self, bucket: str, name: str, http: Any = None, retries: int = _RETRIES) -> None:
        self._bucket, self._name = bucket, name
        self._http, self._retries = http, retries
        self._objects_api: Any = None

    def sibling(self, name: str) -> GoogleObject:
        """Return another object in the same folder of the bucket, with the same connection. Raises Unavailable."""
        folder = self._name.rpartition("/")[0]
        other = GoogleObject(self._bucket, f"{folder}/{name}".lstrip("/"), self._http, self._retries)
        other._objects_api = self._objects()
        return other

    def apart(self) -> GoogleObject:
        """Return the same object with a connection of its own, for another thread."""
        return GoogleObject(self._bucket, self._name, self._http, self._retries)

    def read(self) -> StoredContent | None:
        """Return the object, or None if it is missing. Raises Unavailable or Refused."""
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
        """Replace this generation, or create the object for 0. Return the new generation.

        Raises Changed, Unavailable or Refused.
        """
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
