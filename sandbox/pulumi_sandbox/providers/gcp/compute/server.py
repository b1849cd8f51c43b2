"""Serve the emulated Compute Engine API and a metadata server over HTTP on the port of the workspace."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.gcp import ai_endpoints, errors
from pulumi_sandbox.providers.gcp.compute.images_api import Images
from pulumi_sandbox.providers.gcp.compute.instances_api import Instances
from pulumi_sandbox.providers.gcp.compute.operations import USER, Json, Operations
from pulumi_sandbox.providers.gcp.names import everywhere, in_zone, last, self_link
from pulumi_sandbox.providers.gcp.permissions import Caller, Needs, of_image
from pulumi_sandbox.providers.gcp.restrictions import COMPUTE, Restrictions
from pulumi_sandbox.providers.machines import local_server
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer
from pulumi_sandbox.providers.machines.metadata import (
    ROOT,
    SCOPES,
    account_of,
    is_token,
    operator,
    read,
    service_accounts,
)
from pulumi_sandbox.providers.machines.metadata import refusal as metadata_refusal
from pulumi_sandbox.providers.machines.metadata import text as text_answer

API = re.compile(r"/(?:compute/v1/)?projects/(?P<project>[^/]+)(?:/(?P<rest>.+))?")
REQUEST_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
ZERO_REQUEST_ID = "00000000-0000-0000-0000-000000000000"
MAX_RESULTS = 500
# A real aggregated list names every zone, also those without instances. These two zones represent the empty ones.
EMPTY_ZONES = ("europe-west4-a", "us-west1-b")
CONDITION = re.compile(r'\(?\s*([\w.-]+(?:\.[\w-]+)*)\s*(=|!=|eq|ne)\s*"?([^")\s]*)"?\s*\)?')
# `:` is the operator "has"; `:*` means that the field has any value (documentation of the list methods).
HAS = re.compile(r"([\w.-]+):\*")


@dataclass(frozen=True)
class Request:
    """A request to the API: the project, the query and the JSON body."""

    project: str
    query: dict[str, list[str]]
    body: Json
    account: str | None = None

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[-1]


Route = tuple[str, "re.Pattern[str]", Callable[..., Json]]


class ComputeApi:
    """The methods of the API, independent of HTTP."""

    def __init__(
        self,
        instances: Instances,
        operations: Operations,
        restrictions: Restrictions,
        engine_gone: Callable[[], bool] = lambda: False,
        caller: Caller | None = None,
    ) -> None:
        self.instances = instances
        self.operations = operations
        self.engine_gone = engine_gone
        self.caller = caller
        self.restrictions = restrictions
        self.images = Images(instances.world, instances.machines, operations)
        self._requests: dict[str, threading.Lock] = {}
        zone, name = r"zones/(?P<zone>[^/]+)", r"(?P<name>[^/]+)"
        self.routes: list[Route] = [
            (verb, re.compile(pattern), answer)
            for verb, pattern, answer in (
                ("POST", rf"{zone}/instances", self._insert),
                ("GET", rf"{zone}/instances", self._list),
                ("GET", r"aggregated/instances", self._aggregated),
                ("GET", rf"{zone}/instances/{name}", lambda r, zone, name: instances.get(r.project, zone, name)),
                ("DELETE", rf"{zone}/instances/{name}", self._changing(lambda _: instances.delete)),
                ("GET", rf"{zone}/instances/{name}/getGuestAttributes", self._guest_attributes),
                ("GET", rf"{zone}/instances/{name}/serialPort", self._serial),
                (
                    "POST",
                    rf"{zone}/instances/{name}/setMetadata",
                    self._changing(lambda r: partial(instances.set_metadata, body=r.body)),
                ),
                ("POST", rf"{zone}/instances/{name}/start", self._changing(self._start)),
                (
                    "POST",
                    rf"{zone}/instances/{name}/stop",
                    self._changing(lambda r: partial(instances.stop, discard_local_ssd=r.one("discardLocalSsd"))),
                ),
                ("GET", rf"{zone}/operations", self._operations),
                ("GET", rf"{zone}/operations/{name}", self._operation),
                ("GET", rf"(?P<place>regions/[^/]+|global)/instanceTemplates/{name}", self._template),
                ("GET", rf"global/images/{name}", lambda r, name: self.images.get(r.project, name)),
                ("POST", r"global/images", self._insert_image),
                ("GET", r"global/images", self._images),
                ("DELETE", rf"global/images/{name}", self._delete_image),
                (
                    "POST",
                    rf"global/images/{name}/setLabels",
                    lambda r, name: self.images.set_labels(r.project, name, r.body),
                ),
                ("GET", rf"global/operations/{name}", lambda r, name: self._operation(r, "", name)),
                ("GET", r"aggregated/instanceTemplates", self._templates),
            )
        ]

    def answer(
        self,
        method: str,
        path: str,
        query: dict[str, list[str]],
        body: Json,
        account: str | None = None,
        quota_project: str = "",
    ) -> Json:
        url_parts = API.fullmatch(path)
        if url_parts is None:
            raise errors.GoogleError(404, "notFound", f"The requested URL {path} was not found on this server.")
        for refusal in self.restrictions.document(COMPUTE, quota_project or url_parts["project"]):
            raise refusal
        rest = url_parts["rest"] or ""
        if {"filter", "orderBy"} <= query.keys():
            # The answer to a list of addresses (github.com/doitintl/kubeip/issues/132).
            text = "Specifying both a list filter and sort order is not currently supported."
            raise errors.invalid("orderBy", query["orderBy"][-1], text)
        USER.set(account)
        for denied in self.caller.call(account, method, url_parts["project"], rest) if self.caller else ():
            raise denied
        for verb, pattern, answer in self.routes:
            if (match := pattern.fullmatch(rest)) and verb == method:
                parts = {key: unquote(value) for key, value in match.groupdict().items()}
                return answer(Request(unquote(url_parts["project"]), query, body, account), **parts)
        raise errors.GoogleError(
            404,
            "notFound",
            f"The sandbox does not serve {method} {path}; it serves instances, images, operations and templates.",
        )

    def _insert(self, request: Request, zone: str) -> Json:
        self._require_engine()
        template = request.one("sourceInstanceTemplate")
        insert = partial(self.instances.insert, permit=partial(self._permit, request))
        return self._once(request, zone, lambda: insert(request.project, zone, request.body, template))

    def _permit(self, request: Request, needed: Needs) -> None:
        """Raise GoogleError if the account of the request lacks a permission."""
        for denied in self.caller.needs(request.account, request.project, needed) if self.caller else ():
            raise denied

    def _start(self, _: Request) -> Callable[[str, str, str], Json]:
        self._require_engine()
        return self.instances.start

    def _changing(self, method: Callable[[Request], Callable[[str, str, str], Json]]) -> Callable[..., Json]:
        """Return the answer of a method that starts an operation on an instance."""

        def answer(request: Request, zone: str, name: str) -> Json:
            change = method(request)
            return self._once(request, zone, lambda: change(request.project, zone, name))

        return answer

    def _require_engine(self) -> None:
        """Raise GoogleError if the engine has ended, so no machine boots for it."""
        if self.engine_gone():
            # A machine ends with the provider that booted it. After plain pulumi is killed, its providers listen for
            # some seconds on the same port as the providers of the next run. The kernel may give a request to either.
            # Google's clients repeat a request that fails with 503. After Ctrl-C there is no 503, because the engine
            # waits for its providers and a client that repeats would delay the end. Each pulumi-sandbox command has its
            # own port.
            raise errors.GoogleError(503, "backendError", "The service is currently unavailable.")

    def _once(self, request: Request, zone: str, start_operation: Callable[[], Json]) -> Json:
        """Return the operation of a request; a repeated request gets the same one (discovery document, `requestId`)."""
        request_id = request.one("requestId")
        if not request_id:
            return start_operation()
        if not REQUEST_ID.fullmatch(request_id) or request_id == ZERO_REQUEST_ID:
            raise errors.invalid("requestId", request_id, "Must be a valid UUID, and not the zero UUID")
        # Each request id has its own lock: stopping a machine takes seconds, and other requests must not wait.
        with self._requests.setdefault(request_id, threading.Lock()):
            if operation_of_request := self.operations.of_request(request_id, zone):
                return operation_of_request
            operation = start_operation()
            self.operations.remember(request_id, operation["name"])
        return operation

    def _list(self, request: Request, zone: str) -> Json:
        rows = apply_filter(self.instances.all(request.project, zone), request.one("filter"))
        path = f"projects/{request.project}/zones/{zone}/instances"
        return list_response("compute#instanceList", path, *page_of(rows, request))

    def _aggregated(self, request: Request) -> Json:
        """Return a page with `maxResults` instances of all zones; a zone without instances has a warning instead."""
        instances = self.instances.all(request.project)
        rows, token = page_of(apply_filter(instances, request.one("filter")), request)
        scopes = sorted({f"zones/{last(row['zone'])}" for row in instances} | {f"zones/{zone}" for zone in EMPTY_ZONES})
        by_zone: dict[str, Json] = {scope: {} for scope in scopes}
        for row in rows:
            by_zone[f"zones/{last(row['zone'])}"].setdefault("instances", []).append(row)
        for scope, scope_rows in by_zone.items():
            if not scope_rows:
                data = [{"key": "scope", "value": scope}]
                text = f"There are no results for scope '{scope}' on this page."
                scope_rows["warning"] = {"code": "NO_RESULTS_ON_PAGE", "message": text, "data": data}
        path = f"projects/{request.project}/aggregated/instances"
        return list_response("compute#instanceAggregatedList", path, by_zone, token)

    def _operations(self, request: Request, zone: str) -> Json:
        rows = apply_filter(self.operations.all(request.project, zone), request.one("filter"))
        if request.one("orderBy") == "creationTimestamp desc":  # newest first (discovery document, orderBy)
            rows.reverse()
        path = f"projects/{request.project}/zones/{zone}/operations"
        return list_response("compute#operationList", path, *page_of(rows, request))

    def _guest_attributes(self, request: Request, zone: str, name: str) -> Json:
        return self.instances.guest_attributes(
            request.project, zone, name, request.one("queryPath"), request.one("variableKey")
        )

    def _serial(self, request: Request, zone: str, name: str) -> Json:
        return self.instances.serial(request.project, zone, name, int(request.one("start", "0") or 0))

    def _operation(self, request: Request, zone: str, name: str) -> Json:
        operation = self.operations.get(zone, name)
        if operation is None:
            project, kind = request.project, "operations"
            path = in_zone(project, zone, kind, name) if zone else everywhere(project, kind, name)
            raise errors.not_found(path)
        return operation

    def _template(self, request: Request, place: str, name: str) -> Json:
        return self.instances.template(f"projects/{request.project}/{place}/instanceTemplates/{name}")

    def _images(self, request: Request) -> Json:
        rows = apply_filter(self.images.all(request.project), request.one("filter"))
        return list_response("compute#imageList", f"projects/{request.project}/global/images", *page_of(rows, request))

    def _insert_image(self, request: Request) -> Json:
        self._permit(request, of_image(request.project, request.body))
        return self._once(request, "", lambda: self.images.insert(request.project, request.body))

    def _delete_image(self, request: Request, name: str) -> Json:
        return self._once(request, "", lambda: self.images.delete(request.project, name))

    def _templates(self, request: Request) -> Json:
        scopes = {
            scope: {"instanceTemplates": [self.instances.template(path) for path in paths]}
            for scope, paths in self.images.templates(request.project).items()
        }
        path = f"projects/{request.project}/aggregated/instanceTemplates"
        return list_response("compute#instanceTemplateAggregatedList", path, scopes, "")


def page_of(rows: list[Json], request: Request) -> tuple[list[Json], str]:
    """Return the requested page and the token of the next page; the last page has an empty token."""
    max_results, token = request.one("maxResults", str(MAX_RESULTS)), request.one("pageToken")
    if not max_results.isdecimal() or int(max_results) > MAX_RESULTS:
        raise errors.invalid("maxResults", max_results, f"Must be an integer from 0 to {MAX_RESULTS}.")
    try:
        start = int(base64.urlsafe_b64decode(token)) if token else 0
    except ValueError:
        raise errors.invalid("pageToken", token, "The page token is invalid.") from None
    end = start + (int(max_results) or MAX_RESULTS)
    return rows[start:end], base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(rows) else ""


def list_response(kind: str, path: str, rows: Any, token: str) -> Json:
    """Return the response of a list method."""
    answer = {"kind": kind, "id": path, "items": rows, "selfLink": self_link(path)}
    return answer | ({"nextPageToken": token} if token else {})


def apply_filter(rows: list[Json], expression: str) -> list[Json]:
    """Filter rows by the API's filter language; only `=`, `!=`, `:*` and AND are supported."""
    if not expression.strip():
        return rows
    conditions = []
    for term in re.split(r"\s+AND\s+|(?<=\))\s*(?=\()", expression.strip()):
        if has_field := HAS.fullmatch(term.strip()):
            conditions.append((has_field[1], False, ""))
            continue
        match = CONDITION.fullmatch(term.strip())
        if match is None:
            raise errors.invalid(
                "filter", expression, "Invalid list filter expression; the sandbox supports = and != joined by AND."
            )
        conditions.append((match[1], match[2] in ("=", "eq"), match[3]))
    return [row for row in rows if all((text(row, field) == value) is equal for field, equal, value in conditions)]


def text(row: Json, field: str) -> str:
    value: Any = row
    for key in field.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def operator_metadata(project: str, caller: Caller | None = None) -> dict[str, Any]:
    """Return the metadata that google-auth reads for application default credentials: the account of the run."""
    email = (caller.email if caller else "") or operator(project)
    return {
        "instance": {"service-accounts": service_accounts(email, SCOPES)},
        "project": {"project-id": project, "numeric-project-id": "0"},
        "universe": {"universe-domain": "googleapis.com", "universeDomain": "googleapis.com"},
    }


class ComputeServer:
    """An HTTP server of the API. With `shared`, several providers may serve the same port and emulated state."""

    def __init__(self, port: int, api: ComputeApi, project: str, *, shared: bool = True) -> None:
        self._server = LocalServer(
            "compute-api",
            partial(answer_http, api, project),
            ("GET", "POST", "DELETE", "PUT", "PATCH"),
            port=port,
            shared=shared,
        )

    def close(self) -> None:
        self._server.close()


def answer_http(api: ComputeApi, project: str, handler: local_server.Request) -> Answer:
    url = urlsplit(handler.path)
    query = parse_qs(url.query)
    if url.path in ("", "/"):
        return text_answer(200, "computeMetadata/\n")
    if url.path.startswith(ROOT):
        metadata = operator_metadata(project, api.caller)
        return metadata_refusal(handler.headers) or read(metadata, url.path.removeprefix(ROOT), query)
    try:
        token = handler.headers.get("Authorization", "")
        if not is_token(token):
            raise errors.unauthenticated()
        try:
            document = json.loads(handler.content or b"{}")
        except ValueError:
            raise errors.GoogleError(400, "parseError", "Invalid JSON payload received.") from None
        if url.path.startswith(ai_endpoints.PREFIX):
            world = api.instances.world
            return as_json(200, ai_endpoints.answer(world, handler.command, url.path, query, document))
        charged = handler.headers.get("X-Goog-User-Project", "")
        return as_json(200, api.answer(handler.command, url.path, query, document, account_of(token), charged))
    except errors.GoogleError as error:
        return as_json(error.status, error.body())
    except Exception as error:  # a server returns 500 and keeps running
        problem = errors.GoogleError(500, "backendError", f"The sandbox's Compute Engine API failed: {error!r}")
        return as_json(500, problem.body())


def as_json(status: int, body: Json) -> Answer:
    # The client repeats the request over a new connection, for which the kernel may choose another provider.
    headers = {"Server": "ESF", **({"Connection": "close"} if status == 503 else {})}
    return Answer(status, json.dumps(body), "application/json; charset=UTF-8", headers)
