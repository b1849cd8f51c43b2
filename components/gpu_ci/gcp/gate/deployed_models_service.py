"""The provider of the custom resource DeployedModels, which exists only in the state.

Deleting it undeploys the models of an endpoint. A model with traffic serves users, so it is undeployed only with
`forceDestroy`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from threading import Event
from typing import Any

from google.protobuf import empty_pb2

from ...custom_resources import EngineLog, Refused, to_plain
from ..deployed_models import DeployedModelsArgs
from .google_service import ApiError
from .service import DeletionService
from .vertex_api import VertexApi
from .waiting import Clock, RealClock

_POLL_SEC = 5.0
_WITHIN_SEC = 30 * 60.0


def vertex_api(location: str) -> VertexApi:
    return VertexApi(location, os.environ.get("GOOGLE_VERTEX_AI_CUSTOM_ENDPOINT", "").rstrip("/").removesuffix("/v1"))


class DeployedModelsService(DeletionService):
    """Creates, changes and deletes DeployedModels resources."""

    ARGS = DeployedModelsArgs
    REPLACES = ("endpoint",)

    def __init__(self, log: EngineLog, api: Callable[[str], VertexApi] = vertex_api) -> None:
        super().__init__(log, 4, "undeploy")
        self._create_api = api

    async def delete(self, request: Any) -> Any:
        """Undeploy the models. Raise Refused if a model has traffic, or if Google refuses."""
        inputs = to_plain(request.properties)
        name = str(inputs["endpoint"])

        def work() -> None:
            try:
                undeploy_all(
                    self._create_api(name.split("/")[3]), name, bool(inputs.get("forceDestroy")),
                    lambda text: self._log(request.urn, text),
                )  # fmt: skip
            except ApiError as error:
                raise Refused(f"the models of {name} were not undeployed: {error}") from None

        await asyncio.get_running_loop().run_in_executor(self._threads, work)
        return empty_pb2.Empty()


def undeploy_all(
    api: VertexApi, name: str, force: bool, log: Callable[[str], None], clock: Clock | None = None
) -> None:
    """Undeploy every model of an endpoint, and wait. Do nothing if the endpoint does not exist.

    Raises:
        Refused: A model has traffic, and `force` is False; or a model is still deployed after 30 minutes.
        ApiError: Google refuses a request.
    """
    clock = clock or RealClock()
    try:
        endpoint = api.endpoint(name)
    except ApiError as error:
        if error.missing:
            return
        raise
    split = {key: percent for key, percent in endpoint.get("trafficSplit", {}).items() if percent}
    if split and not force:
        shares = ", ".join(f"{key} ({percent} %)" for key, percent in sorted(split.items()))
        raise Refused(
            f"{name} has models with traffic\n  got: {shares}\n  expected: no traffic\n"
            "  hint: set forceDestroy: true on the VertexEndpoint, run pulumi up, then delete it"
        )
    if split:
        api.update(name, str(endpoint.get("etag", "")), {}, endpoint.get("labels", {}))
    operations = {}
    for model in endpoint.get("deployedModels", ()):
        log(f"undeploying {model.get('displayName') or model['id']}")
        operations[model["id"]] = api.undeploy(name, model["id"])
    until = clock.now() + _WITHIN_SEC
    for key, operation in operations.items():
        while True:
            is_done, problem = api.operation(operation)
            if problem:
                raise Refused(f"{name}: the model {key} was not undeployed: {problem}")
            if is_done:
                break
            if clock.now() >= until:
                raise Refused(f"{name}: the model {key} is still deployed after {_WITHIN_SEC / 60:.0f} minutes")
            clock.wait(Event(), _POLL_SEC)
