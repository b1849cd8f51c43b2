"""The resources that exist in an AWS account of the sandbox.

They are in the world (emulated cloud state), in sandbox.yaml or in the examples, or a lookup of this run returned them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.world.store import Record, World

# The type of a resource by the prefix of its id.
KINDS = {
    "ami-": types.AMI,
    "cr-": types.CAPACITY_RESERVATION,
    "lt-": types.LAUNCH_TEMPLATE,
    "sg-": types.SECURITY_GROUP,
    "subnet-": types.SUBNET,
    "vpc-": types.VPC,
}
# The example values that lookups return. A program may also use them without a lookup.
EXAMPLES = ("amiId", "nvidiaAmiId", "bottlerocketAmiId", "subnetIds", "securityGroupId", "vpcId")


@dataclass
class ExistingResources:
    """The resources of an account by path.

    A path is an id such as `subnet-0a1b…`, or the end of an ARN: `cluster/ci`, `role/eks-node`.
    """

    world: World
    patterns: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    looked_up: set[str] = field(default_factory=set)
    """The paths of the results of lookups in this run."""

    def is_listed(self, path: str) -> bool:
        return any(fnmatchcase(path, one) for one in self.patterns)

    def has_patterns_of(self, kind: str) -> bool:
        """Return True if sandbox.yaml lists resources of a kind: `cluster/`, `subnet-`."""
        return any(one.startswith(kind) for one in self.patterns)

    def exists(self, path: str) -> bool:
        if path in self.looked_up or self.is_listed(path):
            return True
        kind = next((token for prefix, token in KINDS.items() if path.startswith(prefix)), "")
        return bool(kind and self.world.get(kind, path)) or path in self._examples()

    def _examples(self) -> list[str]:
        values = [self.values.get(name) for name in EXAMPLES]
        return [str(one) for value in values for one in (value if isinstance(value, list) else [value])]

    # -- EKS, which goes by names -------------------------------------------------------------------------------------

    def cluster(self, name: str) -> Record | None:
        return self.world.get(types.CLUSTER, name)

    def has_cluster(self, name: str) -> bool:
        return self.cluster(name) is not None or self.exists(f"cluster/{name}")

    def version(self, name: str) -> str:
        """Return the Kubernetes version of a cluster."""
        cluster = self.cluster(name)
        version_of_cluster = cluster.outputs.get("version") if cluster else None
        return str(version_of_cluster or self.values.get("kubernetesVersion") or "")

    # -- launch templates ---------------------------------------------------------------------------------------------

    def template(self, reference: Any) -> Record | None:
        """Return the launch template of a node group, by its id or its name."""
        template_id, name = table(reference).get("id"), table(reference).get("name")
        if isinstance(template_id, str) and template_id:
            return self.world.get(types.LAUNCH_TEMPLATE, template_id)
        rows = self.world.find(types.LAUNCH_TEMPLATE, name=name) if isinstance(name, str) and name else []
        return next(iter(rows), None)
