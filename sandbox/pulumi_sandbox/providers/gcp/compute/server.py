"""Serve the emulated Compute Engine API and a metadata server over HTTP on the port of the workspace."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pulumi_sandbox.providers.gcp import ai_endpoints, discovery, errors
from pulumi_sandbox.providers.gcp.compute.instances_api import Instances
from pulumi_sandbox.providers.gcp.compute.operations import USER, Operations
from pulumi_sandbox.providers.gcp.compute.requests import Json, Request
from pulumi_sandbox.providers.gcp.names import relative
from pulumi_sandbox.providers.gcp.permissions import Caller, Needs
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

# The requests that boot a machine.
BOOTS = ("instances.insert", "instances.start")


class ComputeApi:
    """The methods of the API, independent of HTTP. Their paths and permissions are those of the discovery document."""

    def __init__(
        self,
        instances: Instances,
        operations: Operations,
        engine_gone: Callable[[], bool] = lambda: False,
        caller: Caller | None = None,
    ) -> None:
        self.instances = instances
        self.operations = operations
        self.engine_gone = engine_gone
        self.caller = caller
        self._requests: dict[str, threading.Lock] = {}
        self.methods: dict[str, Callable[..., Json]] = {
            "instances.aggregatedList": instances.aggregated_list,
            "instances.delete": instances.delete,
            "instances.get": instances.get,
            "instances.getGuestAttributes": instances.guest_attributes,
            "instances.getSerialPortOutput": instances.serial,
            "instances.insert": instances.insert,
            "instances.list": instances.listed,
            "instances.setMetadata": instances.set_metadata,
            "instances.start": instances.start,
            "instances.stop": instances.stop,
            "regionInstanceTemplates.get": instances.templates.get,
            "zoneOperations.get": operations.found,
            "zoneOperations.list": operations.listed,
        }

    @cached_property
    def routes(self) -> list[tuple[str, re.Pattern[str], str]]:
        """The HTTP method, path and name of each method that the sandbox serves."""
        found = []
        for name in self.methods:
            collection, _, method = name.partition(".")
            documented = discovery.methods("compute.v1", collection)[method]
            pattern = re.sub(r"\{\w+\}", "([^/]+)", documented["path"])
            found.append((documented["httpMethod"], re.compile(rf"/(?:compute/v1/)?{pattern}"), name))
        return found

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Json, account: str | None = None
    ) -> Json:
        USER.set(account)
        for verb, pattern, name in self.routes:
            if (match := pattern.fullmatch(path)) and verb == method:
                project, *place = map(unquote, match.groups())
                permit = partial(self._permit, account, project)
                permit([(permission, relative(path)) for permission in permissions_of(name)])
                return self._run(name, Request(project, query, body, permit), place)
        raise errors.GoogleError(
            404,
            "notFound",
            f"The sandbox does not serve {method} {path}; it serves instances, operations and templates.",
        )

    def _permit(self, account: str | None, project: str, needed: Needs) -> None:
        """Raise GoogleError if the account of the request lacks a permission."""
        for denied in self.caller.needs(account, project, needed) if self.caller else ():
            raise denied

    def _run(self, name: str, request: Request, place: list[str]) -> Json:
        """Run a method; a repeated request gets the same operation (discovery document, `requestId`)."""
        if name in BOOTS and self.engine_gone():
            # A machine ends with the provider that booted it. After plain pulumi is killed, its providers listen for
            # some seconds on the same port as the providers of the next run. The kernel may give a request to either.
            # Google's clients repeat a request that fails with 503. After Ctrl-C there is no 503, because the engine
            # waits for its providers and a client that repeats would delay the end. Each pulumi-sandbox command has its
            # own port.
            raise errors.GoogleError(503, "backendError", "The service is currently unavailable.")
        answer = partial(self.methods[name], request, *place)
        request_id = request.one("requestId")
        if not request_id:
            return answer()
        zone = place[0] if name.startswith("instances.") else ""
        # Each request id has its own lock: stopping a machine takes seconds, and other requests must not wait.
        with self._requests.setdefault(request_id, threading.Lock()):
            if operation_of_request := self.operations.of_request(request_id, zone):
                return operation_of_request
            operation = answer()
            self.operations.remember(request_id, operation["name"])
        return operation


def permissions_of(name: str) -> list[str]:
    """Return the permission of a method. That of an insert depends on its body (permissions.of_machine)."""
    collection, _, method = name.removeprefix("region").partition(".")
    found = f"compute.{collection[0].lower()}{collection[1:]}.{method.replace('aggregatedList', 'list')}"
    return [] if method == "insert" else [found]


def operator_metadata(project: str, caller: Caller | None = None) -> dict[str, Any]:
    """Return the metadata that google-auth reads for application default credentials: the account of the run."""
    email = (caller.email if caller else "") or operator(project)
    return {
        "instance": {"service-accounts": service_accounts(email, SCOPES)},
        "project": {"project-id": project, "numeric-project-id": "0"},
        "universe": {"universe-domain": "googleapis.com", "universeDomain": "googleapis.com"},
    }


def compute_server(port: int, api: ComputeApi, project: str, *, shared: bool) -> LocalServer:
    """Serve the API. With `shared`, several providers may serve the same port and emulated state."""
    methods = ("GET", "POST", "DELETE", "PUT", "PATCH")
    return LocalServer("compute-api", partial(answer_http, api, project), methods, port=port, shared=shared)


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
        return as_json(200, api.answer(handler.command, url.path, query, document, account_of(token)))
    except errors.GoogleError as error:
        return as_json(error.status, error.body())
    except Exception as error:  # a server returns 500 and keeps running
        problem = errors.GoogleError(500, "backendError", f"The sandbox's Compute Engine API failed: {error!r}")
        return as_json(500, problem.body())


def as_json(status: int, body: Json) -> Answer:
    # The client repeats the request over a new connection, for which the kernel may choose another provider.
    headers = {"Server": "ESF", **({"Connection": "close"} if status == 503 else {})}
    return Answer(status, json.dumps(body), "application/json; charset=UTF-8", headers)
