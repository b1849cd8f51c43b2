"""The provider of the custom resource NodeGroupLimits. The Pulumi engine calls its methods, such as `create`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Protocol

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2

from ...custom_resources import EngineLog, Refused, checked, redacted, secret_names, to_plain, with_outputs
from ..node_group_limits import NodeGroupLimitsArgs
from .eks_api import Account, ApiError, AwsEks, EksApi

# EKS updates sizes in seconds, but only when no other update of the group runs. The update to a new image replaces all
# nodes, and takes up to an hour with several busy nodes.
DEADLINE_SEC = 3600
_POLL_EVERY_SEC = 2.0


class Clock(Protocol):
    """A clock whose wait ends when the deployment is cancelled."""

    def wait(self, seconds: float) -> bool:
        """Wait for the given seconds. Return True if the deployment was cancelled."""


class Cancelled(Exception):  # noqa: N818 - the user cancelled, which is no error
    """The deployment was cancelled."""


def set_most(api: EksApi, clock: Clock, cluster: str, group: str, wanted: int, report: Callable[[str], None]) -> int:
    """Change the maximum to `wanted`, or to the desired size if that is higher. Return the new maximum.

    An autoscaler can change the sizes at any time, so they are read directly before each change. If EKS rejects a
    change because the sizes have changed or another update runs, the change is repeated.

    Raises:
        ApiError: EKS rejects the change for another reason, or still rejects it after DEADLINE_SEC.
        Cancelled: The deployment was cancelled.
    """
    waited_sec, rejected_sizes, changed = 0.0, None, False
    while True:
        sizes = api.sizes(cluster, group)
        most = max(wanted, sizes.desired)
        if sizes.most == most:
            return most
        if changed:
            waited_sec = _wait(clock, waited_sec, ApiError("", f"EKS still reports a maximum of {sizes.most}"))
        try:
            update = api.set_most(cluster, group, most)
            while api.update_status(cluster, group, update) != "Successful":
                waited_sec = _wait(clock, waited_sec, ApiError("", f"update {update} has not ended"))
            changed = True
        except ApiError as error:
            # If the sizes are the same as at the last rejection, EKS would reject the change again.
            if not error.busy and not (error.outdated and sizes != rejected_sizes):
                raise
            rejected_sizes = sizes
            report(f"EKS cannot change the maximum of {group} now, retrying: {error}")
            waited_sec = _wait(clock, waited_sec, error)


def _wait(clock: Clock, waited_sec: float, reason: ApiError) -> float:
    if waited_sec >= DEADLINE_SEC:
        raise ApiError(reason.code, f"{reason.message} (after {DEADLINE_SEC} s)")
    if clock.wait(_POLL_EVERY_SEC):
        raise Cancelled
    return waited_sec + _POLL_EVERY_SEC


_CONCURRENT_CHANGES = 16
_REPLACES = ("clusterName", "nodeGroupName", "region")
_CURRENT, _BALANCING = "currentMaxSize", "zoneBalancing"
SUSPENDED, ACTIVE, UNCHANGED = "suspended", "active", "unchanged"
"""The values of the output zoneBalancing."""

# The inputs that must not be secret, because an output and a warning show their values. The text says where.
_PUBLIC_INPUTS = {"maxSize": "in currentMaxSize"}

# The permissions that the deployer needs. No AWS managed policy contains them. If one is missing, EKS's error names it.
_PERMISSIONS = "eks:DescribeNodegroup, eks:UpdateNodegroupConfig and eks:DescribeUpdate"


class LimitsService:
    """Creates, changes and reads NodeGroupLimits resources, which are settings of an existing node group."""

    def __init__(self, log: EngineLog, api: Callable[[Account], EksApi] = AwsEks) -> None:
        self._log = log
        self._create_api = api
        self._cancel = Event()
        self._threads = ThreadPoolExecutor(_CONCURRENT_CHANGES, thread_name_prefix="limits")

    def check(self, request: Any) -> Any:
        return checked(request, NodeGroupLimitsArgs, _PUBLIC_INPUTS)

    async def diff(self, request: Any) -> Any:
        """Return the changed inputs.

        If no input has changed, return the outputs that an earlier `up` could not set, so that this `up` tries again.
        """
        old, new, state = to_plain(request.old_inputs), to_plain(request.news), to_plain(request.olds)
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        kind = provider_pb2.PropertyDiff
        details = {
            name: kind(kind=kind.UPDATE_REPLACE if name in _REPLACES else kind.UPDATE, inputDiff=True)
            for name in changed
        }
        if not changed:
            not_set = {_CURRENT: state.get(_CURRENT) != new.get("maxSize"), _BALANCING: state.get(_BALANCING) == ACTIVE}
            details = {name: kind(kind=kind.UPDATE) for name, is_open in not_set.items() if is_open}
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
        outputs = await self._apply(request.urn, properties, preview=request.preview)
        return provider_pb2.CreateResponse(id=identity, properties=outputs)

    async def update(self, request: Any) -> Any:
        outputs = await self._apply(request.urn, request.news, preview=request.preview)
        return provider_pb2.UpdateResponse(properties=outputs)

    async def read(self, request: Any) -> Any:
        """Return the current maximum.

        If the group does not exist, return no id: the engine then removes the resource.
        """
        given = to_plain(request.properties)
        if not given:
            return provider_pb2.ReadResponse()
        try:
            sizes = await self._in_thread(given, lambda api: api.sizes(given["clusterName"], given["nodeGroupName"]))
        except ApiError as error:
            if error.missing:
                return provider_pb2.ReadResponse()
            raise Refused(redacted(_rejection(error, given), request.properties)) from None
        return provider_pb2.ReadResponse(
            id=request.id, properties=with_outputs(request.properties, {_CURRENT: sizes.most}), inputs=request.inputs
        )

    async def delete(self, request: Any) -> Any:  # noqa: ARG002 - every service has the same methods
        """Do nothing, because the limits are deleted with their group, or stay as they are."""
        return empty_pb2.Empty()

    def cancel(self) -> None:
        self._cancel.set()

    async def drained(self) -> None:
        """Return after every thread has ended."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _apply(self, urn: str, properties: Any, *, preview: bool) -> Any:
        """Change the maximum and suspend the zone balancing. Return the outputs, which are unknown in a preview."""
        if preview:
            return with_outputs(properties, {_CURRENT: rpc.UNKNOWN, _BALANCING: rpc.UNKNOWN})
        given = to_plain(properties)
        group, wanted = str(given["nodeGroupName"]), int(given["maxSize"])

        def report(text: str) -> None:
            self._log(urn, redacted(text, properties))

        try:
            most = await self._in_thread(
                given,
                lambda api: set_most(api, _CancellableClock(self._cancel), given["clusterName"], group, wanted, report),
            )
        except ApiError as error:
            raise Refused(redacted(_rejection(error, given), properties)) from None
        except Cancelled:
            raise Refused("the change was cancelled", grpc.StatusCode.CANCELLED) from None
        if most > wanted:
            text = (
                f"{group} has {most} nodes, so its maximum is {most} and not {wanted}; no running node was "
                "terminated\n  hint: run pulumi up again after its jobs have ended and the autoscaler has removed "
                "nodes"
            )
            await asyncio.to_thread(self._log, urn, redacted(text, properties), True)
        return with_outputs(properties, {_CURRENT: most, _BALANCING: await self._suspend_balancing(urn, properties)})

    async def _suspend_balancing(self, urn: str, properties: struct_pb2.Struct) -> str:
        """Suspend AZRebalance, with which Auto Scaling may terminate busy nodes. Return the value of zoneBalancing.

        If AWS rejects the call, report a warning and continue.
        """
        given = to_plain(properties)
        scaling_group = given.get("autoscalingGroupName")
        if not scaling_group:
            return UNCHANGED
        try:
            await self._in_thread(given, lambda api: api.suspend_balancing(scaling_group))
        except ApiError as error:
            text = (
                f"AZRebalance of {scaling_group} is active: Auto Scaling may terminate busy nodes to balance the "
                f"zones\n  got: {error}\n  expected: AWS credentials with autoscaling:SuspendProcesses\n  hint: grant "
                "that permission, or use one zone for the pool; the next pulumi up tries again"
            )
            await asyncio.to_thread(self._log, urn, redacted(text, properties), True)
            return ACTIVE
        return SUSPENDED

    async def _in_thread(self, given: Mapping[str, Any], work: Callable[[EksApi], Any]) -> Any:
        """Run the work in a thread, so that it blocks no other resource."""
        run = asyncio.get_running_loop().run_in_executor
        return await run(self._threads, lambda: work(self._create_api(_account(given))))


class _CancellableClock:
    """The system clock, whose wait ends when the service is cancelled."""

    def __init__(self, cancel: Event) -> None:
        self._cancel = cancel

    def wait(self, seconds: float) -> bool:
        return self._cancel.wait(seconds)


def _account(given: Mapping[str, Any]) -> Account:
    return Account(given["region"], given.get("profile", ""), given.get("roleArn", ""))


def _identity(properties: struct_pb2.Struct) -> str:
    """Return cluster and node group as an id. A digest replaces a secret name, because ids are not encrypted."""
    given, secret = to_plain(properties), secret_names(properties)
    return ":".join(
        hashlib.sha256(given[name].encode()).hexdigest()[:12] if name in secret else given[name]
        for name in ("clusterName", "nodeGroupName")
    )


def _rejection(error: ApiError, given: Mapping[str, Any]) -> str:
    hint = (
        "run aws sts get-caller-identity to see the identity of the environment; set profile or roleArn to use another"
    )
    if error.expired:
        hint = (
            "the session of these credentials has expired: log in again and run pulumi up, with a longer session "
            "(role-duration-seconds in GitHub Actions), or with a profile, which is renewed"
        )
    return (
        f"the maximum of the node group {given['nodeGroupName']} could not be changed\n"
        f"  got: {error}\n"
        f"  expected: AWS credentials with {_PERMISSIONS} on cluster {given['clusterName']} in "
        f"{given['region']}\n"
        f"  hint: {hint}"
    )
