"""Emulate the node launches of the cluster autoscaler and their failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulumi_sandbox.providers.aws.eks import faults
from pulumi_sandbox.providers.aws.eks.api import ACTIVITY as LAUNCH_FAILED
from pulumi_sandbox.providers.aws.references import scaling_groups
from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.invokes import Lookups
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import NODE_GROUP, Group
from pulumi_sandbox.providers.resource import Log
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

# The messages and the wait come from https://github.com/kubernetes/autoscaler/issues/3042 and pull/5756.
TRIGGERED = "TriggeredScaleUp: pod triggered scale-up: [{{{group} {now}->{then} (max: {most})}}]"
ACTIVITY = "the activity of the Auto Scaling group {group}: Failed: {message}"
NO_NODE = "the cluster autoscaler: Instance group {group} cannot provision any more nodes!"
NEXT_TRY = "the cluster autoscaler tries again after 5 minutes; the sandbox tries again at once"


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
        row = self.world.get(NODE_GROUP, f"{group.cluster}:{group.name}")
        if row is None or not {"quota", "stockout"} & {fault.kind for fault in self.world.faults()}:
            return False
        aws_lookups = Lookups(Shapes.for_package("aws", self.workspace.cache), self.workspace.settings_file)
        existing = ExistingResources(self.world, values=aws_lookups.values)
        launch_error = faults.launch(existing, row.name, row.inputs, row.id, str(row.outputs.get("region") or ""))
        if launch_error is None:
            return False
        fault, message = launch_error
        self.world.event(LAUNCH_FAILED, NODE_GROUP, row.id, message, row.cluster)
        scaling_group = next(iter(scaling_groups(row.outputs)), f"eks-{group.name}")
        self.log(
            TRIGGERED.format(group=scaling_group, now=group.desired, then=group.desired + 1, most=group.max_nodes),
            "info",
        )
        self.log(ACTIVITY.format(group=scaling_group, message=message), "info")
        self.log(NO_NODE.format(group=scaling_group), "info")
        if fault.times == 0:
            self.permanently_refused.add(group.name)
        else:
            self.log(NEXT_TRY, "info")
        return True
