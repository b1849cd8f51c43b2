"""The methods of Vertex AI that undeploy the models of an endpoint. No model is deployed here.

Paths and bodies follow the discovery document aiplatform v1. An operation has ended when it is returned.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.world.store import World

PREFIX = "/vertex/v1/"
_ENDPOINT = re.compile(
    r"(?P<name>projects/[^/]+/locations/[^/]+/endpoints/[^/:]+)(?P<rest>:undeployModel|/operations/\w+)?"
)


def answer(world: World, verb: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request. Raise GoogleError as Google refuses it."""
    match = _ENDPOINT.fullmatch(path.removeprefix(PREFIX))
    method = (verb, (match["rest"] or "").partition("operations/")[0]) if match else None
    if match is None or method not in (("GET", ""), ("PATCH", ""), ("POST", ":undeployModel"), ("GET", "/")):
        raise errors.GoogleError(501, "notImplemented", f"The sandbox has no method {verb} {path}")
    name = match["name"]
    if method == ("GET", "/"):
        return {"name": path.removeprefix(PREFIX), "done": True, "response": {}}
    with world.transaction():
        record = world.get(types.AI_ENDPOINT, name)
        if record is None:
            raise errors.GoogleError(404, "notFound", f"Endpoint `{name}` is not found.")
        outputs = dict(record.outputs)
        split = json.loads(outputs.get("trafficSplit") or "{}")
        if method == ("PATCH", ""):
            if body.get("etag") not in (None, outputs["etag"]):
                raise errors.GoogleError(409, "aborted", "The etag does not match.")
            split = body.get("trafficSplit", {})
        elif method == ("POST", ":undeployModel"):
            key = body["deployedModelId"]
            if split.get(key):
                raise errors.GoogleError(400, "failedPrecondition", f"The deployed model {key} has traffic.")
            outputs["deployedModels"] = [each for each in outputs["deployedModels"] if each["id"] != key]
        if verb != "GET":
            outputs |= {"trafficSplit": json.dumps(split), "etag": str(int(outputs["etag"]) + 1)}
            world.update(types.AI_ENDPOINT, name, outputs=outputs)
    if method == ("POST", ":undeployModel"):
        return {"name": f"{name}/operations/1", "done": True, "response": {}}
    models = [{field: value for field, value in each.items() if value} for each in outputs["deployedModels"]]
    return {
        "name": name,
        "displayName": outputs.get("displayName", ""),
        "etag": outputs["etag"],
        "labels": outputs.get("labels") or {},
        "deployedModels": models,
        "trafficSplit": split,
    }
