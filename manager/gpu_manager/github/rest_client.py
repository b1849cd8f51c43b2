"""A client for the REST API of GitHub. It sends conditional requests, returns complete lists, and obeys rate limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2

from ..model import printable
from ..ports import Refused, Unavailable
from .app_token import App, InstallationToken, Token
from .rate_limits import RateLimits

# docs.github.com, "API Versions".
_VERSION = "2022-11-28"
CONCURRENT = 10
"""The number of concurrent requests. GitHub allows 100 for all clients of the installation together."""
# GitHub itself ends a request after 10 seconds (docs.github.com, "Troubleshooting the REST API").
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_PER_PAGE = 100
_MOST_PAGES = 100
MOST_FILTERED = 1000
"""A list with a filter such as `status` has at most this many elements, and a `total_count` that may be larger
(docs.github.com/en/rest/actions/workflow-runs)."""
# After this number of server errors without another answer in between, GitHub counts as down.
_MOST_SERVER_ERRORS = 100
# A list that shrinks while its pages are read may be incomplete.
_READINGS = 3
# A JWT is issued a minute in the past, so only a clock difference of more than half a minute explains a refusal.
_SKEW_SEC = 30.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MESSAGE_CHARACTERS = 300


_Element = TypeVar("_Element")


class FailedAnswer(Unavailable):
    """GitHub's answer to this one request is not usable. Other requests may succeed."""


class Answer(NamedTuple):
    status: int
    value: Any
    """The JSON of the answer, or what the reader of the request made of it; None if there is none."""
    message: str
    """The message in the answer, without tokens."""
    more: bool = False
    """True if there is another page."""


@dataclass
class _Cached:
    token_number: int
    etag: str
    answer: Answer
    used_in: int
    """The number of the last sweep that requested the answer."""


@dataclass(frozen=True)
class Clocks:
    """The clocks, which tests replace."""

    unix: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class RestClient:
    """A client of GitHub as one installation of an App. Threads share it.

    `url` is https://api.github.com, or https://<host>/api/v3 of an Enterprise Server.
    """

    def __init__(
        self,
        url: str,
        app: App,
        permissions: dict[str, str],
        clocks: Clocks | None = None,
        transport: httpx2.BaseTransport | None = None,
        managers: int = 1,
    ) -> None:
        self._clocks = clocks or Clocks()
        self.limits = RateLimits(self._clocks.monotonic, managers)
        self._http = httpx2.Client(
            base_url=checked_address(url),
            headers={
                "Accept": "application/vnd.github+json",
                "User-Agent": "gpu-ci-manager",
                "X-GitHub-Api-Version": _VERSION,
            },
            timeout=_TIMEOUT,
            limits=httpx2.Limits(max_connections=CONCURRENT, max_keepalive_connections=CONCURRENT),
            transport=transport,
        )
        self._token = InstallationToken(app, permissions, self._make_token, self.unix, self._clocks.monotonic)
        self._cache: dict[str, _Cached] = {}
        self._sweep = 0
        self._server_errors = 0
        """The number of server errors since the last other answer."""
        self._lock = threading.Lock()
        self._github_time: tuple[float, float] | None = None
        """GitHub's time, with this process's clock at that moment."""

    def close(self) -> None:
        self._http.close()

    def unix(self) -> float:
        """Return seconds since 1970 by GitHub's clock, or by the computer's clock before GitHub's first answer."""
        known = self.github_unix()
        return self._clocks.unix() if known is None else known

    def github_unix(self) -> float | None:
        """Return seconds since 1970 by GitHub's clock, or None before GitHub's first answer."""
        if self._github_time is None:
            return None
        at, monotonic = self._github_time
        return at + self._clocks.monotonic() - monotonic

    def begin_sweep(self, keep: int = 10) -> None:
        """Drop answers that none of the last `keep` sweeps has requested, such as those about ended runs."""
        self.limits.begin_sweep()
        with self._lock:
            self._sweep += 1
            self._cache = {url: each for url, each in self._cache.items() if self._sweep - each.used_in <= keep}

    def find(self, path: str) -> dict[str, Any] | None:
        """Return the JSON object at a path, or None if it does not exist. Raises Unavailable or Refused."""
        answer = self._request("GET", path, {}, read=lambda value: _checked_object(path, value))
        if answer.status in (404, 410):
            return None
        found: dict[str, Any] = _successful(path, answer).value
        return found

    def elements(
        self, path: str, key: str, convert: Callable[[dict[str, Any]], _Element], **query: str | int
    ) -> list[_Element]:
        """Return all elements under `key` of all pages, each once, as `convert` reads them.

        Between sweeps, the results of `convert` are kept instead of GitHub's JSON, which is many times larger.

        Raises:
            Unavailable: There is no answer, or the list is incomplete.
            Refused: GitHub refuses the request.
        """
        for _ in range(_READINGS):
            found, first_total, shrank = self._read_pages(path, key, convert, query)
            if shrank:
                continue
            if len(found) < (min(first_total, MOST_FILTERED) if "status" in query else first_total):
                raise FailedAnswer(f"GET {path}: GitHub lists {len(found)} of {first_total} {key}")
            return found
        raise FailedAnswer(f"GET {path}: the list shrank {_READINGS} times while its pages were read")

    def array(self, path: str, convert: Callable[[Any], _Element], **query: str | int) -> list[_Element]:
        """Return all elements of all pages of an answer that is a JSON array, as `convert` reads them.

        Raises Unavailable or Refused.
        """
        found: list[_Element] = []
        for page in range(1, _MOST_PAGES + 1):
            pages = {"per_page": _PER_PAGE, **({"page": page} if page > 1 else {})}
            answer = self._request("GET", path, {**query, **pages}, read=_array_reader(path, convert))
            elements = _successful(path, answer).value
            found += elements
            # A kept answer may be older than the page after it.
            if not answer.more and len(elements) < _PER_PAGE:
                return found
        raise FailedAnswer(f"GET {path}: more than {_MOST_PAGES} pages")

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Send a request once that changes something, and return the answer.

        Raises Unavailable or Refused. Unavailable includes server errors (500 and above) and rate limits.
        """
        return self._request(method, path, {}, body)

    def _read_pages(
        self, path: str, key: str, convert: Callable[[dict[str, Any]], _Element], query: Mapping[str, str | int]
    ) -> tuple[list[_Element], int, bool]:
        """Return the elements, the total of the first page, and True if a later page had a smaller total.

        If an element leaves the list, another one may move from a later page to a page that was already read.
        """
        found: dict[int, _Element] = {}
        first_total = 0
        for page in range(1, _MOST_PAGES + 1):
            pages = {"per_page": _PER_PAGE, **({"page": page} if page > 1 else {})}
            answer = self._request("GET", path, {**query, **pages}, read=_page_reader(path, page, key, convert))
            total, elements = _successful(path, answer).value
            found |= elements
            first_total = total if page == 1 else first_total
            if total < first_total:
                return [], 0, True
            if not answer.more:
                return list(found.values()), first_total, False
        raise FailedAnswer(f"GET {path}: more than {_MOST_PAGES} pages")

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int],
        body: dict[str, Any] | None = None,
        read: Callable[[Any], Any] = lambda value: value,
    ) -> Answer:
        token = self._token.get()
        answer = self._with_token(method, path, query, body, token, read)
        if answer.status == 401 and self._token.drop_refused(token):
            answer = self._with_token(method, path, query, body, self._token.get(), read)
        if answer.status == 401:
            raise Unavailable(f"{method} {path}: GitHub does not accept the installation's token: {answer.message}")
        return answer

    def _with_token(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int],
        body: dict[str, Any] | None,
        token: Token,
        read: Callable[[Any], Any],
    ) -> Answer:
        url = str(httpx2.URL(path, params=dict(query)) if query else path)
        with self._lock:
            cached = self._cache.get(url) if method == "GET" else None
            if cached:
                cached.used_in = self._sweep
        usable = cached is not None and cached.token_number == token.number
        headers = {"If-None-Match": cached.etag} if cached and usable else {}
        try:
            response, answer = self._exchange(method, path, url, token.value, body, headers)
        except FailedAnswer:
            if method != "GET":
                raise
            # GitHub answers single requests with 502 (docs.github.com, "Troubleshooting the REST API").
            response, answer = self._exchange(method, path, url, token.value, body, headers)
        if answer.status == 304:
            if not (cached and usable):
                raise Unavailable(f"{method} {path}: GitHub answered 304 to a request without a condition")
            return cached.answer
        if method == "GET" and answer.status == 200:
            answer = answer._replace(value=read(answer.value))
            if etag := response.headers.get("etag"):
                with self._lock:
                    self._cache[url] = _Cached(token.number, etag, answer, self._sweep)
        return answer

    def _exchange(
        self, method: str, path: str, url: str, bearer: str, body: dict[str, Any] | None, headers: dict[str, str]
    ) -> tuple[httpx2.Response, Answer]:
        """Send one request. Return the answer unless it is a rate limit or a server error."""
        if wait_sec := self.limits.wait_sec():
            raise Unavailable(f"{method} {path}: not sent, GitHub's rate limit lasts {wait_sec:.0f} s more")
        try:
            response = self._http.request(
                method, url, json=body, headers={**headers, "Authorization": f"Bearer {bearer}"}
            )
        except httpx2.HTTPError as error:
            raise Unavailable(f"{method} {path}: no answer from GitHub: {type(error).__name__}: {error}") from None
        answer = read_answer(response, bearer)
        self._learn_time(response)
        if self.limits.record_answer(response.status_code, response.headers, answer.message, self.unix()):
            raise Unavailable(f"{method} {path}: GitHub's rate limit is reached ({answer.status}): {answer.message}")
        with self._lock:
            self._server_errors = self._server_errors + 1 if response.status_code >= 500 else 0
            is_down = self._server_errors > _MOST_SERVER_ERRORS
        if response.status_code >= 500:
            problem = f"{method} {path}: GitHub answered {answer.status}: {answer.message}"
            raise Unavailable(problem) if is_down else FailedAnswer(problem)
        return response, answer

    def _make_token(self, path: str, bearer: str, body: dict[str, Any]) -> Any:
        before = self.unix() - self._clocks.monotonic()
        _, answer = self._exchange("POST", path, path, bearer, body, {})
        if answer.status == 401 and abs(self.unix() - self._clocks.monotonic() - before) > _SKEW_SEC:
            # This computer's clock is wrong. GitHub's answer has just provided the right time.
            _, answer = self._exchange("POST", path, path, self._token.jwt(), body, {})
        if answer.status != 201:
            raise refusal("POST", path, answer)
        return answer.value

    def _learn_time(self, response: httpx2.Response) -> None:
        try:
            at = parsedate_to_datetime(response.headers["date"]).timestamp()
        except (KeyError, TypeError, ValueError):
            return
        self._github_time = (at, self._clocks.monotonic())


def _successful(path: str, answer: Answer) -> Answer:
    if answer.status != 200:
        raise refusal("GET", path, answer)
    return answer


def _checked_object(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        # A portal or proxy in front of GitHub has answered.
        raise FailedAnswer(f"GET {path}: GitHub answered 200 without a JSON object")
    return value


def _page_reader(
    path: str, page: int, key: str, convert: Callable[[dict[str, Any]], _Element]
) -> Callable[[Any], tuple[int, dict[int, _Element]]]:
    """Return a function that reads one page: the total of the list, and the page's elements by their ids."""

    def read(value: Any) -> tuple[int, dict[int, _Element]]:
        content = _checked_object(path, value)
        try:
            return int(content["total_count"]), {int(each["id"]): convert(each) for each in content[key]}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problem = f"page {page} of GitHub's answer is not a list of {key}: {type(error).__name__}: {error}"
            raise FailedAnswer(f"GET {path}: {problem}") from None

    return read


def _array_reader(path: str, convert: Callable[[Any], _Element]) -> Callable[[Any], list[_Element]]:
    """Return a function that reads one page of an array."""

    def read(value: Any) -> list[_Element]:
        try:
            return [convert(each) for each in value]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FailedAnswer(f"GET {path}: GitHub's list is malformed: {type(error).__name__}: {error}") from None

    return read


def checked_address(url: str) -> str:
    """Return the address. It must be https or this computer, because the App's token is sent to it."""
    where = urlsplit(url)
    if where.scheme != "https" and not (where.scheme == "http" and where.hostname in _LOOPBACK):
        raise Refused(f"the address of GitHub's API: expected https, got {where.scheme}://{where.hostname}")
    return url.rstrip("/")


def read_answer(response: httpx2.Response, bearer: str) -> Answer:
    """Return the answer. Its message does not contain the token."""
    try:
        value = json.loads(response.content) if response.content else None
    except (ValueError, RecursionError):
        value = None
    text = value.get("message") if isinstance(value, dict) else None
    text = text if isinstance(text, str) else "no message"
    text = printable(text.replace(bearer, "…"))
    return Answer(response.status_code, value, text[:_MESSAGE_CHARACTERS], "next" in response.links)


def refusal(method: str, path: str, answer: Answer) -> Refused:
    """Return the error of an unsuccessful answer, with a hint."""
    hints = {
        301: "; the organization or repository was renamed",
        401: "; the App's key does not belong to the App's id, or the key was deleted",
        403: "; the App lacks a permission, or its installation has not accepted it",
        404: "; it does not exist, or the App's installation has no access to it",
    }
    return Refused(f"{method} {path}: GitHub answered {answer.status}: {answer.message}{hints.get(answer.status, '')}")
