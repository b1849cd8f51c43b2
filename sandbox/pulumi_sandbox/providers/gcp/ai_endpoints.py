"""The methods of Vertex AI for the endpoints of Pulumi programs. Their operations take no time."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.vertex.endpoint import Endpoint
from pulumi_sandbox.providers.gcp.vertex.service import Query, VertexError
from pulumi_sandbox.world.store import World

PREFIX = "/vertex/v1/"
_ENDPOINT = re.compile(r"(projects/[^/]+/locations/[^/]+/endpoints/[^/:]+)(/operations/\w+)?")


def answer(world: World, verb: str, path: str, query: Query, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request. Raise VertexError as Google refuses it."""
    match = _ENDPOINT.match(path.removeprefix(PREFIX))
    if match and match[2]:
        return {"name": match[0], "done": True, "response": {}}
    with world.transaction():
        record = world.get(types.AI_ENDPOINT, match[1]) if match else None
        if record is None:
            raise VertexError(404, "NOT_FOUND", f"{path} is not found")
        outputs = record.outputs
        endpoint = Endpoint(record.id, time.time())
        endpoint.deploy_sec = endpoint.undeploy_sec = 0
        endpoint.display_name, endpoint.revision = outputs.get("displayName", ""), int(outputs["etag"])
        endpoint.labels = dict(outputs.get("labels") or {})
        endpoint.split = json.loads(outputs.get("trafficSplit") or "{}")
        for each in outputs["deployedModels"]:
            values = {field: value for field, value in each.items() if value}
            endpoint.models[each["id"]] = {"createTime": outputs["createTime"], **values}
        found: dict[str, Any] = endpoint.route(verb, path.removeprefix("/vertex"), query, body)
        endpoint.settle()
        changed = {
            "labels": endpoint.labels,
            "deployedModels": list(endpoint.models.values()),
            "trafficSplit": json.dumps(endpoint.split),
            "etag": str(endpoint.revision),
        }
        if verb != "GET":
            world.update(types.AI_ENDPOINT, record.id, outputs={**outputs, **changed})
    return found
