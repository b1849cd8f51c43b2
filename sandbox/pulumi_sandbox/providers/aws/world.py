"""The resources of an account that exist, and AWS's refusals because another resource is missing or has the same name.

A resource exists if the world (emulated cloud state) has it, if sandbox.yaml or the examples list it, or if a lookup of
this run returned it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.inputs import rows, table, text_of
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

    def exists(self, path: str) -> bool:
        if path in self.looked_up or any(fnmatchcase(path, one) for one in self.patterns):
            return True
        kind = next((token for prefix, token in KINDS.items() if path.startswith(prefix)), "")
        examples = [self.values.get(name) for name in EXAMPLES]
        is_example = any(path == value or path in rows(value) for value in examples)
        return is_example or bool(kind and self.world.get(kind, path))

    def cluster(self, name: str) -> Record | None:
        return self.world.get(types.CLUSTER, name)

    def has_cluster(self, name: str) -> bool:
        return self.cluster(name) is not None or self.exists(f"cluster/{name}")

    def version(self, name: str) -> str:
        """Return the Kubernetes version of a cluster."""
        cluster = self.cluster(name)
        version_of_cluster = cluster.outputs.get("version") if cluster else None
        return str(version_of_cluster or self.values.get("kubernetesVersion") or "")

    def template(self, reference: Any) -> Record | None:
        """Return the launch template of a node group, by its id or its name."""
        template_id, name = table(reference).get("id"), table(reference).get("name")
        if isinstance(template_id, str) and template_id:
            return self.world.get(types.LAUNCH_TEMPLATE, template_id)
        named = self.world.find(types.LAUNCH_TEMPLATE, name=name) if isinstance(name, str) and name else []
        return next(iter(named), None)


# -- refusals ---------------------------------------------------------------------------------------------------------


def missing_image(existing: ExistingResources, inputs: dict[str, Any]) -> Iterator[str]:
    """Yield the refusal of a tag whose image is missing."""
    resource = text_of(inputs, "resourceId")
    if resource.startswith("ami-") and not existing.exists(resource):
        # The code: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
        message = f"InvalidAMIID.NotFound: The image id '[{resource}]' does not exist"
        yield (
            f"creating EC2 Tag ({text_of(inputs, 'key')}) for resource ({resource}): operation error EC2: "
            f"CreateTags, https response error StatusCode: 400, api error {message}{hint(resource)}"
        )


def hint(path: str) -> str:
    """Return the hint how to list an existing resource in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{aws: [{path}]}}"


def name_in_use(world: World, token: str, inputs: dict[str, Any]) -> Iterator[str]:
    """Yield AWS's refusal of a second OIDC provider with a URL.

    The URL is unique in the account (docs.aws.amazon.com/IAM/latest/APIReference/API_CreateOpenIDConnectProvider.html).
    """
    if token == types.OIDC_PROVIDER and any(_issuer(one.inputs) == _issuer(inputs) for one in world.find(token)):
        text = f"EntityAlreadyExists: Provider with url {text_of(inputs, 'url')} already exists."
        yield f"creating IAM OIDC Provider: operation error IAM: CreateOpenIDConnectProvider, {text}"


def _issuer(inputs: dict[str, Any]) -> str:
    return text_of(inputs, "url").removeprefix("https://").rstrip("/")
