"""The gate of a launch template, on moto. The test acts as the machine, which knows only its boot document."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest
from botocore.session import Session
from gpu_ci.ec2_gate.compute import with_time_limit
from gpu_ci.gcp.gate.waiting import RealClock
from gpu_ci.mailbox.boot import Definition
from gpu_ci.mailbox.objects import ObjectsError, S3Objects, Signed
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from tests.gpu_ci.engine_stub import Plugin, plugin
from tests.gpu_ci.gcp.gate.setting import struct
from tests.gpu_ci.mailbox.s3 import BUCKET, REGION, boot_of, s3, send
from tests.gpu_ci.support import run

URN = "urn:pulumi:dev::ci::gpu-ci:aws:Ec2RunnerPool$gpu-ci:aws:SmokeGate::a10g-gate"
ZONES = [f"{REGION}a", f"{REGION}b"]
_PLUGIN = "from gpu_ci.plugin import main; main()"
PASSED = {"verdict": "pass", "summary": "1 x NVIDIA A10G computes"}


class Cloud:
    """AWS, whose time passes while a gate waits. Its machines boot during a wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ec2 = Session().create_client("ec2", region_name=REGION)
        definition = Definition({"pool": "a10g"}, {"agent": "a" * 64, "smoke": "b" * 64}).text()
        image = self.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        data = {"ImageId": image, "UserData": base64.b64encode(definition.encode()).decode()}
        made = self.ec2.create_launch_template(LaunchTemplateName="a10g", LaunchTemplateData=data)["LaunchTemplate"]
        subnets = self.ec2.describe_subnets()["Subnets"]
        self.inputs: dict[str, Any] = {
            "region": REGION, "template": f"{made['LaunchTemplateId']}:1", "zones": ZONES,
            "subnets": {each["AvailabilityZone"]: each["SubnetId"] for each in subnets},
            "securityGroups": [self.ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
            "market": "spot", "mailboxBucket": BUCKET, "mailboxRegion": REGION, "pool": "a10g",
            "tags": {"team": "ml"}, "deadlineSec": 120, "onNoCapacity": "fail",
        }  # fmt: skip
        self.verdict: dict[str, str] | None = PASSED
        self.seconds, self._booted = 0.0, set[str]()
        monkeypatch.setattr(RealClock, "now", lambda _: self.seconds)
        monkeypatch.setattr(RealClock, "wait", lambda _, event, seconds: self._wait(seconds))

    def _wait(self, seconds: float) -> None:
        self.seconds += seconds
        for row in self.rows("running"):
            if row["InstanceId"] not in self._booted:
                self._booted.add(row["InstanceId"])
                self._boot(row["InstanceId"])

    def _boot(self, instance: str) -> None:
        data = self.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
        script = base64.b64decode(data).decode()
        # It ends itself, also if the gate was killed.
        assert "shutdown -P +7\n" in script
        url, sha256 = boot_of(script)
        _, content = send("GET", url)
        assert hashlib.sha256(content).hexdigest() == sha256
        document = json.loads(content)
        assert (document["role"], document["host"], document["config"]) == ("check", "ec2", {"pool": "a10g"})
        if self.verdict:
            assert send("PUT", Signed(**document["mailbox"]["verdict"]), json.dumps(self.verdict).encode())[0] == 200

    def rows(self, *states: str) -> list[dict[str, Any]]:
        found = [row for each in self.ec2.describe_instances()["Reservations"] for row in each["Instances"]]
        return [row for row in found if not states or row["State"]["Name"] in states]

    def ask(self, work: Callable[[Plugin], Awaitable[Any]]) -> Any:
        async def asked() -> Any:
            async with plugin() as running:
                return await work(running)

        return run(asked())

    def create(self, **changes: Any) -> dict[str, Any]:
        given = provider_pb2.CreateRequest(urn=URN, properties=struct({**self.inputs, **changes}))
        answer = self.ask(lambda running: running.stub.Create(given))
        return {name: answer.properties[name] for name in ("checkedTemplate", "verdict", "summary", "zone")}

    def refused(self, **changes: Any) -> str:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            self.create(**changes)
        return str(caught.value.details())


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with s3() as objects:
        monkeypatch.setenv("AWS_ENDPOINT_URL", os.environ["AWS_ENDPOINT_URL_S3"])
        yield Cloud(monkeypatch)
        # A check leaves no mail.
        assert objects.names("") == []


def test_the_time_limit_is_of_the_machine_and_not_of_a_developers_computer(tmp_path: Any) -> None:
    (tmp_path / "shutdown").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "shutdown").chmod(0o755)

    def printed(**variables: str) -> str:
        script = with_time_limit("#!/usr/bin/env bash\nexit 0\n", 1501)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **variables}
        return subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert (printed(), printed(GPU_AGENT_BOOT="/tmp/boot.json")) == ("-P +26\n", "")  # noqa: S108


@pytest.mark.slow
def test_a_pass_passes_the_template_on_and_terminates_the_machine(cloud: Cloud) -> None:
    template = cloud.inputs["template"]
    assert cloud.create() == {
        "checkedTemplate": template,
        "verdict": "pass",
        "summary": PASSED["summary"],
        "zone": ZONES[0],
    }
    [row] = cloud.rows()
    tags = {each["Key"]: each["Value"] for each in row["Tags"]}
    assert (row["State"]["Name"], tags["team"], row["InstanceLifecycle"]) == ("terminated", "ml", "spot")
    assert tags["gpu-ci:gate"]


@pytest.mark.slow
def test_a_fail_or_no_verdict_is_an_error_and_terminates_the_machine(cloud: Cloud) -> None:
    cloud.verdict = {"verdict": "fail", "summary": "GPU 0: wrong numbers"}
    assert f"the smoke check failed in {ZONES[0]}: GPU 0: wrong numbers" in cloud.refused(onNoCapacity="unproven")
    cloud.verdict = None
    assert "no verdict within 120 s of the start" in cloud.refused()
    assert [row["State"]["Name"] for row in cloud.rows()] == ["terminated"] * 2


@pytest.mark.slow
def test_without_capacity_the_next_zone_is_tried(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.models import EC2Backend

    real, empty = EC2Backend.run_instances, {cloud.inputs["subnets"][ZONES[0]]}

    def run_instances(self: EC2Backend, *given: Any, **named: Any) -> Any:
        if any(subnet in str((given, named)) for subnet in empty):
            raise EC2ClientError("InsufficientInstanceCapacity", "We have none.")
        return real(self, *given, **named)

    monkeypatch.setattr(EC2Backend, "run_instances", run_instances)
    assert cloud.create()["zone"] == ZONES[1]
    empty |= set(cloud.inputs["subnets"].values())
    assert "no zone had capacity for the check machine: eu-west-1a, eu-west-1b" in cloud.refused()
    assert cloud.create(onNoCapacity="unproven")["verdict"] == "unproven"


@pytest.mark.slow
def test_a_machine_that_ec2_ends_is_preempted_and_one_that_ends_itself_fails(cloud: Cloud) -> None:
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.instances import StateReason

    def end(reason: str) -> Callable[[str], None]:
        def boot(instance: str) -> None:
            machine = ec2_backends["123456789012"][REGION].get_instance(instance)
            machine.terminate()
            machine.state_reason = StateReason(reason, reason)

        return boot

    cloud._boot = end("Server.SpotInstanceTermination")  # type: ignore[method-assign]
    assert "no zone had capacity" in cloud.refused()
    # EC2 refuses a client token with the subnet of another zone.
    assert len({row["ClientToken"] for row in cloud.rows()}) == 2
    cloud._boot = end("Client.InstanceInitiatedShutdown")  # type: ignore[method-assign]
    assert "stopped without a verdict" in cloud.refused()
    cloud._boot = end("Server.InsufficientInstanceCapacity")  # type: ignore[method-assign]
    assert "no zone had capacity" in cloud.refused()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_machine_and_after_a_crash_the_next_check_does(cloud: Cloud, number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", _PLUGIN], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, grpc.insecure_channel(f"127.0.0.1:{process.stdout.readline().strip()}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        call = stub.Create.future(provider_pb2.CreateRequest(urn=URN, properties=struct(cloud.inputs)))
        until = time.monotonic() + 60
        while not cloud.rows() and not call.done() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        print(call.exception(timeout=60))
        process.wait(timeout=60)
    [first] = cloud.rows()
    assert first["State"]["Name"] == ("terminated" if number == signal.SIGTERM else "running")
    assert cloud.create()["verdict"] == "pass"
    assert [row["State"]["Name"] for row in cloud.rows()] == ["terminated"] * 2


@pytest.mark.slow
def test_without_access_to_the_mail_no_machine_starts_and_one_that_runs_is_terminated_at_once(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, allowed = S3Objects.read, [False]

    def read(self: S3Objects, key: str, *given: Any) -> bytes | None:
        if allowed and allowed.pop():
            return real(self, key, *given)
        raise ObjectsError(f"{key}: Access Denied", is_temporary=False)

    monkeypatch.setattr(S3Objects, "read", read)
    assert "Access Denied" in cloud.refused()
    assert cloud.rows() == []
    allowed.append(True)
    cloud.seconds = 0.0
    assert "Access Denied" in cloud.refused()
    assert [row["State"]["Name"] for row in cloud.rows()] == ["terminated"]
    assert cloud.seconds < 60


@pytest.mark.slow
def test_the_error_without_credentials_names_them(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    text = cloud.refused()
    assert "Unable to locate credentials" in text
    assert "get-caller-identity" in text
    assert cloud.rows() == []
