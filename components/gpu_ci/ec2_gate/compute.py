"""Starts, watches and terminates the check machines of one gate on EC2. The verdict arrives in the mailbox.

An instance has no time limit in EC2. So the boot script of a check machine also sets one, at which the machine switches
itself off and terminates, in case the gate was killed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, NoReturn

from ..aws.ec2_requests import CREDENTIALS, NO_CAPACITY, NOT_YET, OVER_QUOTA, RATE_LIMITED, START_FAILED, market_options
from ..aws.limits.eks_api import Account, AwsClient
from ..aws.limits.eks_api import ApiError as SdkError
from ..gcp.gate.compute_api import GONE, ApiError, Operation
from ..gcp.gate.runner import GATE_LABEL
from ..mailbox.boot import GATE, Definition, mail_key, post_boot
from ..mailbox.objects import Objects, ObjectsError, S3Objects

GATE_TAG = "gpu-ci:gate"
"""Tag with the gate and the template. The deployer may terminate only instances with this tag."""
_ID_TAG = "gpu-ci:machine-id"
_ROLE = "check"
# A missing capacity has status 500, which the SDK repeats.
_ATTEMPTS = 2
_NOT_LISTED = "InvalidInstanceID.NotFound"
_STATES = {
    "pending": "PROVISIONING", "running": "RUNNING", "shutting-down": "STOPPING", "stopping": "STOPPING",
    "stopped": "STOPPED", "terminated": "TERMINATED",
}  # fmt: skip
_NOT_ENDED = "pending", "running", "stopping", "stopped"
# Reasons of Instance.StateReason of an instance that EC2 or a request has ended, and not the machine itself.
_ENDED_BY_OTHERS = "Server.SpotInstanceShutdown", "Server.SpotInstanceTermination", "Client.UserInitiatedShutdown"


class Ec2Error(ApiError):
    """An error of AWS. `reason` is AWS's code, or empty if AWS did not answer."""

    @property
    def no_capacity(self) -> bool:
        return self.reason in NO_CAPACITY or START_FAILED.get(self.reason) == "no-capacity"

    @property
    def over_quota(self) -> bool:
        return self.reason in OVER_QUOTA or START_FAILED.get(self.reason) == "over-quota"

    @property
    def not_yet(self) -> bool:
        return self.reason in NOT_YET or not self.reason

    @property
    def rate_limited(self) -> bool:
        return self.reason in RATE_LIMITED

    @property
    def about_credentials(self) -> bool:
        """True if the credentials are missing or not valid."""
        return self.reason in CREDENTIALS or "credentials" in self.message


class Ec2Compute:
    """The API of one gate, for one thread. Implements ComputeApi, except what Compute Engine alone has.

    `project` is not used. The id of a machine is made from its zone and name. It is the client token, so that a
    repeated request starts no second instance, and a tag.
    """

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        """Create the API with the inputs of the gate. Raise Ec2Error if there are no credentials."""
        self._inputs = inputs
        self._objects: Objects = S3Objects(inputs["mailboxBucket"], inputs["mailboxRegion"])
        self._definition: Definition | None = None
        self._lost_mailbox: ObjectsError | None = None
        try:
            self._ec2 = AwsClient("ec2", Account(inputs["region"]), _ATTEMPTS)
        except SdkError as error:
            raise Ec2Error(error.code, str(error)) from None

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:  # noqa: ARG002 - as on Compute Engine
        """Read the definition in the user data of the template. Return nothing, because EC2 adds the rest itself."""
        template_id, _, version = name.partition(":")
        found = self._call("describe_launch_template_versions", LaunchTemplateId=template_id, Versions=[version])
        data = found["LaunchTemplateVersions"][0]["LaunchTemplateData"].get("UserData", "")
        try:
            self._definition = Definition.parse(base64.b64decode(data, validate=True).decode())
        except (binascii.Error, ValueError) as error:
            raise Ec2Error("no-definition", f"the launch template {name}: {error}") from None
        return {}

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str) -> Operation:  # noqa: ARG002
        """Post the boot document, and request the instance."""
        inputs, name, machine_id = self._inputs, str(body["name"]), self._id(zone, str(body["name"]))
        limit_sec = int(body["scheduling"]["maxRunDuration"]["seconds"])
        labels = {**body["labels"]}
        tags = {"Name": name, GATE_TAG: labels.pop(GATE_LABEL), _ID_TAG: machine_id, **labels}
        assert self._definition is not None  # noqa: S101 - the runner reads the template first
        try:
            script = post_boot(
                self._objects, GATE, name, machine_id, "ec2", self._definition, boot_sec=limit_sec, role=_ROLE
            )
            # A machine is worth its price only if its verdict can be read.
            self._objects.read(mail_key(GATE, machine_id, "verdict"))
        except ObjectsError as error:
            _raise(error)
        tagged = ["instance", "volume", *(["spot-instances-request"] if inputs["market"] == "spot" else [])]
        launch_template, _, version = template.rpartition("/")[2].partition(":")
        answer = self._call(
            "run_instances",
            MinCount=1,
            MaxCount=1,
            ClientToken=machine_id,
            LaunchTemplate={"LaunchTemplateId": launch_template, "Version": version},
            UserData=with_time_limit(script, limit_sec),
            InstanceInitiatedShutdownBehavior="terminate",
            NetworkInterfaces=[
                {
                    "DeviceIndex": 0,
                    "SubnetId": inputs["subnets"][zone],
                    "Groups": list(inputs["securityGroups"]),
                    "AssociatePublicIpAddress": False,
                    "DeleteOnTermination": True,
                }
            ],
            TagSpecifications=[
                {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
                for kind in tagged
            ],
            **market_options(inputs["market"], inputs.get("capacityReservationId", "")),
        )
        return Operation("", done=True, target_id=str(answer["Instances"][0]["InstanceId"]))

    def delete(self, project: str, zone: str, name: str) -> str:  # noqa: ARG002
        """Terminate an instance, given by the machine's name or by its own id, and delete its mail."""
        row = self._row(zone, name)
        if row and row["State"]["Name"] != "terminated":
            self._call("terminate_instances", InstanceIds=[row["InstanceId"]])
        tags = {each["Key"]: each["Value"] for each in row.get("Tags", ())} if row else {}
        with suppress(ObjectsError):  # mail expires
            for key in self._objects.names(mail_key(GATE, tags.get(_ID_TAG) or self._id(zone, name))):
                self._objects.delete(key)
        if row is None:
            raise Ec2Error(_NOT_LISTED, f"{name} does not exist", 404)
        return str(row["InstanceId"])

    def done(self, project: str, zone: str, operation: str) -> bool:  # noqa: ARG002
        """Return True if an instance has been terminated."""
        row = self._row(zone, operation)
        return row is None or row["State"]["Name"] == "terminated"

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:  # noqa: ARG002
        """Return the ids of the gate's instances in a zone that have not ended."""
        rows = self._rows({f"tag:{GATE_TAG}": [value], "instance-state-name": _NOT_ENDED})
        return [str(row["InstanceId"]) for row in rows if row["Placement"]["AvailabilityZone"] == zone]

    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[dict[str, Any]]:  # noqa: ARG002
        """Return nothing: the manager has no stopped machines on EC2."""
        return []

    def status(self, project: str, zone: str, name: str) -> tuple[str, str]:  # noqa: ARG002
        """Return the state and the id of an instance. Raise Ec2Error if it could not start, or without a mailbox."""
        if self._lost_mailbox:
            _raise(self._lost_mailbox)
        row = self._row(zone, name)
        if row is None:
            raise Ec2Error(_NOT_LISTED, f"AWS does not list {name} yet")
        state, reason = _STATES[row["State"]["Name"]], row.get("StateReason", {})
        code = reason.get("Code", "")
        if state == "TERMINATED" and code in START_FAILED:
            raise Ec2Error(code, reason.get("Message", code))
        return (GONE if state == "TERMINATED" and code in _ENDED_BY_OTHERS else state), str(row["InstanceId"])

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:  # noqa: ARG002
        """Return what the machine has written into its mailbox, or ""."""
        try:
            found = self._objects.read(mail_key(GATE, self._id(zone, name), key.rpartition("/")[2]))
        except ObjectsError as error:
            # The runner would go on without this source. A permanent error ends the check in `status`.
            self._lost_mailbox = None if error.is_temporary else error
            raise Ec2Error("Unavailable", str(error)) from None
        return found.decode(errors="replace") if found else ""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:  # noqa: ARG002
        """Return nothing, because EC2 shows the output of a console minutes later."""
        return "", 0

    def _id(self, zone: str, name: str) -> str:
        """Return the id of a machine. The end of its name is random, and equal in all zones of a check.

        Each stack has its own bucket. A client token may not come back with the subnet of another zone.
        """
        return hashlib.sha256(f"{self._inputs['mailboxBucket']} {zone} {name}".encode()).hexdigest()[:12]

    def _row(self, zone: str, name: str) -> dict[str, Any] | None:
        if name.startswith("i-"):
            return next(iter(self._rows({"instance-id": [name]})), None)
        return next(iter(self._rows({f"tag:{_ID_TAG}": [self._id(zone, name)]})), None)

    def _rows(self, filters: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
        wanted = [{"Name": name, "Values": list(values)} for name, values in filters.items()]
        answer = self._call("describe_instances", Filters=wanted)
        return [row for each in answer["Reservations"] for row in each["Instances"]]

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        try:
            return self._ec2.call(operation, **arguments)
        except SdkError as error:
            raise Ec2Error(error.code, str(error)) from None


def with_time_limit(script: str, limit_sec: int) -> str:
    """Return a boot script that also switches its machine off after this time, in whole minutes.

    A machine of the sandbox, which has GPU_AGENT_BOOT, is a process on the computer of a developer.
    """
    first, _, rest = script.partition("\n")
    return f'{first}\n[[ -n "${{GPU_AGENT_BOOT-}}" ]] || shutdown -P +{ceil(limit_sec / 60)}\n{rest}'


def _raise(error: ObjectsError) -> NoReturn:
    raise Ec2Error("Unavailable" if error.is_temporary else "mailbox", str(error)) from None
