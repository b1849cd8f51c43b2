"""EC2 and S3: moto in this process, whose instances run as processes of this computer.

moto is an emulator of AWS that others keep (docs.getmoto.org). It is imported at the first request, which takes some
seconds. It gets the launch templates, buckets and objects of the world (emulated cloud state). Its own state ends with
this process. The world has the instances that run.
"""

from __future__ import annotations

import base64
import importlib
import os
import re
import shutil
import signal
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.permissions import Caller
from pulumi_sandbox.providers.machines import settings
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request
from pulumi_sandbox.providers.machines.vm_processes import Boot, VmProcesses, is_running, soft_off
from pulumi_sandbox.providers.sdk.reader import snake
from pulumi_sandbox.world.store import Record

BUCKET, OBJECT = "aws:s3/bucket:Bucket", "aws:s3/bucketObjectv2:BucketObjectv2"
CONSOLE, GUEST = "serialPortOutput", "guest"
"""The outputs with the text of an instance's console, as for a Compute Engine VM, and with its process."""
FAULTS = {
    # github.com/fedora-copr/copr/issues/3279
    "stockout": (
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient {} capacity in the Availability Zone you requested ({}).",
    ),
    # github.com/bentoml/bentoctl/issues/202
    "quota": (
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket.",
    ),
}
# A path with the bucket, because the host is an IP address.
_SIGNED_URL = re.compile(r"http://127\.0\.0\.1:\d+/([^/?]+)/([^?']+/)[^/?']+\?")


class Ec2:
    """The server, and the instances that run."""

    def __init__(
        self, caller: Caller, guests: VmProcesses, disks: Path, zone_of: Callable[[str, str], str], port: int
    ) -> None:
        """Start the server. Raises OSError.

        `disks` is the folder with the disks of instances, named after their ids. `zone_of` returns the zone of a
        subnet in a region.
        """
        self._caller, self._world, self._account = caller, caller.world, caller.account
        self._guests, self._disks, self._zone_of = guests, disks, zone_of
        self._objects: set[str] = set()
        self._moto: Any = None
        self._starts = threading.Lock()
        self._metadata: LocalServer | None = None
        self._server = LocalServer("ec2", self._answer, ("DELETE", "GET", "POST", "PUT"), port=port)

    def close(self) -> None:
        """Switch every instance off and stop the server."""
        self._guests.close()
        self._server.close()
        if self._metadata:
            self._metadata.close()

    def _answer(self, request: Request) -> Answer:
        form = parse_qs(request.content.decode(errors="replace")) if request.path == "/" else {}
        for denial in self._caller.call(f"ec2.{snake(form.get('Action', [''])[0])}"):
            return _error(403, denial.code, denial.message)
        try:
            return self._answer_of_moto(request)
        except Exception as error:  # like any server, answer 500 and continue
            return _error(500, "InternalError", f"The sandbox's EC2 and S3 failed: {error!r}")

    def _answer_of_moto(self, request: Request) -> Answer:
        with self._starts:
            app = self._moto = self._moto or self._started()
            self._copy_world()
        from werkzeug.test import create_environ, run_wsgi_app

        host, headers = f"http://{request.headers['Host']}", dict(request.headers)
        environ = create_environ(request.path, host, method=request.command, headers=headers, data=request.content)
        content, status, answered = run_wsgi_app(app, environ, buffered=True)
        others = {name: value for name, value in answered if name not in ("Content-Type", "Content-Length")}
        return Answer(int(status.split()[0]), "", answered.get("Content-Type", ""), others, b"".join(content))

    def _started(self) -> Any:
        """Return moto's application."""
        os.environ["MOTO_ACCOUNT_ID"] = self._account
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        warnings.filterwarnings("ignore", module=r"moto\.")  # moto has not the images of the world
        accept_user_data()
        for row in self._world.find(types.INSTANCE):
            guest = row.outputs.get(GUEST)
            # An instance of a process that was killed has ended.
            if row.origin == "api" and not (guest and is_running(guest["pid"], guest["started"])):
                self._world.delete(types.INSTANCE, row.id)
        self._metadata = LocalServer("imds", instance_metadata, ("GET", "PUT"))
        return DomainDispatcherApplication(create_backend_app)

    def _backend(self, region: str) -> Any:
        """Return moto's EC2 in a region. Its instances boot."""
        from moto.ec2.models import ec2_backends

        backend: Any = ec2_backends[self._account][region]
        if "run_instances" not in vars(backend):
            backend.run_instances = partial(self._run_instances, backend, backend.run_instances)
            backend.start_instances = partial(self._start_instances, backend.start_instances)
            backend.stop_instances = partial(self._switch_off, backend.stop_instances)
            backend.terminate_instances = partial(self._switch_off, backend.terminate_instances)
        return backend

    def _add_subnet(self, backend: Any, subnet_id: str) -> str:
        """Return the zone of a subnet. moto gets the subnet."""
        zone = self._zone_of(subnet_id, backend.region_name)
        if subnet_id not in backend.subnets[zone]:
            # moto's default subnets have the first half of the network.
            block = f"172.31.{128 + len(backend.describe_subnets())}.0/24"
            subnet = backend.create_subnet(backend.get_default_vpc().id, block, availability_zone=zone)
            backend.subnets[zone][subnet_id] = backend.subnets[zone].pop(subnet.id)
            subnet.id = subnet_id
        return zone

    def _copy_world(self) -> None:
        """Give moto the launch templates, buckets and objects that it does not have."""
        from moto.s3.models import s3_backends

        for row in self._world.find(types.LAUNCH_TEMPLATE):
            self._add_template(row)
        backend: Any = s3_backends[self._account]["aws"]
        for row in self._world.find(BUCKET):
            if row.id not in backend.buckets:
                backend.create_bucket(row.id, str(row.outputs["region"]))
        for row in self._world.find(OBJECT):
            bucket, content = str(row.outputs["bucket"]), row.outputs.get("contentBase64")
            if content and row.id not in self._objects and bucket in backend.buckets:
                backend.put_object(bucket, str(row.outputs["key"]), base64.b64decode(content))
                self._objects.add(row.id)

    def _add_template(self, row: Record) -> None:
        from moto.core.types import Base64EncodedString

        backend, name = self._backend(str(row.outputs["region"])), str(row.outputs["name"])
        fields = {"ImageId": "imageId", "InstanceType": "instanceType", "UserData": "userData"}
        # The world has only the digest of a value that is a Pulumi secret.
        data = {ours: row.outputs[key] for ours, key in fields.items() if isinstance(row.outputs.get(key), str)}
        if "UserData" in data:
            data["UserData"] = Base64EncodedString(data["UserData"])
        if row.id not in backend.launch_templates:
            backend.launch_template_name_to_ids.pop(name, None)  # of a template that the stack has deleted
            template = backend.create_launch_template(name, "", data, {})
            backend.launch_templates[row.id] = backend.launch_templates.pop(template.id)
            backend.launch_template_name_to_ids[name] = template.id = row.id
        template = backend.launch_templates[row.id]
        while template.latest_version_number < int(row.outputs["latestVersion"]):  # the world has the newest version
            template.create_version(data, "")

    def _run_instances(self, backend: Any, run: Any, *arguments: Any, **values: Any) -> Any:
        from moto.ec2.exceptions import EC2ClientError

        if not self._guests.settings.runs:
            text = f"sandbox.yaml lets no machine run on this computer\n  {settings.HINT}"
            raise EC2ClientError("UnsupportedOperation", text)
        name = values["tags"].get("instance", {}).get("Name", "")
        subnet = next((each["SubnetId"] for each in values["nics"] if "SubnetId" in each), values.get("subnet_id"))
        zone = self._add_subnet(backend, subnet) if subnet else ""
        self._raise_fault(name, zone, values["instance_type"])
        reservation = run(*arguments, **values)
        for instance in reservation.instances:
            script = instance.user_data.decode() if instance.user_data else ""
            if self._guests.settings.assumed is None:
                self._boot(name or instance.id, instance, script)
            else:
                self._write_assumed(script)
        return reservation

    def _raise_fault(self, name: str, zone: str, instance_type: str) -> None:
        from moto.ec2.exceptions import EC2ClientError

        for kind, (code, text) in FAULTS.items():
            if fault := self._world.take_fault(kind, types.INSTANCE, name, zone=zone):
                raise EC2ClientError(code, fault.message or text.format(instance_type, zone))

    def _start_instances(self, start: Any, instance_ids: list[str]) -> Any:
        """Boot stopped instances with the user data that they have now."""
        [(instance, before)] = started = start(instance_ids)
        if before.name == "stopped":
            name = next((each["value"] for each in instance.get_tags() if each["key"] == "Name"), instance.id)
            try:
                self._raise_fault(name, instance.availability_zone, instance.instance_type)
            except Exception:
                instance.stop()
                raise
            self._boot(name, instance, instance.user_data.decode())
        return started

    def _write_assumed(self, script: str) -> None:
        """Write the assumed guest attributes of a VM, which EC2 does not have, next to an object that it may read."""
        from moto.s3.models import s3_backends

        if found := _SIGNED_URL.search(script):
            for name, value in (self._guests.settings.assumed or {}).items():
                key = found[2] + name.rpartition("/")[2]
                s3_backends[self._account]["aws"].put_object(found[1], key, value.encode())

    def _boot(self, name: str, instance: Any, script: str) -> None:
        outputs = {"name": name, "instanceType": instance.instance_type, "availabilityZone": instance.availability_zone}
        self._world.insert(Record(types.INSTANCE, instance.id, name, "", {}, {**outputs, CONSOLE: ""}, "api"))
        assert self._metadata is not None  # noqa: S101 - moto has started
        disk = self._disks / instance.id
        fault = self._world.take_fault("guest", types.INSTANCE, name, zone=instance.availability_zone, id=instance.id)
        guest = self._guests.boot(
            Boot(
                id=instance.id,
                script=script,
                machine=None,
                # Where the boot script and the agent of a machine of gpu-ci find what /run and 169.254.169.254 have.
                environment={
                    "GPU_AGENT_BOOT": str(disk / "boot.json"),
                    "GPU_AGENT_IMDS": f"http://{self._metadata.address}",
                    **(fault.settings if fault else {}),
                },
                limit_sec=None,
                disk=disk,
                serial=lambda text: self._change(instance.id, lambda old: {CONSOLE: old[CONSOLE] + text}),
                ended=lambda _: self._ended(instance),
            )
        )
        instance.guest = guest
        self._change(instance.id, lambda _: {GUEST: guest})

    def _change(self, instance: str, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        with self._world.transaction():
            if row := self._world.get(types.INSTANCE, instance):
                outputs = {**row.outputs, **changed(row.outputs)}
                self._world.update(types.INSTANCE, instance, outputs=outputs, quiet=True)

    def _switch_off(self, change: Any, instance_ids: list[str]) -> Any:
        """Stop or terminate instances. An instance that is being stopped is on until its process has ended."""
        ended = change(instance_ids)
        for instance, _ in ended:
            guest = getattr(instance, "guest", None)
            if guest and self._guests.runs(instance.id):
                if instance.state == "stopped":
                    instance._state.name, instance._state.code = "stopping", 64
                soft_off(int(guest["pid"]), str(guest["started"]), signal.SIGTERM)
            elif instance.state == "terminated":
                shutil.rmtree(self._disks / instance.id, ignore_errors=True)
        return ended

    def _ended(self, instance: Any) -> None:
        """Record that an instance is off. Its own shutdown terminates or stops it, as its shutdown behavior says."""
        from moto.ec2.models.instances import StateReason

        if instance.state == "running":
            is_terminated = instance.instance_initiated_shutdown_behavior == "terminate"
            instance.terminate() if is_terminated else instance.stop()
            code = "Client.InstanceInitiatedShutdown"
            instance.state_reason = StateReason(f"{code}: Instance initiated shutdown", code)
        elif instance.state == "stopping":
            instance.stop()
        self._world.delete(types.INSTANCE, instance.id)
        if instance.state == "terminated":
            shutil.rmtree(self._disks / instance.id, ignore_errors=True)


def accept_user_data() -> None:
    """Let moto accept user data in ModifyInstanceAttribute that a client has encoded once. It expects it twice."""
    from moto.core.types import Base64EncodedString

    instances: Any = importlib.import_module("moto.ec2.responses.instances")
    parse = instances.parse_user_data

    def parsed(value: Any) -> Any:
        return Base64EncodedString.from_raw_bytes(value) if isinstance(value, bytes) else parse(value)

    instances.parse_user_data = parsed


def _error(status: int, code: str, message: str) -> Answer:
    error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    return Answer(status, f"<Response><Errors><Error>{error}</Error></Errors></Response>", "text/xml")


def instance_metadata(request: Request) -> Answer:
    """Answer as the instance metadata service of an instance without a notice."""
    is_token = request.command == "PUT" and request.path == "/latest/api/token"
    return Answer(200, "token", "text/plain") if is_token else Answer(404, "Not Found", "text/plain")
