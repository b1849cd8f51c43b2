"""NodeGroupLimits over gRPC: what it takes, when it is changed, and what is left of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from gpu_ci.aws.limits.eks_api import ApiError
from gpu_ci.aws.limits.service import LimitsService
from gpu_ci.custom_resources import EngineLog, Refused
from gpu_common import pulumi_wire
from pulumi.runtime.proto import provider_pb2

from tests.gpu_ci.aws.limits.fake_eks import FakeEks
from tests.gpu_ci.engine_stub import Plugin, plugin, secret
from tests.gpu_ci.support import run

URN = "urn:pulumi:dev::consumer::gpu-ci:aws:GpuNodeGroup$gpu-ci:aws:NodeGroupLimits::l4-limits"
INPUTS: dict[str, Any] = {"region": "us-east-1", "clusterName": "ci", "nodeGroupName": "l4", "maxSize": 4}
DIFF = provider_pb2.DiffResponse


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    found = struct_pb2.Struct()
    found.update(values)
    return found


def ask(eks: FakeEks, work: Callable[[Plugin], Awaitable[Any]], logs: list[str] | None = None) -> Any:
    async def asked() -> Any:
        async with plugin() as running:
            running.servicer._limits._create_api = lambda _: eks
            answer = await work(running)
            if logs is not None:
                logs.extend(line.message for line in running.monitor.logs)
            return answer

    return run(asked())


def update(eks: FakeEks, preview: bool = False, logs: list[str] | None = None, **inputs: Any) -> dict[str, Any]:
    message = provider_pb2.UpdateRequest(urn=URN, news=struct({**INPUTS, **inputs}), preview=preview)
    answer = ask(eks, lambda running: running.stub.Update(message), logs)
    return json_format.MessageToDict(answer.properties)


def diff(current: int, balancing: str = "unchanged", **inputs: Any) -> Any:
    message = provider_pb2.DiffRequest(
        urn=URN,
        olds=struct({**INPUTS, "currentMaxSize": current, "zoneBalancing": balancing}),
        old_inputs=struct(INPUTS),
        news=struct({**INPUTS, **inputs}),
    )
    return ask(FakeEks(), lambda running: running.stub.Diff(message))


def test_creating_it_changes_nothing_of_a_group_that_was_just_made() -> None:
    eks = FakeEks(most=4)
    message = provider_pb2.CreateRequest(urn=URN, properties=struct(INPUTS))
    answer = ask(eks, lambda running: running.stub.Create(message))
    assert (answer.id, eks.asked) == ("ci:l4", [])
    assert json_format.MessageToDict(answer.properties) == {**INPUTS, "currentMaxSize": 4, "zoneBalancing": "unchanged"}


def test_a_change_sets_the_maximum() -> None:
    eks = FakeEks(desired=2, most=4)
    assert update(eks, maxSize=6) == {**INPUTS, "maxSize": 6, "currentMaxSize": 6, "zoneBalancing": "unchanged"}
    assert (eks.desired, eks.most) == (2, 6)


def test_a_maximum_below_the_nodes_there_are_is_kept_higher_with_a_warning() -> None:
    logs: list[str] = []
    assert update(FakeEks(desired=3, most=4), maxSize=1, logs=logs)["currentMaxSize"] == 3
    (warning,) = logs
    assert warning == (
        "l4 has 3 nodes, so its maximum is 3 and not 1; no running node was terminated\n"
        "  hint: run pulumi up again after its jobs have ended and the autoscaler has removed nodes"
    )


def test_a_group_in_several_zones_is_kept_from_balancing_them() -> None:
    eks = FakeEks(most=4)
    assert update(eks, autoscalingGroupName="eks-l4-1")["zoneBalancing"] == "suspended"
    assert eks.suspended == ["eks-l4-1"]


def test_a_right_to_suspend_that_is_missing_is_a_warning_and_tried_again() -> None:
    logs: list[str] = []
    denied = ApiError("AccessDenied", "not authorized to perform: autoscaling:SuspendProcesses")
    made = update(FakeEks(most=4, not_suspended=denied), autoscalingGroupName="eks-l4-1", logs=logs)
    assert made["zoneBalancing"] == "active"
    (warning,) = logs
    assert warning == (
        "AZRebalance of eks-l4-1 is active: Auto Scaling may terminate busy nodes to balance the zones\n"
        "  got: AccessDenied: not authorized to perform: autoscaling:SuspendProcesses\n"
        "  expected: AWS credentials with autoscaling:SuspendProcesses\n"
        "  hint: grant that permission, or use one zone for the pool; the next pulumi up tries again"
    )
    assert list(diff(current=4, balancing="active").diffs) == ["zoneBalancing"]
    assert diff(current=4, balancing="suspended").changes == DIFF.DIFF_NONE


def test_the_next_up_lowers_it_further() -> None:
    answer = diff(current=6)
    assert (answer.changes, list(answer.diffs), list(answer.replaces)) == (DIFF.DIFF_SOME, ["currentMaxSize"], [])
    assert diff(current=4).changes == DIFF.DIFF_NONE


@pytest.mark.parametrize(
    ("change", "replaces"),
    [
        ({"maxSize": 5}, []),
        ({"nodeGroupName": "l4-2"}, ["nodeGroupName"]),
        ({"nodeGroupName": pulumi_wire.UNKNOWN_STRING}, ["nodeGroupName"]),
    ],
)
def test_another_group_has_other_limits(change: dict[str, Any], replaces: list[str]) -> None:
    answer = diff(current=4, **change)
    assert (list(answer.diffs), list(answer.replaces)) == (list(change), replaces)


def test_a_cancelled_deployment_ends_a_change_that_waits() -> None:
    busy = ApiError("ResourceInUseException", "Nodegroup l4 currently has update 1 in progress")
    service = LimitsService(EngineLog(lambda: ""), lambda _: FakeEks(refusals=[busy]))
    service.cancel()
    with pytest.raises(Refused) as cancelled:
        run(service.update(provider_pb2.UpdateRequest(urn=URN, news=struct({**INPUTS, "maxSize": 6}))))
    assert cancelled.value.code == grpc.StatusCode.CANCELLED


def test_a_preview_calls_nothing_and_knows_no_maximum() -> None:
    eks = FakeEks(refusals=[ApiError("", "Unable to locate credentials")])
    assert update(eks, preview=True, nodeGroupName=pulumi_wire.UNKNOWN_STRING, maxSize=6)["currentMaxSize"] == (
        pulumi_wire.UNKNOWN_STRING
    )
    assert eks.asked == []


def test_a_refusal_names_the_group_the_error_and_the_rights() -> None:
    eks = FakeEks(refusals=[ApiError("AccessDeniedException", "not authorized to perform: eks:UpdateNodegroupConfig")])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        update(eks, maxSize=6)
    assert caught.value.details() == (
        "the maximum of the node group l4 could not be changed\n"
        "  got: AccessDeniedException: not authorized to perform: eks:UpdateNodegroupConfig\n"
        "  expected: AWS credentials with eks:DescribeNodegroup, eks:UpdateNodegroupConfig and eks:DescribeUpdate "
        "on cluster ci in us-east-1\n"
        "  hint: run aws sts get-caller-identity to see the identity of the environment; "
        "set profile or roleArn to use another"
    )


def test_credentials_that_have_expired_are_no_missing_right() -> None:
    eks = FakeEks(refusals=[ApiError("ExpiredTokenException", "The security token included in the request is expired")])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        update(eks, maxSize=6)
    assert str(caught.value.details()).splitlines()[-1] == (
        "  hint: the session of these credentials has expired: log in again and run pulumi up, with a longer session "
        "(role-duration-seconds in GitHub Actions), or with a profile, which is renewed"
    )


def test_what_is_wrong_with_its_inputs_is_reported_by_property() -> None:
    message = provider_pb2.CheckRequest(urn=URN, news=struct({**INPUTS, "maxSize": 0, "region": "Mars"}))
    answer = ask(FakeEks(), lambda running: running.stub.Check(message))
    assert [failure.property for failure in answer.failures] == ["region", "maxSize"]


def test_what_is_left_out_stays_left_out() -> None:
    message = provider_pb2.CheckRequest(urn=URN, news=struct(INPUTS))
    answer = ask(FakeEks(), lambda running: running.stub.Check(message))
    assert json_format.MessageToDict(answer.inputs) == INPUTS


def test_a_refresh_reads_the_maximum_and_forgets_limits_of_a_group_that_is_gone() -> None:
    message = provider_pb2.ReadRequest(
        urn=URN, id="ci:l4", properties=struct({**INPUTS, "currentMaxSize": 4}), inputs=struct(INPUTS)
    )
    answer = ask(FakeEks(most=9), lambda running: running.stub.Read(message))
    assert answer.id == "ci:l4"
    assert json_format.MessageToDict(answer.inputs) == INPUTS
    assert json_format.MessageToDict(answer.properties)["currentMaxSize"] == 9

    class Gone(FakeEks):
        def sizes(self, cluster: str, group: str) -> Any:
            raise ApiError("ResourceNotFoundException", "No node group found for name: l4.")

    assert ask(Gone(), lambda running: running.stub.Read(message)).id == ""


SECRETS = {"clusterName": secret("blue-whale"), "nodeGroupName": secret("l4-hidden")}


def test_an_id_has_digests_instead_of_secret_names() -> None:
    message = provider_pb2.CreateRequest(urn=URN, properties=struct({**INPUTS, **SECRETS}))
    answer = ask(FakeEks(most=4), lambda running: running.stub.Create(message))
    assert answer.id == "4c5484aa4a1d:963bad651fe3"


def test_errors_warnings_and_progress_are_printed_without_secret_inputs() -> None:
    quoting = ApiError("ResourceNotFoundException", "No node group l4-hidden in blue-whale for role/keeper")
    role = secret("arn:aws:iam::111122223333:role/keeper")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        update(FakeEks(refusals=[quoting]), maxSize=6, roleArn=role, **SECRETS)
    assert caught.value.details().splitlines()[:2] == [
        "the maximum of the node group [secret] could not be changed",
        "  got: ResourceNotFoundException: No node group [secret] in [secret] for role/[secret]",
    ]

    class Unreadable(FakeEks):
        def sizes(self, cluster: str, group: str) -> Any:
            raise ApiError("AccessDeniedException", f"not authorized on {group}")

    message = provider_pb2.ReadRequest(urn=URN, id="a:b", properties=struct({**INPUTS, **SECRETS}))
    with pytest.raises(grpc.aio.AioRpcError, match=r"not authorized on \[secret\]\n"):
        ask(Unreadable(), lambda running: running.stub.Read(message))

    logs: list[str] = []
    denied = ApiError("AccessDenied", "not authorized to suspend eks-l4-hidden-1")
    eks = FakeEks(desired=3, most=4, refusals=[ApiError("ResourceInUseException", "busy")], not_suspended=denied)
    update(eks, maxSize=1, autoscalingGroupName=secret("eks-l4-hidden-1"), logs=logs, **SECRETS)
    assert [line.splitlines()[0] for line in logs] == [
        "EKS cannot change the maximum of [secret] now, retrying: ResourceInUseException: busy",
        "[secret] has 3 nodes, so its maximum is 3 and not 1; no running node was terminated",
        "AZRebalance of [secret] is active: Auto Scaling may terminate busy nodes to balance the zones",
    ]


def test_a_maximum_that_an_output_repeats_cannot_be_secret() -> None:
    message = provider_pb2.CheckRequest(urn=URN, news=struct({**INPUTS, "maxSize": secret(4), **SECRETS}))
    answer = ask(FakeEks(), lambda running: running.stub.Check(message))
    assert [(failure.property, failure.reason) for failure in answer.failures] == [
        ("", "maxSize: is a secret, and would be in plain text in currentMaxSize")
    ]
