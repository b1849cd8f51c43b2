"""The calls of AWS's APIs that programs make about node groups: their sizes, their state, and their role.

Source of paths, fields and errors: botocore 1.44.5, eks, sts and autoscaling. A change takes effect immediately.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import node_groups
from pulumi_sandbox.providers.aws.permissions import Caller
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json
from pulumi_sandbox.world.store import Record, World

Json = dict[str, Any]
GROUP = re.compile(r"/clusters/([^/]+)/node-groups/([^/]+)(/update-config)?")
UPDATE = re.compile(r"/clusters/[^/]+/updates/([^/]+)")
SIGNED = "AWS4-HMAC-SHA256 "
FORM = "application/x-www-form-urlencoded"
AUTOSCALING, STS = "autoscaling.amazonaws.com/doc/2011-01-01", "sts.amazonaws.com/doc/2011-06-15"
STATUS = {
    node_groups.NOT_FOUND: 404, "NotFoundException": 404, "MissingAuthenticationTokenException": 403,
    "AccessDeniedException": 403, "ServerException": 500,
}  # fmt: skip
# The verb of a failed scaling activity in the events of the world.
ACTIVITY = "launch failed"


class ApiError(Exception):
    """A refusal with the error code that clients expect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class EksApi:
    """The answers of the API, independent of HTTP."""

    def __init__(self, world: World, caller: Caller | None = None) -> None:
        self._world = world
        self._caller = caller

    def answer(self, method: str, path: str, body: Json) -> Json:
        """Answer a request to EKS."""
        if method == "GET" and (update := UPDATE.fullmatch(path)):
            self.require("eks.describe_update")
            return _update(unquote(update[1]), "Successful")
        group = GROUP.fullmatch(path)
        if group and method == "GET" and not group[3]:
            self.require("eks.describe_nodegroup")
            return {"nodegroup": self._describe(self._group(unquote(group[1]), unquote(group[2])))}
        if group and method == "POST" and group[3]:
            self.require("eks.update_nodegroup_config")
            return self._change(unquote(group[1]), unquote(group[2]), body)
        raise ApiError("NotFoundException", f"The sandbox does not serve {method} {path}")

    def query(self, form: Mapping[str, str]) -> tuple[str, Json]:
        """Answer a request to STS or Auto Scaling. Return the namespace of the answer, and the result."""
        action, scaling_group = form.get("Action"), form.get("AutoScalingGroupName", "")
        match action:
            case "AssumeRole":
                end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
                keys = {"AccessKeyId": "ASIASANDBOXSANDBOX00", "SecretAccessKey": "sandbox", "SessionToken": "sandbox"}
                return STS, {"Credentials": {**keys, "Expiration": end}}
            case "GetCallerIdentity":
                return STS, self._identity()
            case "SuspendProcesses":
                self.require("autoscaling.suspend_processes")
                group = self._group_of(scaling_group)
                self._world.event("suspend", group.type, group.id, form.get("ScalingProcesses.member.1", ""))
                return AUTOSCALING, {}
            case "DescribeScalingActivities":
                self.require("autoscaling.describe_scaling_activities")
                return AUTOSCALING, {"Activities": self._activities(scaling_group, int(form.get("MaxRecords", 100)))}
        raise ApiError("NotFoundException", f"The sandbox does not serve {action}")

    def require(self, operation: str) -> None:
        """Raise ApiError if the role of the run does not allow an operation, by its name in the SDK."""
        for denial in self._caller.call(operation) if self._caller else ():
            raise ApiError(denial.code, denial.message)

    def _identity(self) -> Json:
        """Return the account of the sandbox, and the role of the run or the sandbox's user."""
        account = self._caller.account if self._caller else ""
        role = self._caller.role if self._caller else ""
        user = f"sts::{account}:assumed-role/{role}/sandbox" if role else f"iam::{account}:user/sandbox"
        return {"Arn": f"arn:aws:{user}", "UserId": "AIDASANDBOXSANDBOX00", "Account": account}

    def _activities(self, scaling_group: str, limit: int) -> list[Json]:
        """Return the failed launches, newest first."""
        group = self._group_of(scaling_group)
        failed = [event for event in self._world.events() if (event.verb, event.id) == (ACTIVITY, group.id)]
        return [
            {
                "ActivityId": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{event.time} {number}")),
                "AutoScalingGroupName": scaling_group,
                "Description": "Launching a new EC2 instance",
                "Cause": "a user request changed the desired capacity",
                "StartTime": event.time,
                "StatusCode": "Failed",
                "StatusMessage": event.note,
            }
            for number, event in reversed([*enumerate(failed)])
        ][:limit]

    def _group_of(self, scaling_group: str) -> Record:
        for group in self._world.find(types.NODE_GROUP):
            if scaling_group in node_groups.scaling_groups(group.outputs):
                return group
        # The message is our own. No source for the message of Auto Scaling was found.
        raise ApiError("ValidationError", f"AutoScalingGroup name not found: {scaling_group}")

    def _group(self, cluster: str, name: str) -> Record:
        group = self._world.get(types.NODE_GROUP, f"{cluster}:{name}")
        if group is None:
            raise ApiError(node_groups.NOT_FOUND, f"No node group found for name: {name}.")
        return group

    def _describe(self, group: Record) -> Json:
        names = ("clusterName", "capacityType", "instanceTypes", "amiType", "version", "releaseVersion", "subnets")
        return {
            **{name: group.outputs[name] for name in names if group.outputs.get(name) is not None},
            "nodegroupName": str(group.outputs.get("nodeGroupName")),
            "status": "ACTIVE",
            "scalingConfig": node_groups.current_sizes(group),
            "resources": {"autoScalingGroups": [{"name": name} for name in node_groups.scaling_groups(group.outputs)]},
            "health": {"issues": []},
        }

    def _change(self, cluster: str, name: str, body: Json) -> Json:
        with self._world.transaction():
            group = self._group(cluster, name)
            sizes = {**node_groups.current_sizes(group), **(body.get("scalingConfig") or {})}
            if sizes["desiredSize"] > sizes["maxSize"]:
                raise ApiError(node_groups.INVALID, node_groups.DESIRED_ABOVE)
            node_groups.set_sizes(self._world, group, sizes)
        return _update(str(uuid.uuid4()), "InProgress")


def _update(number: str, status: str) -> Json:
    return {"update": {"id": number, "status": status, "type": "ConfigUpdate", "errors": []}}


class AwsServer:
    """The server of the API. Several providers may serve the same port, because they share the world."""

    def __init__(self, port: int, api: EksApi) -> None:
        self._server = LocalServer("aws-api", _request_handler(api), ("GET", "POST"), port=port, shared=True)
        self.port = self._server.port

    def close(self) -> None:
        self._server.close()


def _request_handler(api: EksApi) -> Callable[[Request], Answer]:
    def answer(handler: Request) -> Answer:
        """Answer a request, of a service with JSON or of one with forms and XML."""
        is_form = handler.headers.get("Content-Type", "").startswith(FORM)
        try:
            if not handler.headers.get("Authorization", "").startswith(SIGNED):
                raise ApiError("MissingAuthenticationTokenException", "Missing Authentication Token")
            if not is_form:
                body = json.loads(handler.content or b"{}")
                return as_json(200, api.answer(handler.command, urlsplit(handler.path).path, body))
            form = {name: values[-1] for name, values in parse_qs(handler.content.decode()).items()}
            namespace, result = api.query(form)
            answers = f"{form['Action']}Response", f"{form['Action']}Result"
            text = f'<{answers[0]} xmlns="https://{namespace}/">{_elements({answers[1]: result})}</{answers[0]}>'
            return Answer(200, text, "text/xml")
        except ApiError as error:
            return _error(error, is_form)
        except Exception as error:  # like any server, answer 500 and continue
            return _error(ApiError("ServerException", f"The sandbox's EKS API failed: {error!r}"), is_form)

    return answer


def _error(error: ApiError, is_form: bool) -> Answer:
    status = STATUS.get(error.code, 400)
    if is_form:
        document = {"ErrorResponse": {"Error": {"Type": "Sender", "Code": error.code, "Message": str(error)}}}
        return Answer(status, _elements(document), "text/xml")
    answer = as_json(status, {"message": str(error)})
    return Answer(status, answer.body, answer.kind, {"x-amzn-ErrorType": error.code})


def _elements(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_elements(inner)}</{name}>" for name, inner in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{_elements(inner)}</member>" for inner in value)
    return escape(str(value))
