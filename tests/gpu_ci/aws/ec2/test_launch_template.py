"""The launch templates of pools on EC2: what they allow, what they say to the runner manager, and if AWS takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_agent.config import parse
from gpu_ci import versions

from tests.gpu_ci.aws.ec2.pools import definition, template
from tests.gpu_ci.support import CALLS

# Where pulumi-aws's word is not the API's.
WORDS = {"securityGroups": "Groups"}
NOT_DATA = ("description", "region", "tags", "updateDefaultVersion")


def api(value: Any) -> Any:
    """Return inputs of pulumi-aws as RequestLaunchTemplateData of EC2. The provider converts text to numbers, too."""
    if isinstance(value, list):
        return [api(each) for each in value]
    if isinstance(value, dict):
        return {WORDS.get(key, key[0].upper() + key[1:]): api(each) for key, each in value.items()}
    if value in ("true", "false"):
        return value == "true"
    return int(value) if isinstance(value, float) else value


def request(**changes: Any) -> dict[str, Any]:
    """Return the request that creates the template of a pool."""
    inputs = template(**changes).inputs
    data = api({key: value for key, value in inputs.items() if key not in NOT_DATA})
    for mapping in data["TagSpecifications"]:
        mapping["Tags"] = [{"Key": key[0].lower() + key[1:], "Value": each} for key, each in mapping["Tags"].items()]
    return {"LaunchTemplateName": "a10g", "VersionDescription": inputs["description"], "LaunchTemplateData": data}


@pytest.mark.parametrize(
    ("machine", "gpus", "name", "parameter"),
    [("g5.xlarge", "1", "NVIDIA A10G", "x86_64"), ("g5.12xlarge", "4", "NVIDIA A10G", "x86_64"),
     ("g5g.xlarge", "1", "NVIDIA T4G", "arm64")],
)  # fmt: skip
def test_its_definition_is_a_configuration_of_the_agent(
    machine: str, gpus: str, name: str, parameter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = {"insecureValue": "ami-0123456789abcdef0"}
    monkeypatch.setitem(CALLS, "aws:ssm/getParameter:getParameter", lambda at: asked.append(at["name"]) or answer)
    row = template(machineType=machine)
    config = parse(json.dumps(definition(row).config))
    assert (config.pool, config.registered_by, config.github) == ("a10g", "manager", None)
    expected = dict(zip(config.check_args[::2], config.check_args[1::2], strict=True))
    assert (expected["--expect-gpus"], expected["--expect-gpu"]) == (gpus, name)
    assert config.torch == versions.TORCH
    assert row.inputs["imageId"] == "ami-0123456789abcdef0"
    assert asked == [f"/aws/service/deeplearning/ami/{parameter}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"]


def test_a_machine_has_no_public_address_and_no_role_and_leaves_no_disk() -> None:
    data = request()["LaunchTemplateData"]
    options, [disk], [interface] = data["MetadataOptions"], data["BlockDeviceMappings"], data["NetworkInterfaces"]
    assert (options["HttpTokens"], options["HttpPutResponseHopLimit"]) == ("required", 1)
    assert (disk["Ebs"]["Encrypted"], disk["Ebs"]["DeleteOnTermination"]) == (True, True)
    assert (interface["AssociatePublicIpAddress"], interface["DeleteOnTermination"]) == (False, True)
    assert (data["InstanceInitiatedShutdownBehavior"], "IamInstanceProfile" in data) == ("terminate", False)


@pytest.mark.slow
def test_ec2s_service_model_takes_the_template() -> None:
    from botocore.session import get_session
    from botocore.validate import ParamValidator

    shape = get_session().get_service_model("ec2").operation_model("CreateLaunchTemplate").input_shape
    assert ParamValidator().validate(request(), shape).generate_report() == ""
    wrong = request()
    wrong["LaunchTemplateData"]["MetadataOption"] = wrong["LaunchTemplateData"].pop("MetadataOptions")
    assert "MetadataOption" in ParamValidator().validate(wrong, shape).generate_report()


@pytest.mark.slow
def test_moto_starts_an_instance_from_the_template() -> None:
    from botocore.session import get_session
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        ec2 = get_session().create_client(
            "ec2",
            region_name="us-east-1",
            endpoint_url=f"http://{host}:{port}",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        wanted = request()
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone="us-east-1a")["Subnet"]
        group = ec2.create_security_group(GroupName="a10g", Description="a10g", VpcId=vpc)["GroupId"]
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        wanted["LaunchTemplateData"]["ImageId"] = image
        created = ec2.create_launch_template(**wanted)["LaunchTemplate"]
        network = {
            "DeviceIndex": 0,
            "SubnetId": subnet["SubnetId"],
            "Groups": [group],
            "AssociatePublicIpAddress": False,
        }
        [instance] = ec2.run_instances(
            MinCount=1,
            MaxCount=1,
            LaunchTemplate={"LaunchTemplateId": created["LaunchTemplateId"], "Version": "1"},
            NetworkInterfaces=[network],
        )["Instances"]
        assert (instance["InstanceType"], instance["ImageId"]) == ("g5.xlarge", image)
        assert (instance["SubnetId"], instance.get("PublicIpAddress")) == (subnet["SubnetId"], None)
        [version] = ec2.describe_launch_template_versions(LaunchTemplateId=created["LaunchTemplateId"], Versions=["1"])[
            "LaunchTemplateVersions"
        ]
        assert version["LaunchTemplateData"]["UserData"] == wanted["LaunchTemplateData"]["UserData"]
    finally:
        server.stop()
