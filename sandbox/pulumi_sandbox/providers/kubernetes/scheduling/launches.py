"""Emulate the node launches of the cluster autoscaler and their failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pulumi_sandbox.providers.aws.eks import faults as eks_faults
from pulumi_sandbox.providers.aws.eks.api import ACTIVITY as LAUNCH_FAILED
from pulumi_sandbox.providers.aws.references import scaling_groups
from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.gcp import gke_errors
from pulumi_sandbox.providers.gcp.gke import faults as gke_faults
from pulumi_sandbox.providers.gcp.outputs.container import group_links
from pulumi_sandbox.providers.invokes import Lookups
from pulumi_sandbox.providers.kubernetes.scheduling.eks_nodes import NODE_GROUP
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import Group
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record, World

# The messages and the wait come from https://github.com/kubernetes/autoscaler/issues/3042 and pull/5756.
TRIGGERED = "TriggeredScaleUp: pod triggered scale-up: [{{{group} {now}->{then} (max: {most})}}]"
ACTIVITY = "the activity of the Auto Scaling group {group}: Failed: {message}"
NO_NODE = "the cluster autoscaler: Instance group {group} cannot provision any more nodes!"
NEXT_TRY = "the cluster autoscaler tries again after 5 minutes; the sandbox tries again at once"


class Failure(NamedTuple):
    """A fault at a launch, with the name of the group, and the message and the lines that a user finds."""

    fault: Fault
    group: str
    message: str
    lines: tuple[str, ...]


@dataclass
class Launches:
    """The launches for the pods of one resource."""

    world: World
    workspace: Workspace
    log: Log
    permanently_refused: set[str] = field(default_factory=set)
    """Groups with a permanent fault, which would also fail a later attempt before the deadline."""

    def is_refused(self, group: Group) -> bool:
        """Return True, and log the reason, if the group cannot get another node."""
        if group.name in self.permanently_refused:
            return True
        row = self.world.get(*group.resource)
        if row is None or not {"quota", "stockout"} & {fault.kind for fault in self.world.faults()}:
            return False
        failure = self._on_eks(group, row) if row.type == NODE_GROUP else self._on_gke(group, row)
        if failure is None:
            return False
        self.world.event(LAUNCH_FAILED, row.type, row.id, failure.message, row.cluster)
        now = group.desired
        self.log(TRIGGERED.format(group=failure.group, now=now, then=now + 1, most=group.max_nodes), "info")
        for line in failure.lines:
            self.log(line, "info")
        if failure.fault.times == 0:
            self.permanently_refused.add(group.name)
        else:
            self.log(NEXT_TRY, "info")
        return True

    def _on_eks(self, group: Group, row: Record) -> Failure | None:
        aws_lookups = Lookups(Shapes.for_package("aws", self.workspace.cache), self.workspace.settings_file)
        existing = ExistingResources(self.world, values=aws_lookups.values)
        launch_error = eks_faults.launch(existing, row.name, row.inputs, row.id, str(row.outputs.get("region") or ""))
        if launch_error is None:
            return None
        fault, message = launch_error
        name = next(iter(scaling_groups(row.outputs)), f"eks-{group.name}")
        lines = (ACTIVITY.format(group=name, message=message), NO_NODE.format(group=name))
        return Failure(fault, name, message, lines)

    def _on_gke(self, group: Group, row: Record) -> Failure | None:
        zone = group.pattern.labels["topology.kubernetes.io/zone"]
        fault = gke_faults.take(self.world, row.name, row.id, zone)
        if fault is None:
            return None
        event = gke_errors.scale_up_failed(fault.kind, [zone])
        visibility = f"the autoscaler's visibility log: {gke_errors.SCALE_UP[fault.kind][1]}"
        lines = (event, f"{visibility}: {fault.message}" if fault.message else visibility)
        return Failure(fault, group_links(row.id, zone, "instanceGroups"), event, lines)
