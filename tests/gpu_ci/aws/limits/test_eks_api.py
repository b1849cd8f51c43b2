"""AWS's own SDK against the EKS API of the sandbox: what is asked on the wire, and what its errors become."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient, AwsEks, Sizes
from gpu_ci.kinds.eks.health import aws_report
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks.api import ACTIVITY, AwsServer, EksApi
from pulumi_sandbox.world.store import Record, World

AS_ROLE = Account("us-east-1", role_arn="arn:aws:iam::123456789012:role/deployer")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "world.db")
    sizes = {"scalingConfig": {"minSize": 0, "desiredSize": 2, "maxSize": 2}}
    outputs: dict[str, Any] = {**sizes, "nodeGroupName": "l4", "clusterName": "ci"}
    outputs["resources"] = [{"autoscalingGroups": [{"name": "eks-l4-1"}]}]
    made.insert(Record(types.NODE_GROUP, "ci:l4", "l4", "", sizes, outputs))
    yield made
    made.close()


@pytest.fixture
def eks(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AwsEks]:
    server = AwsServer(0, EksApi(world))
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield AwsEks(Account("us-east-1"))
    server.close()


def test_the_maximum_is_changed_and_the_desired_size_is_not(eks: AwsEks) -> None:
    assert eks.sizes("ci", "l4") == Sizes(desired=2, most=2)
    update = eks.set_most("ci", "l4", 4)
    assert eks.update_status("ci", "l4", update) == "Successful"
    assert eks.sizes("ci", "l4") == Sizes(desired=2, most=4)


@pytest.mark.parametrize("status", ["Failed", "Cancelled"])
def test_an_update_that_ended_without_the_change_is_an_error(
    eks: AwsEks, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    errors = [{"errorCode": "NodeCreationFailure", "errorMessage": "no capacity"}]
    answer = {"update": {"status": status, "errors": errors}}
    monkeypatch.setattr(eks._eks, "call", lambda *_, **__: answer)
    with pytest.raises(ApiError, match=rf"^update {status}: NodeCreationFailure: no capacity$"):
        eks.update_status("ci", "l4", "update-1")


def test_a_maximum_below_the_nodes_there_are_is_refused(eks: AwsEks) -> None:
    with pytest.raises(ApiError) as refused:
        eks.set_most("ci", "l4", 1)
    assert refused.value == ApiError("InvalidParameterException", "desiredSize can't be greater than maxSize")
    assert refused.value.outdated


def test_a_group_that_is_gone_is_missing(eks: AwsEks) -> None:
    with pytest.raises(ApiError) as gone:
        eks.sizes("ci", "other")
    assert gone.value.missing


def test_zones_are_no_longer_balanced(eks: AwsEks, world: World) -> None:
    eks.suspend_balancing("eks-l4-1")
    assert [(one.verb, one.id, one.note) for one in world.events()][-1] == ("suspend", "ci:l4", "AZRebalance")
    with pytest.raises(ApiError, match="AutoScalingGroup name not found: eks-other"):
        eks.suspend_balancing("eks-other")


def test_a_failed_check_is_explained_by_what_auto_scaling_tried(eks: AwsEks, world: World) -> None:
    account = Account("us-east-1")
    text = "what AWS reports of the node group l4:\n  EKS: nothing\n  Auto Scaling: "
    assert aws_report(account, "ci", "l4", "eks-l4-1") == f"{text}nothing"
    message = "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity <now>"
    world.event(ACTIVITY, types.NODE_GROUP, "ci:l4", message)
    assert aws_report(account, "ci", "l4", "eks-l4-1") == f"{text}Failed: Launching a new EC2 instance: {message}"
    assert aws_report(account, "ci", "l4", "eks-other") == (
        f"{text}".replace("Auto Scaling: ", "Auto Scaling could not be queried: ")
        + "ValidationError: AutoScalingGroup name not found: eks-other"
    )


def test_a_role_is_assumed_and_a_profile_is_read(eks: AwsEks, tmp_path: Path) -> None:
    assert AwsEks(AS_ROLE).sizes("ci", "l4").most == 2
    with pytest.raises(ApiError, match=r"The config profile \(prod\) could not be found"):
        AwsEks(Account("us-east-1", profile="prod"))
    (tmp_path / "config").write_text("[profile prod]\naws_access_key_id = a\naws_secret_access_key = b\n")
    assert AwsEks(Account("us-east-1", profile="prod")).sizes("ci", "l4").most == 2


@pytest.mark.parametrize(("account", "renewed"), [(AS_ROLE, True), (Account("us-east-1"), False)])
def test_only_the_session_of_an_assumed_role_is_renewed(
    eks: AwsEks, monkeypatch: pytest.MonkeyPatch, account: Account, renewed: bool
) -> None:
    ended = [ApiError("ExpiredTokenException", "The security token included in the request is expired")]
    call = AwsClient._call

    def expired_once(client: AwsClient, operation: str, **arguments: Any) -> dict[str, Any]:
        if ended:
            raise ended.pop()
        return call(client, operation, **arguments)

    found = AwsEks(account)
    monkeypatch.setattr(AwsClient, "_call", expired_once)
    if renewed:
        assert found.sizes("ci", "l4").most == 2
    else:
        with pytest.raises(ApiError, match="ExpiredTokenException") as error:
            found.sizes("ci", "l4")
        assert error.value.expired


def test_no_credentials_are_an_error_of_one_line(eks: AwsEks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ApiError) as error:
        AwsEks(Account("us-east-1")).sizes("ci", "l4")
    assert "\n" not in str(error.value)


def test_an_endpoint_that_is_no_url_is_an_error_of_one_line(eks: AwsEks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nowhere")
    with pytest.raises(ApiError, match=r"\AInvalid endpoint: nowhere\Z"):
        AwsEks(Account("us-east-1"))
