"""The resources of an account: in the world, in sandbox.yaml, in the examples, or found by a lookup of this run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.world.store import Record, World

# The type of a resource by the prefix of its id.
KINDS = {
    "cr-": types.CAPACITY_RESERVATION,
    "lt-": types.LAUNCH_TEMPLATE,
    "sg-": types.SECURITY_GROUP,
    "subnet-": types.SUBNET,
    "vpc-": types.VPC,
}
# The example values that lookups return. A program may also use them without a lookup.
EXAMPLES = ("subnetIds", "securityGroupId", "vpcId")
SERVICE_ROLE = "/aws-service-role/"


@dataclass
class CloudContext:
    """The resources of an account by path.

    A path is an id such as `subnet-0a1b…`, or the end of an ARN: `cluster/ci`, `role/eks-node`.
    """

    world: World
    patterns: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    """The paths of the results of lookups in this run."""

    def listed(self, path: str) -> bool:
        return any(fnmatchcase(path, one) for one in self.patterns)

    def lists(self, kind: str) -> bool:
        """Return True if sandbox.yaml lists resources of a kind: `cluster/`, `subnet-`."""
        return any(one.startswith(kind) for one in self.patterns)

    def exists(self, path: str) -> bool:
        if path in self.found or self.listed(path):
            return True
        kind = next((token for prefix, token in KINDS.items() if path.startswith(prefix)), "")
        return bool(kind and self.world.get(kind, path)) or path in self._examples()

    def _examples(self) -> list[str]:
        given = [self.values.get(name) for name in EXAMPLES]
        return [str(one) for value in given for one in (value if isinstance(value, list) else [value])]

    # -- EKS and IAM, which go by names -------------------------------------------------------------------------------

    def cluster(self, name: str) -> Record | None:
        return self.world.get(types.CLUSTER, name)

    def has_cluster(self, name: str) -> bool:
        return self.cluster(name) is not None or self.exists(f"cluster/{name}")

    def version(self, name: str) -> str:
        """Return the Kubernetes version of a cluster."""
        made = self.cluster(name)
        known = made.outputs.get("version") if made else None
        return str(known or self.values.get("kubernetesVersion") or "")

    def role(self, name: str) -> Record | None:
        return self.world.get(types.ROLE, name)

    def has_role(self, given: str) -> bool:
        """Return True if a role with this name or ARN exists.

        Service-linked roles of AWS and roles of other accounts count as existing.
        """
        if not given.startswith("arn:"):
            return self.role(given) is not None or self.exists(f"role/{given}")
        account, path = given.split(":")[4], given.partition(":role/")[2]
        if account != str(self.values.get("account")) or SERVICE_ROLE in given:
            return True
        return self.role_of(given) is not None or self.exists(f"role/{path}")

    def role_of(self, arn: str) -> Record | None:
        return next(iter(self.world.find(types.ROLE, arn=arn)), None)

    # -- launch templates ---------------------------------------------------------------------------------------------

    def template(self, given: Any) -> Record | None:
        """Return the launch template of a node group, by its id or its name."""
        identity, name = table(given).get("id"), table(given).get("name")
        if isinstance(identity, str) and identity:
            return self.world.get(types.LAUNCH_TEMPLATE, identity)
        found = self.world.find(types.LAUNCH_TEMPLATE, name=name) if isinstance(name, str) and name else []
        return next(iter(found), None)

    # -- places -------------------------------------------------------------------------------------------------------

    def zones(self, subnets: Any, region: str) -> list[str]:
        """Return the Availability Zones of subnets.

        A subnet in the world has its zone. The example subnets are in the zones of the region in order.
        """
        known = table(table(self.values.get("regions")).get(region)).get("names") or []
        examples, zones = rows(self.values.get("subnetIds")), []
        for subnet in rows(subnets):
            made = self.world.get(types.SUBNET, subnet) if isinstance(subnet, str) else None
            zone = (made.outputs.get("availabilityZone") or made.inputs.get("availabilityZone")) if made else None
            if not zone and known:
                zone = known[examples.index(subnet) % len(known)] if subnet in examples else known[0]
            if zone and zone not in zones:
                zones.append(str(zone))
        return zones
