"""NodeGroupLimits as the engine sees it: what it is given, what a change of it does, and what a refresh finds."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2

from ...custom_resources import EngineLog, Refused, checked, redacted, secret_names, to_plain, with_outputs
from ..node_group_limits import NodeGroupLimitsArgs
from .change import Cancelled, set_most
from .eks_api import Account, ApiError, AwsEks, EksApi

_AT_ONCE = 16
_REPLACES = ("clusterName", "nodeGroupName", "region")
_CURRENT, _BALANCING = "currentMaxSize", "zoneBalancing"
SUSPENDED, ACTIVE, UNCHANGED = "suspended", "active", "unchanged"

# What an output and a warning repeat.
_IN_PLAIN = {"maxSize": "in currentMaxSize"}

# The AWS managed policies of no role have these; what EKS denies names the missing one.
_RIGHTS = "eks:DescribeNodegroup, eks:UpdateNodegroupConfig and eks:DescribeUpdate"


class LimitsService:
    """The lifecycle of NodeGroupLimits resources. None of them exists in AWS by itself."""

    def __init__(self, log: EngineLog, api: Callable[[Account], EksApi] = AwsEks) -> None:
        self._log = log
        self._make_api = api
        self._cancel = Event()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="limits")

    def check(self, request: Any) -> Any:
        return checked(request, NodeGroupLimitsArgs, _IN_PLAIN)

    async def diff(self, request: Any) -> Any:
        """What could not be done, as the group has more nodes or a right is missing, is a change at the next `up`."""
        old, new, known = to_plain(request.old_inputs), to_plain(request.news), to_plain(request.olds)
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        kind = provider_pb2.PropertyDiff
        details = {
            name: kind(kind=kind.UPDATE_REPLACE if name in _REPLACES else kind.UPDATE, inputDiff=True)
            for name in changed
        }
        if not changed:
            left = {_CURRENT: known.get(_CURRENT) != new.get("maxSize"), _BALANCING: known.get(_BALANCING) == ACTIVE}
            details = {name: kind(kind=kind.UPDATE) for name, undone in left.items() if undone}
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if details else response.DIFF_NONE,
            diffs=sorted(details),
            replaces=[name for name in changed if name in _REPLACES],
            detailedDiff=details,
            hasDetailedDiff=True,
        )

    async def create(self, request: Any) -> Any:
        properties = request.properties
        identity = "" if request.preview else _identity(properties)
        outputs = await self._applied(request.urn, properties, preview=request.preview)
        return provider_pb2.CreateResponse(id=identity, properties=outputs)

    async def update(self, request: Any) -> Any:
        outputs = await self._applied(request.urn, request.news, preview=request.preview)
        return provider_pb2.UpdateResponse(properties=outputs)

    async def read(self, request: Any) -> Any:
        """The maximum as it is; no id where the group is gone, so that the state forgets it."""
        given = to_plain(request.properties)
        if not given:
            return provider_pb2.ReadResponse()
        try:
            sizes = await self._in_thread(given, lambda api: api.sizes(given["clusterName"], given["nodeGroupName"]))
        except ApiError as error:
            if error.missing:
                return provider_pb2.ReadResponse()
            raise Refused(redacted(_refused(error, given), request.properties)) from None
        return provider_pb2.ReadResponse(
            id=request.id, properties=with_outputs(request.properties, {_CURRENT: sizes.most}), inputs=request.inputs
        )

    async def delete(self, request: Any) -> Any:  # noqa: ARG002 - every service has the same methods
        """Nothing to do: the limits go with their group, or stay as they are."""
        return empty_pb2.Empty()

    def cancel(self) -> None:
        self._cancel.set()

    async def drained(self) -> None:
        """Return once every thread has ended."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _applied(self, urn: str, properties: Any, *, preview: bool) -> Any:
        if preview:
            return with_outputs(properties, {_CURRENT: rpc.UNKNOWN, _BALANCING: rpc.UNKNOWN})
        given = to_plain(properties)
        group, wanted = str(given["nodeGroupName"]), int(given["maxSize"])

        def report(text: str) -> None:
            self._log(urn, redacted(text, properties))

        try:
            most = await self._in_thread(
                given,
                lambda api: set_most(api, _Waiting(self._cancel), given["clusterName"], group, wanted, report),
            )
        except ApiError as error:
            raise Refused(redacted(_refused(error, given), properties)) from None
        except Cancelled:
            raise Refused("the change was cancelled", grpc.StatusCode.CANCELLED) from None
        if most > wanted:
            text = (
                f"{group} has {most} nodes, so its maximum is {most} and not {wanted}: no running node was ended\n"
                "  hint: run pulumi up again once its jobs have ended and the autoscaler has removed nodes"
            )
            await asyncio.to_thread(self._log, urn, redacted(text, properties), True)
        return with_outputs(properties, {_CURRENT: most, _BALANCING: await self._suspended(urn, properties)})

    async def _suspended(self, urn: str, properties: struct_pb2.Struct) -> str:
        """Suspend AZRebalance; where AWS refuses, nodes may end, which is a warning and no failed `up`."""
        given = to_plain(properties)
        scaling_group = given.get("autoscalingGroupName")
        if not scaling_group:
            return UNCHANGED
        try:
            await self._in_thread(given, lambda api: api.suspend_balancing(scaling_group))
        except ApiError as error:
            text = (
                f"AZRebalance of {scaling_group} is active: Auto Scaling may end busy nodes to balance the zones\n"
                f"  got: {error}\n"
                "  expected: AWS credentials with autoscaling:SuspendProcesses\n"
                "  hint: grant that right, or put the pool into one zone; the next pulumi up tries again"
            )
            await asyncio.to_thread(self._log, urn, redacted(text, properties), True)
            return ACTIVE
        return SUSPENDED

    async def _in_thread(self, given: Mapping[str, Any], work: Callable[[EksApi], Any]) -> Any:
        """Run it where waiting holds up no other resource."""
        run = asyncio.get_running_loop().run_in_executor
        return await run(self._threads, lambda: work(self._make_api(_account(given))))


class _Waiting:
    def __init__(self, cancel: Event) -> None:
        self._cancel = cancel

    def wait(self, seconds: float) -> bool:
        return self._cancel.wait(seconds)


def _account(given: Mapping[str, Any]) -> Account:
    return Account(given["region"], given.get("profile", ""), given.get("roleArn", ""))


def _identity(properties: struct_pb2.Struct) -> str:
    """Cluster and node group; of a secret name its digest, because ids are never encrypted in a state."""
    given, secret = to_plain(properties), secret_names(properties)
    return ":".join(
        hashlib.sha256(given[name].encode()).hexdigest()[:12] if name in secret else given[name]
        for name in ("clusterName", "nodeGroupName")
    )


def _refused(error: ApiError, given: Mapping[str, Any]) -> str:
    hint = "aws sts get-caller-identity shows the identity of the environment; profile and roleArn choose another"
    if error.expired:
        hint = (
            "the session of these credentials has ended: log in again and run pulumi up, with a longer session "
            "(role-duration-seconds in GitHub Actions), or with a profile, which is renewed"
        )
    return (
        f"the maximum of the node group {given['nodeGroupName']} could not be changed\n"
        f"  got: {error}\n"
        f"  expected: AWS credentials with {_RIGHTS} on cluster {given['clusterName']} in "
        f"{given['region']}\n"
        f"  hint: {hint}"
    )
