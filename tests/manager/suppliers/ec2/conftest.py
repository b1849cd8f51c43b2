"""AWS as moto emulates it: its server on 127.0.0.1, with machines that are threads of the test."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from gpu_ci.mailbox.boot import Definition
from gpu_ci.mailbox.objects import Signed
from gpu_manager.suppliers.ec2 import api
from gpu_manager.suppliers.ec2.pool import Bucket, Ec2Offer, Ec2Pool
from gpu_manager.suppliers.ec2.supplier import Ec2
from pulumi_sandbox.providers.aws.ec2 import accept_user_data

from tests.manager.suppliers.contract import public_key

REGION, ZONE, ACCOUNT = "us-east-1", "us-east-1a", "123456789012"
BUCKET = Bucket("acme-mail", REGION)
SUBNET, GROUP, TEMPLATE = "subnet-0a1b2c3d4e5f60718", "sg-0a1b2c3d4e5f60718", "lt-0a1b2c3d4e5f60718:1"
SUBNETS = {
    zone: f"subnet-0a1b2c3d4e5f6071{number}"
    for number, zone in enumerate(("us-east-1a", "us-east-1b", "us-east-1c", "us-west-2b"))
}
DEFINITION = Definition({}, {"agent": "a" * 64, "smoke": "b" * 64})


def pool(template: str = TEMPLATE, subnet: str = SUBNET, group: str = GROUP, **fields: Any) -> Ec2Pool:
    offer = Ec2Offer(zone=ZONE, machine_type="g6.2xlarge", market="spot", subnet=subnet, security_groups=(group,))
    own = {"name": "l4", "account": ACCOUNT, "template": template, "rungs": (offer,), "max": 2, "labels": {"gpu"}}
    return Ec2Pool(**{**own, "mailbox": BUCKET, **fields})


class Memory:
    """The objects of a mailbox in memory. Implements Objects."""

    def __init__(self, *_: str) -> None:
        self.objects: dict[str, bytes] = {}
        self.written_at: dict[str, float] = {}

    def read(self, key: str, most_bytes: int | None = None) -> bytes | None:
        return self.objects.get(key)

    def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
        if only_new and key in self.objects:
            return False
        self.objects[key], self.written_at[key] = data, self.unix()
        return True

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def unix(self) -> float:
        return time.time()

    def names(self, prefix: str) -> list[str]:
        return list(self.times(prefix))

    def times(self, prefix: str) -> dict[str, float]:
        return {key: self.written_at[key] for key in sorted(self.objects) if key.startswith(prefix)}

    def signed(self, method: str, key: str, within_sec: int, *, only_new: bool = False) -> Signed:
        return Signed(f"https://example.com/{key}")


class Moto:
    """The vendor of the contract."""

    def __init__(self, server: Any, session: Session) -> None:
        self._server, self._stopped = server, threading.Event()
        self.ec2 = session.create_client("ec2", region_name=REGION)
        self.s3 = session.create_client("s3", region_name=REGION)
        self.s3.create_bucket(Bucket=BUCKET.bucket)
        [subnet] = self.ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": [ZONE]}])["Subnets"]
        self._place = subnet["SubnetId"], self.ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        self._received: dict[str, str] = {}
        self._threads = [threading.Thread(target=self._boot_machines, daemon=True)]
        self._threads[0].start()

    def supplier(self, manager: str = "staging") -> Ec2:
        return Ec2(manager, BUCKET)

    def pool(self, does: str) -> Ec2Pool:
        text = Definition({"does": does}, DEFINITION.payloads).text()
        data = {"ImageId": "ami-12c6146b", "UserData": base64.b64encode(text.encode()).decode()}
        made = self.ec2.create_launch_template(LaunchTemplateName=does, LaunchTemplateData=data)["LaunchTemplate"]
        return pool(f"{made['LaunchTemplateId']}:1", *self._place)

    def received(self, name: str) -> str:
        return self._received.get(name, "")

    def fail(self) -> None:
        self.close()

    def tags(self) -> dict[str, str]:
        """Return the tags of the first instance, without those of AWS."""
        return {
            each["Key"]: each["Value"] for each in self.instances()[0]["Tags"] if each["Key"].startswith(("gpu", "N"))
        }

    def instances(self) -> list[dict[str, Any]]:
        return [row for each in self.ec2.describe_instances()["Reservations"] for row in each["Instances"]]

    def end(self, instance: str, reason: str) -> None:
        """Terminate an instance for a reason for which moto has no request: its machine or EC2 ended it."""
        from moto.ec2.models.instances import StateReason

        machine = self._backend().get_instance(instance)
        machine.terminate()
        machine.state_reason = StateReason(reason, reason)

    def forget(self, instance: str) -> None:
        """Remove an instance from moto's list, as EC2 does an hour after its end, or before its list has it."""
        [reservation] = [each for each in self._backend().reservations.values() if each.instances[0].id == instance]
        del self._backend().reservations[reservation.id]

    def _backend(self) -> Any:
        from moto.ec2.models import ec2_backends

        return ec2_backends[ACCOUNT][REGION]

    def close(self) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join()
        self._server.stop()

    def _boot_machines(self) -> None:
        booted: set[str] = set()
        while not self._stopped.wait(0.05):
            for row in self.instances():
                if row["State"]["Name"] == "running" and row["InstanceId"] not in booted:
                    booted.add(row["InstanceId"])
                    self._threads.append(threading.Thread(target=self._boot, args=(row["InstanceId"],), daemon=True))
                    self._threads[-1].start()

    def _boot(self, instance: str) -> None:
        """Do what the boot script and the agent do with the boot document."""
        data = None
        with suppress(ClientError):  # the test may have removed it
            data = self.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]
        if not data:
            return
        script = base64.b64decode(data["Value"]).decode()
        content = _send("GET", re.findall("^BOOT_URL='(.+)'$", script, re.MULTILINE)[0])
        assert hashlib.sha256(content).hexdigest() in script
        document = json.loads(content)
        mail, name = document["mailbox"], document["machine"]
        if document["config"]["does"] == "ends":
            _send("PUT", data=b'{"reason": "job-done"}', **mail["end"])
            self.end(instance, "Client.InstanceInitiatedShutdown")
        elif document["config"]["does"] == "publishes":
            _send("PUT", data=public_key(name).encode(), **mail["key"])
            while not self._stopped.wait(0.05):
                with suppress(OSError):
                    self._received[name.rpartition("-")[0]] = _send("GET", **mail["registration"]).decode()
                    return


def _send(method: str, url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> bytes:
    # moto drops the body of urllib's own content type, that of a form.
    content = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(url, data, {**content, **(headers or {})}, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return bytes(answer.read())


@pytest.fixture(scope="session")
def session() -> Session:
    """Return a session that has read the definition of EC2, which takes a second."""
    return Session()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    """Let all clients use one session, with credentials that AWS does not know."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(api, "Session", lambda: session)


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch, aws: None, session: Session) -> Iterator[Moto]:
    from moto.server import ThreadedMotoServer

    accept_user_data()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    _send("POST", f"http://{host}:{port}/moto-api/reset", data=b"")
    moto = Moto(server, session)
    yield moto
    moto.close()
