"""EC2 and S3 of the sandbox, as botocore sees them: moto with the templates, buckets and faults of the world."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.ec2 import BUCKET, GUEST, OBJECT
from pulumi_sandbox.providers.aws.provider import Aws
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.workspace import free_port
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.aws.conftest import REGION, Amazon
from tests.sandbox.providers.aws.test_permissions import grant, without

pytestmark = pytest.mark.slow
LAUNCH_TEMPLATE = "lt-0a1b2c3d4e5f60718"
SUBNETS = {f"{REGION}a": "subnet-0a1b2c3d4e5f60001", f"{REGION}b": "subnet-0a1b2c3d4e5f60002"}


@pytest.fixture
def port(amazon: Amazon, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of EC2, whose instances are assumed to pass."""
    from moto.moto_api._internal import moto_api_backend

    monkeypatch.setenv("PULUMI_SANDBOX_ASSUME", json.dumps({"gpu-smoke/verdict": "passed"}))
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "sandbox")
    outputs = {"region": REGION, "name": "a10g", "userData": base64.b64encode(b"one").decode(), "latestVersion": 2}
    amazon.world.insert(Record(types.LAUNCH_TEMPLATE, LAUNCH_TEMPLATE, "a10g", "", {}, outputs, "stack"))
    amazon.world.insert(Record(BUCKET, "mailbox", "mailbox", "", {}, {"region": REGION}, "stack"))
    stored = {"bucket": "mailbox", "key": "payloads/1", "contentBase64": base64.b64encode(b"\x00\xff").decode()}
    amazon.world.insert(Record(OBJECT, "one", "one", "", {}, stored, "stack"))
    first = free_port()
    amazon.cloud.serve(first)
    yield first + 1
    amazon.cloud.stop()
    moto_api_backend.reset()


def client(port: int, service: str) -> Any:
    return Session().create_client(service, region_name=REGION, endpoint_url=f"http://127.0.0.1:{port}")


def started(ec2: Any, zone: str, script: str = "") -> dict[str, Any]:
    """Return the instance that a request of a gate starts."""
    [instance] = ec2.run_instances(
        MinCount=1,
        MaxCount=1,
        LaunchTemplate={"LaunchTemplateId": LAUNCH_TEMPLATE, "Version": "2"},
        UserData=script,
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": SUBNETS[zone]}],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "check-1"}]}],
    )["Instances"]
    return dict(instance)


def code(call: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def test_an_instance_is_in_the_zone_of_its_subnet_and_writes_what_is_assumed(amazon: Amazon, port: int) -> None:
    ec2, s3 = client(port, "ec2"), client(port, "s3")
    assert s3.get_object(Bucket="mailbox", Key="payloads/1")["Body"].read() == b"\x00\xff"
    url = s3.generate_presigned_url("get_object", {"Bucket": "mailbox", "Key": "_gate/mail/1/boot.json"})
    instance = started(ec2, f"{REGION}b", f"curl '{url}'")
    assert instance["Placement"]["AvailabilityZone"] == f"{REGION}b"
    assert s3.get_object(Bucket="mailbox", Key="_gate/mail/1/verdict")["Body"].read() == b"passed"
    assert amazon.world.find(types.INSTANCE) == []


def test_a_new_version_of_a_template_is_found(amazon: Amazon, port: int) -> None:
    def data(version: str) -> bytes:
        asked = {"LaunchTemplateId": LAUNCH_TEMPLATE, "Versions": [version]}
        [found] = client(port, "ec2").describe_launch_template_versions(**asked)["LaunchTemplateVersions"]
        return base64.b64decode(found["LaunchTemplateData"]["UserData"])

    assert data("2") == b"one"
    row = amazon.world.get(types.LAUNCH_TEMPLATE, LAUNCH_TEMPLATE)
    assert row
    changed = {**row.outputs, "userData": base64.b64encode(b"two").decode(), "latestVersion": 3}
    amazon.world.update(types.LAUNCH_TEMPLATE, LAUNCH_TEMPLATE, outputs=changed)
    assert (data("2"), data("3")) == (b"one", b"two")


def test_planted_faults_are_errors_of_ec2(amazon: Amazon, port: int) -> None:
    ec2 = client(port, "ec2")
    amazon.world.add_fault(Fault("stockout", on="check-*", zone=f"{REGION}a", times=0))
    assert code(lambda: started(ec2, f"{REGION}a")) == "InsufficientInstanceCapacity"
    assert started(ec2, f"{REGION}b")["State"]["Name"] in ("pending", "running")
    amazon.world.add_fault(Fault("quota"))
    assert code(lambda: started(ec2, f"{REGION}b")) == "VcpuLimitExceeded"


def test_a_role_needs_the_permission_to_start_an_instance(amazon: Amazon, port: int) -> None:
    grant(amazon, without("ec2:RunInstances"))
    of_role, first = Aws(), free_port()
    of_role.start(amazon.cloud.context)
    of_role.__dict__["caller"] = amazon.cloud.caller
    of_role.serve(first)
    ec2 = client(first + 1, "ec2")
    assert code(lambda: started(ec2, f"{REGION}a")) == "UnauthorizedOperation"
    assert ec2.describe_instances()["Reservations"] == []
    of_role.stop()


def test_an_instance_of_a_killed_process_is_no_longer_in_the_world(amazon: Amazon, port: int) -> None:
    dead = {"name": "check-1", GUEST: {"pid": 2**22 + 1, "started": "1"}}
    amazon.world.insert(Record(types.INSTANCE, "i-1", "check-1", "", {}, dead, "api"))
    amazon.world.insert(Record(types.INSTANCE, "i-2", "vm", "", {}, {"name": "vm"}, "stack"))
    client(port, "ec2").describe_instances()
    assert [row.id for row in amazon.world.find(types.INSTANCE)] == ["i-2"]


def test_the_first_provider_of_a_command_serves_ec2(amazon: Amazon, port: int) -> None:
    second = Aws()
    second.start(amazon.cloud.context)
    second.serve(port - 1, shared=True)
    second.stop()
    with pytest.raises(Refused, match=f"127.0.0.1:{port - 1} and the next port"):
        second.serve(port - 1)
