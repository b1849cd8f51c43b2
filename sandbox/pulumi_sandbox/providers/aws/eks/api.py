"""The calls of the EKS API that programs make directly: describe a node group, and change its sizes.

Source of paths, fields and errors: botocore 1.44.5, eks. A change takes effect immediately. It is reported as in
progress once, and until then the group refuses another change.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import errors, scaling
from pulumi_sandbox.providers.aws.eks.errors import ApiError
from pulumi_sandbox.providers.aws.permissions import Caller
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json
from pulumi_sandbox.world.store import Record, World

Json = dict[str, Any]
PATHS = re.compile(
    r"/clusters/(?P<cluster>[^/]+)/(?:node-groups/(?P<group>[^/]+)(?P<change>/update-config)?|updates/(?P<update>[^/]+))"
)
SIGNED = "AWS4-HMAC-SHA256 "
FORM = "application/x-www-form-urlencoded"
AUTOSCALING = "autoscaling.amazonaws.com/doc/2011-01-01"
# The default duration of a session (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html). The end of the
# session is in the token, because several processes may serve one port.
SESSION_SEC = 3600
TOKEN = re.compile(r"sandbox-until-(\d+)")
# The verb of a failed scaling activity in the events of the world.
ACTIVITY = "launch failed"


class EksApi:
    """The answers of the API, independent of HTTP."""

    def __init__(self, world: World, caller: Caller | None = None, now: Callable[[], float] = time.time) -> None:
        self._world = world
        self._caller = caller
        self._now = now
        self._lock = threading.Lock()
        # The updates that no client has seen as in progress, by the id of the node group.
        self._updates_in_progress: dict[str, str] = {}

    def answer(self, method: str, path: str, body: Json) -> Json:
        match = PATHS.fullmatch(path)
        if match is None:
            raise ApiError("NotFoundException", f"The sandbox does not serve {method} {path}")
        cluster, group, update = (unquote(match[name] or "") for name in ("cluster", "group", "update"))
        if method == "GET" and update:
            self.require("eks.describe_update")
            return self._update(update)
        if method == "GET" and not match["change"]:
            self.require("eks.describe_nodegroup")
            return {"nodegroup": self._describe(self._group(cluster, group))}
        if method == "POST" and match["change"]:
            self.require("eks.update_nodegroup_config")
            return self._change(cluster, group, body)
        raise ApiError("NotFoundException", f"The sandbox does not serve {method} {path}")

    def require(self, operation: str) -> None:
        """Raise ApiError if the role of the run does not allow an operation, by its name in the SDK."""
        for denial in self._caller.call(operation) if self._caller else ():
            raise ApiError(denial.code, denial.message)

    def session(self) -> Json:
        """Return keys without access to AWS, and the end of their session."""
        end = int(self._now()) + SESSION_SEC
        return {
            "AccessKeyId": "ASIASANDBOXSANDBOX00",
            "SecretAccessKey": "sandbox",
            "SessionToken": f"sandbox-until-{end}",
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)),
        }

    def identity(self) -> Json:
        """Return the account of the sandbox, and the role of the run or the sandbox's user."""
        account = self._caller.account if self._caller else ""
        role = self._caller.role if self._caller else ""
        user = f"sts::{account}:assumed-role/{role}/sandbox" if role else f"iam::{account}:user/sandbox"
        return {"Arn": f"arn:aws:{user}", "UserId": "AIDASANDBOXSANDBOX00", "Account": account}

    def has_ended(self, token: str) -> bool:
        """Return True if a session of this API has expired. Other tokens never expire."""
        found = TOKEN.fullmatch(token)
        return found is not None and self._now() >= int(found[1])

    def suspend(self, scaling_group: str, process: str) -> None:
        group = self._group_of(scaling_group)
        self._world.event("suspend", group.type, group.id, process)

    def activities(self, scaling_group: str, limit: int) -> list[Json]:
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
            if scaling_group in _scaling_groups(group):
                return group
        # The message is our own. No source for the message of Auto Scaling was found.
        raise ApiError("ValidationError", f"AutoScalingGroup name not found: {scaling_group}")

    def _group(self, cluster: str, name: str) -> Record:
        group = self._world.get(types.NODE_GROUP, f"{cluster}:{name}")
        if group is None:
            raise ApiError(errors.NOT_FOUND, f"No node group found for name: {name}.")
        return group

    def _describe(self, group: Record) -> Json:
        names = ("clusterName", "capacityType", "instanceTypes", "amiType", "version", "releaseVersion", "subnets")
        return {
            **{name: group.outputs[name] for name in names if group.outputs.get(name) is not None},
            "nodegroupName": scaling.name_of(group),
            "status": "UPDATING" if group.id in self._updates_in_progress else "ACTIVE",
            "scalingConfig": scaling.current_sizes(group),
            "resources": {"autoScalingGroups": [{"name": name} for name in _scaling_groups(group)]},
            "health": {"issues": []},
        }

    def _change(self, cluster: str, name: str, body: Json) -> Json:
        with self._lock, self._world.transaction():
            group = self._group(cluster, name)
            if (update_id := self._updates_in_progress.get(group.id)) is not None:
                # Source: https://github.com/aws-controllers-k8s/community/issues/1192, which quotes it for a cluster.
                raise ApiError(errors.IN_USE, f"Nodegroup {name} currently has update {update_id} in progress")
            sizes = {**scaling.current_sizes(group), **(body.get("scalingConfig") or {})}
            if problem := scaling.refusal(sizes):
                raise ApiError(errors.INVALID, problem)
            scaling.set_sizes(self._world, group, sizes)
            self._updates_in_progress[group.id] = str(uuid.uuid4())
            return {
                "update": {"id": self._updates_in_progress[group.id], "status": "InProgress", "type": "ConfigUpdate"}
            }

    def _update(self, wanted_id: str) -> Json:
        with self._lock:
            group_in_progress = next(
                (group for group, update_id in self._updates_in_progress.items() if update_id == wanted_id), None
            )
            if group_in_progress is not None:
                del self._updates_in_progress[group_in_progress]
            status = "InProgress" if group_in_progress else "Successful"
            return {"update": {"id": wanted_id, "status": status, "type": "ConfigUpdate", "errors": []}}


def _scaling_groups(group: Record) -> list[str]:
    return [
        str(one.get("name"))
        for resource in group.outputs.get("resources") or []
        for one in resource.get("autoscalingGroups") or []
    ]


class AwsServer:
    """The server of the API. Several providers may serve the same port, because they share the world."""

    def __init__(self, port: int, api: EksApi) -> None:
        self._server = LocalServer("aws-api", _request_handler(api), ("GET", "POST"), port=port, shared=True)
        self.port = self._server.port

    def close(self) -> None:
        self._server.close()


def _request_handler(api: EksApi) -> Callable[[Request], Answer]:
    def answer(handler: Request) -> Answer:
        body = handler.content
        is_form = handler.headers.get("Content-Type", "").startswith(FORM)
        error_answer = _xml_error if is_form else _json_error
        try:
            if not handler.headers.get("Authorization", "").startswith(SIGNED):
                raise ApiError("MissingAuthenticationTokenException", "Missing Authentication Token")
            if api.has_ended(handler.headers.get("X-Amz-Security-Token", "")):
                # Source of both codes and the message: hashicorp/terraform-provider-aws#32809, eksctl-io/eksctl#7448.
                code = "ExpiredToken" if is_form else "ExpiredTokenException"
                raise ApiError(code, "The security token included in the request is expired")
            if is_form:
                return _query(api, {name: values[-1] for name, values in parse_qs(body.decode()).items()})
            path = urlsplit(handler.path).path
            return as_json(200, api.answer(handler.command, path, _document(body)))
        except ApiError as error:
            return error_answer(error.code, str(error))
        except Exception as error:  # like any server, answer 500 and continue
            return error_answer("ServerException", f"The sandbox's EKS API failed: {error!r}", 500)

    return answer


def _query(api: EksApi, form: Mapping[str, str]) -> Answer:
    """Answer the services with form requests and XML answers: STS and Auto Scaling.

    Source: botocore 1.44.5, sts and autoscaling.
    """
    match form.get("Action"):
        case "AssumeRole":
            return _xml("sts.amazonaws.com/doc/2011-06-15", "AssumeRole", {"Credentials": api.session()})
        case "GetCallerIdentity":
            return _xml("sts.amazonaws.com/doc/2011-06-15", "GetCallerIdentity", api.identity())
        case "SuspendProcesses":
            api.require("autoscaling.suspend_processes")
            api.suspend(form.get("AutoScalingGroupName", ""), form.get("ScalingProcesses.member.1", ""))
            return _xml(AUTOSCALING, "SuspendProcesses", {})
        case "DescribeScalingActivities":
            api.require("autoscaling.describe_scaling_activities")
            found = api.activities(form.get("AutoScalingGroupName", ""), int(form.get("MaxRecords", 100)))
            return _xml(AUTOSCALING, "DescribeScalingActivities", {"Activities": found})
    raise ApiError("NotFoundException", f"The sandbox does not serve {form.get('Action')}")


def _xml(namespace: str, action: str, result: Json) -> Answer:
    text = (
        f'<{action}Response xmlns="https://{namespace}/"><{action}Result>{_elements(result)}</{action}Result>'
        f"</{action}Response>"
    )
    return Answer(200, text, "text/xml")


def _elements(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_elements(inner)}</{name}>" for name, inner in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{_elements(inner)}</member>" for inner in value)
    return escape(str(value))


def _document(body: bytes) -> Json:
    try:
        parsed: Any = json.loads(body or b"{}")
    except ValueError:
        raise ApiError(errors.INVALID, "The request body is not valid JSON") from None
    return dict(parsed) if isinstance(parsed, Mapping) else {}


def _json_error(code: str, message: str, status: int = 0) -> Answer:
    status = status or {**errors.STATUS, "NotFoundException": 404, "MissingAuthenticationTokenException": 403,
                        "ExpiredTokenException": 403, "AccessDeniedException": 403}.get(code, 400)  # fmt: skip
    answer = as_json(status, {"message": message})
    return Answer(answer.status, answer.body, answer.kind, {"x-amzn-ErrorType": code})


def _xml_error(code: str, message: str, status: int = 400) -> Answer:
    error = {"Error": {"Type": "Sender", "Code": code, "Message": message}}
    return Answer(status, f"<ErrorResponse>{_elements(error)}</ErrorResponse>", "text/xml")
