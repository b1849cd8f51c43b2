"""Runner scale sets: one for each pool, whose messages name the runs with new jobs.

A message says only which run to read. The sweep reads its jobs from the REST API, and from time to time all
repositories, which finds the jobs of lost messages. GitHub publishes no description of this API: the requests are those
of actions/scaleset@6ce0259 (client.go, session_client.go, types.go).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import jwt

from ..decision.jobs import pools_for
from ..model import Job, Pool, RunKey
from ..ports import Refused, Unavailable
from . import payloads
from .app_token import App
from .rest_client import Answer, Clocks, FailedAnswer, RestClient, checked_address, read_answer, refusal

_SETS = "runnerscalesets"
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
# GitHub answers a request for a message after about 50 s.
_MESSAGE_TIMEOUT = httpx2.Timeout(90.0, connect=10.0)
_RENEW_BEFORE_SEC = 60.0
# After a process was killed, GitHub refuses a new session for about a minute, and sometimes for hours.
_PAUSE_SEC = 30.0
_NEW_JOBS = ("JobAvailable", "JobAssigned")
_OF_JOBS = (*_NEW_JOBS, "JobStarted", "JobCompleted")


@dataclass
class _Service:
    """GitHub's Actions service, and the token of the organization there."""

    url: str
    token: str = field(repr=False)
    ends: float


@dataclass
class _Set:
    """The scale set of a pool, and the session with its messages."""

    pool: Pool
    name: str
    id: int | None = None
    session: str = ""
    """The id of the session; empty without one."""
    queue: str = ""
    token: str = field(default="", repr=False)
    """The token of the queue."""
    last: int = 0
    """The last acknowledged message."""
    problem: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while a session begins or ends."""


class Hints:
    """What the messages have said since one sweep has asked. Threads share it."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = pools
        self._lock = threading.Lock()
        self._runs: set[RunKey] = set()
        self._lost = False
        self.new = False
        """True if a message has named a new job."""

    def add(self, runs: Iterable[RunKey], *, new: bool = False, lost: bool = False) -> None:
        """Note runs to read. With `lost`, messages may be lost, and all repositories are to be read."""
        with self._lock:
            self._runs |= set(runs)
            self._lost |= lost
            self.new |= new

    def take(self) -> tuple[set[RunKey], bool]:
        """Return the runs, and True if messages may be lost. The next call returns what comes later."""
        with self._lock:
            taken = self._runs, self._lost
            self._runs, self._lost, self.new = set(), False, False
            return taken

    def serves(self, job: Job) -> bool:
        """Return True if a scale set would get the job."""
        return bool(pools_for(self._pools, job))


class ScaleSets:
    """The scale sets of the pools of one manager, each with a thread that waits for messages.

    Args:
        url: The address of GitHub's API.
        app: The manager's App, its installation and its key file.
        organization: The organization's login.
        manager: The name of the manager. The scale set of a pool is named MANAGER-POOL.
        pools: The pools of the manager.
        pause_sec: Seconds between two attempts after an error.
        clocks, transport: Replaced in tests.
    """

    def __init__(
        self,
        url: str,
        app: App,
        organization: str,
        manager: str,
        pools: Sequence[Pool],
        *,
        pause_sec: float = _PAUSE_SEC,
        clocks: Clocks | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        permissions = {"organization_self_hosted_runners": "write"}
        self._client = RestClient(url, app, permissions, clocks, transport)
        self._url, self._organization, self._manager, self._pools = url.rstrip("/"), organization, manager, pools
        self._pause_sec = pause_sec
        connections = httpx2.Limits(max_connections=len(pools) + 10)
        self._http = httpx2.Client(timeout=_TIMEOUT, transport=transport, limits=connections)
        self._sets = {pool.name: _Set(pool, f"{manager}-{pool.name}") for pool in pools}
        self._service: _Service | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._hints: list[Hints] = []

    def hints(self) -> Hints:
        """Return the hints for one sweep. Call it before `start`."""
        self._hints.append(Hints(self._pools))
        return self._hints[-1]

    def start(self) -> None:
        """Begin to wait for messages."""
        for each in self._sets.values():
            threading.Thread(target=self._listen, args=(each,), name=f"scale set {each.name}", daemon=True).start()

    @property
    def problems(self) -> list[str]:
        """One line for each scale set without messages."""
        return [f"the runner scale set {each.name}: {each.problem}" for each in self._sets.values() if each.problem]

    def close(self) -> None:
        """End the sessions, so that the next manager can begin its own. The scale sets and their jobs stay."""
        self._stopped.set()
        all(map(self._leave, self._sets.values()))  # none after the first failure
        self._http.close()
        self._client.close()

    def new_runner(self, pool: Pool, name: str, work_folder: str) -> Answer:
        """Register a runner of the pool's scale set. The answer is 409 if the name is taken."""
        each = self._sets[pool.name]
        if each.id is None:
            raise Unavailable(f"the runner scale set {each.name} does not exist yet")
        path, body = f"{_SETS}/{each.id}/generatejitconfig", {"name": name, "workFolder": work_folder}
        answer = self._ask("POST", path, body, expected=(200, 404, 409))
        if answer.status == 404:
            each.id, each.session = None, ""
            raise Unavailable(f"the runner scale set {each.name} is gone, and is created again")
        return answer

    def _listen(self, each: _Set) -> None:
        while not self._stopped.is_set():
            try:
                with each.lock:
                    if not each.session and not self._stopped.is_set():
                        self._open(each)
                self._receive(each)
                each.problem = ""
                continue
            except Unavailable as error:
                each.problem = str(error)
            except Refused as error:
                each.problem = str(error)
                self._leave(each)
            except Exception as error:  # its text may contain a token
                each.problem = type(error).__name__
            self._stopped.wait(self._pause_sec)

    def _leave(self, each: _Set) -> bool:
        """End the session, because GitHub refuses another one as long as it exists. Return False if that failed."""
        with each.lock:
            session, each.session = each.session, ""
            try:
                if session:
                    self._ask("DELETE", f"{_SETS}/{each.id}/sessions/{session}", expected=(204,))
            except (Unavailable, Refused):
                return False  # it ends by itself
            return True

    def _open(self, each: _Set) -> None:
        """Find or create the scale set, and begin a session."""
        each.id = self._id_of(each)
        body = {"ownerName": self._manager}
        answer = self._ask("POST", f"{_SETS}/{each.id}/sessions", body, expected=(200, 409))
        if answer.status == 409:
            raise Unavailable("another session receives its messages, such as that of a manager that was killed")
        self._use(each, answer)
        each.last, each.problem = 0, ""
        self._add((), lost=True)

    @staticmethod
    def _use(each: _Set, answer: Answer) -> None:
        fields = ("messageQueueAccessToken", "messageQueueUrl", "sessionId")
        each.token, url, each.session = payloads.read("a session", lambda: [str(answer.value[name]) for name in fields])
        each.queue = checked_address(url)

    def _id_of(self, each: _Set) -> int:
        """Return the id of the scale set with this name, which is created or gets other labels if necessary."""
        group = self._only("runnergroups/", groupName=each.pool.runner_group)
        if group is None:
            raise Refused(f"{self._organization} has no runner group named {each.pool.runner_group}")
        labels = [{"type": "System", "name": label} for label in sorted(each.pool.labels)]
        wanted = {"name": each.name, "runnerGroupId": group["id"], "labels": labels}
        found = self._only(_SETS, runnerGroupId=group["id"], name=each.name)
        if found is None or _labels(found) != each.pool.labels:
            method, path = ("POST", _SETS) if found is None else ("PATCH", f"{_SETS}/{found['id']}")
            found = self._ask(method, path, wanted).value
        if payloads.read("a scale set", lambda: _labels(found)) != each.pool.labels:
            raise Refused(
                "GitHub ignores its labels; an Enterprise Server needs version 3.18 and the feature "
                "DistributedTask.AllowRunnerScaleSetCustomLabels, or demand: sweep"
            )
        return payloads.read("a scale set", lambda: int(found["id"]))

    def _only(self, path: str, **query: Any) -> Any:
        """Return the only element of a list, or None."""
        answer = self._ask("GET", f"{path}?{urlencode(query)}")
        return payloads.read(f"a list of {path}", lambda: next(iter(answer.value["value"]), None))

    def _receive(self, each: _Set) -> None:
        """Wait for one message, note what it says, and then acknowledge it. Without that, it comes again."""
        # A job that is queued while a set has no capacity is not offered to it later, so the header is never 0.
        headers = {"X-ScaleSetMaxCapacity": str(each.pool.max), "Accept": "application/json; api-version=6.0-preview"}
        queue = httpx2.URL(each.queue)
        url = queue.copy_merge_params({"lastMessageId": each.last}) if each.last else queue
        answer = self._exchange("GET", url, each.token, headers=headers, timeout=_MESSAGE_TIMEOUT)
        if answer.status == 200:
            number = payloads.read("a message", lambda: int(answer.value["messageId"]))
            if offered := self._note(answer.value):
                url = _url(self._connect(), f"{_SETS}/{each.id}/acquirejobs")
                self._exchange("POST", url, each.token, offered)
            answer = self._exchange("DELETE", queue.copy_with(path=f"{queue.path}/{number}"), each.token)
            each.last = number if answer.status == 204 else each.last
        if answer.status == 401:
            self._use(each, self._ask("PATCH", f"{_SETS}/{each.id}/sessions/{each.session}"))
        elif answer.status not in (202, 204):
            raise refusal("GET", "its messages", answer)

    def _note(self, value: Mapping[str, Any]) -> list[int]:
        """Note what a message says. Return the jobs that it offers, as an Enterprise Server does."""
        try:
            jobs = [each for each in json.loads(value["body"] or "[]") if each["messageType"] in _OF_JOBS]
            names = [f"{each['ownerName']}/{each['repositoryName']}" for each in jobs]
            runs = [RunKey(name, int(each["workflowRunId"])) for name, each in zip(names, jobs, strict=True)]
            offered = [int(each["runnerRequestId"]) for each in jobs if each["messageType"] == "JobAvailable"]
        except (KeyError, TypeError, ValueError):
            self._add((), new=True, lost=True)
            return []
        self._add(runs, new=any(each["messageType"] in _NEW_JOBS for each in jobs))
        return offered

    def _add(self, runs: Iterable[RunKey], *, new: bool = False, lost: bool = False) -> None:
        for hints in self._hints:
            hints.add(runs, new=new, lost=lost)

    def _connect(self) -> _Service:
        """Return the Actions service with a valid token."""
        with self._lock:
            if self._service is None or self._client.unix() > self._service.ends - _RENEW_BEFORE_SEC:
                path = f"/orgs/{quote(self._organization, safe='')}/actions/runners/registration-token"
                answer = self._client.send("POST", path)
                if answer.status != 201:
                    raise refusal("POST", path, answer)
                token = payloads.read("a registration token", lambda: str(answer.value["token"]))
                path, is_server = "/actions/runner-registration", self._url.endswith("/api/v3")
                web = self._url.removesuffix("/api/v3") if is_server else self._url.replace("://api.", "://", 1)
                body = {"url": f"{web}/{self._organization}", "runner_event": "register"}
                answer = self._exchange("POST", httpx2.URL(self._url + path), token, body, scheme="RemoteAuth")
                if answer.status != 200:
                    raise refusal("POST", path, answer)
                self._service = payloads.read("a registration", lambda: _service(answer.value))
            return self._service

    def _ask(self, method: str, path: str, body: Any = None, expected: Collection[int] = (200,)) -> Answer:
        """Send a request to the service. Raises Unavailable, or Refused for another status than the expected ones."""
        service = self._connect()
        answer = self._exchange(method, _url(service, path), service.token, body)
        if answer.status == 401:
            self._service = None
            raise Unavailable(f"{method} {path}: GitHub's Actions service does not accept its token")
        if answer.status not in expected:
            raise refusal(method, path, answer)
        return answer

    def _exchange(
        self,
        method: str,
        url: httpx2.URL,
        token: str,
        body: Any = None,
        *,
        scheme: str = "Bearer",
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout = _TIMEOUT,
    ) -> Answer:
        headers = {"User-Agent": "gpu-ci-manager", **(headers or {}), "Authorization": f"{scheme} {token}"}
        try:
            response = self._http.request(method, url, json=body, headers=headers, timeout=timeout)
        except httpx2.HTTPError as error:
            raise Unavailable(f"{method} {url.path}: no answer from GitHub: {type(error).__name__}") from None
        answer = read_answer(response, token)
        if answer.status >= 500 or answer.status == 429:
            raise FailedAnswer(f"{method} {url.path}: GitHub answered {answer.status}: {answer.message}")
        return answer


def _url(service: _Service, path: str) -> httpx2.URL:
    return httpx2.URL(f"{service.url}/_apis/runtime/{path}").copy_merge_params({"api-version": "6.0-preview"})


def _labels(found: Any) -> frozenset[str]:
    return frozenset(str(each["name"]).lower() for each in found.get("labels") or ())


def _service(value: Any) -> _Service:
    token = str(value["token"])
    try:
        ends = float(jwt.decode(token, options={"verify_signature": False})["exp"])
    except jwt.PyJWTError:
        raise ValueError("token") from None
    return _Service(checked_address(str(value["url"])), token, ends)
