"""The provider of the custom resource aws.SmokeGate, which exists only in the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..args import Args
from ..aws.smoke_gate import SmokeGateArgs
from ..gcp.gate.compute_api import ApiError, ComputeApi
from ..gcp.gate.runner import CheckSpec, GateRunner
from ..gcp.gate.service import GateService
from .compute import Ec2Compute, Ec2Error


class Ec2GateService(GateService):
    """Creates, changes and deletes SmokeGate resources of AWS."""

    ARGS: ClassVar[type[Args]] = SmokeGateArgs
    REPLACES: ClassVar[tuple[str, ...]] = ("template", "pool")
    VENDOR: ClassVar[str] = "AWS"

    def api(self, inputs: Mapping[str, Any]) -> ComputeApi:
        """Return the API of one gate. It loads botocore."""
        return Ec2Compute(inputs)

    def spec(self, urn: str, inputs: Mapping[str, Any]) -> CheckSpec:
        """Return the check. Its template has the form of a link, in which the runner finds region and name."""
        return CheckSpec(
            gate=urn,
            project="",
            template=f"regions/{inputs['region']}/launchTemplates/{inputs['template']}",
            zones=inputs["zones"],
            pool=inputs["pool"],
            labels=inputs.get("tags", {}),
            deadline_sec=int(inputs["deadlineSec"]),
            on_no_capacity=inputs["onNoCapacity"],
            # A Capacity Block is not preempted.
            market="spot" if inputs["market"] == "spot" else "standard",
        )

    def refused(self, error: ApiError, spec: CheckSpec) -> str:  # noqa: ARG002 - the error says it all
        """Return the message for an error with which AWS rejected the check machine."""
        hint = ""
        if error.over_quota:
            hint = "the check takes one instance in addition to the running ones: wait until one of them ends, or "
            hint += "request more in Service Quotas"
        elif isinstance(error, Ec2Error) and error.about_credentials:
            hint = "run aws sts get-caller-identity to see the identity of the environment, or log in again"
        elif error.reason in ("UnauthorizedOperation", "mailbox"):
            hint = "deploy bootstrap/, which gives the deployer the permissions of a gate (docs/start/bootstrap.md)"
        return f"AWS rejected the check machine: {error}" + (f"\n  hint: {hint}" if hint else "")

    def remove_machines(self, runner: GateRunner, spec: CheckSpec) -> None:
        """Terminate the check machines of an interrupted check."""
        runner.remove_leftovers(spec)
