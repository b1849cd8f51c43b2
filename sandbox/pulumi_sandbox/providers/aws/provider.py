"""The sandbox's aws provider, with AWS's names, ids and ARNs and the shapes of the SDK."""

from __future__ import annotations

import errno
import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from pulumi_sandbox.providers import bridged, sandbox_file
from pulumi_sandbox.providers.aws import lookups as own_lookups
from pulumi_sandbox.providers.aws import permissions, rules, schema, types, world
from pulumi_sandbox.providers.aws.ec2 import Ec2
from pulumi_sandbox.providers.aws.eks import node_groups
from pulumi_sandbox.providers.aws.eks import outputs as eks_outputs
from pulumi_sandbox.providers.aws.eks.api import AwsServer, EksApi
from pulumi_sandbox.providers.aws.types import row
from pulumi_sandbox.providers.aws.world import KINDS, ExistingResources
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.diff import Change
from pulumi_sandbox.providers.invokes import LookupRefusedError
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.machines.settings import guest
from pulumi_sandbox.providers.machines.vm_processes import VmProcesses
from pulumi_sandbox.providers.resource import Problem, PureFunction, Refused, Resource
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.providers.sdk.types import Type
from pulumi_sandbox.providers.values import Unknown, leaves
from pulumi_sandbox.world.store import Record

SUBNET = "aws:ec2/getSubnet:getSubnet"
# The length of the suffix after a name prefix (terraform-plugin-sdk helper/id: a timestamp and a counter).
PREFIX_DIGITS = 26
# The letters of AWS's unique ids (docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html).
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class Aws(Cloud):
    """The provider of AWS.

    Types in types.toml have ids and outputs in AWS's form. Those with a schema are also checked by it.
    """

    package: ClassVar[str] = "aws"
    coerces_scalars: ClassVar[bool] = True
    always_new: ClassVar[Collection[str]] = schema.ALWAYS_NEW
    pure: ClassVar[Mapping[str, PureFunction]] = own_lookups.FUNCTIONS

    def __init__(self) -> None:
        self._server: AwsServer | None = None
        self._ec2: Ec2 | None = None

    def configure(self, config: dict[str, Any]) -> None:
        """Start the APIs that components call. They run until the provider stops."""
        self._write_profile(config.get("profile"))
        self.serve(self.context.workspace.aws_port, shared=True)

    def _write_profile(self, name: Any) -> None:
        """Write a profile that the program names, for the AWS SDK. Its keys give no access to AWS."""
        if isinstance(name, str) and name:
            text = f"[profile {name}]\naws_access_key_id = sandbox\naws_secret_access_key = sandbox\n"
            (self.context.workspace.root / "aws-config").write_text(text)

    def serve(self, port: int, services: LocalServices | None = None, *, shared: bool = False) -> None:
        """Start EC2 and S3 at the next port, and the other APIs at this one. Instances call the services.

        With `shared`, another AWS provider of the same command may serve EC2, whose state is in one process.
        """
        workspace = self.context.workspace
        try:
            guests = VmProcesses(guest(workspace.settings_file, workspace.project), services or LocalServices({}))
            self._server = self._server or AwsServer(port, EksApi(self.context.world, self.caller))
            self._ec2 = self._ec2 or Ec2(self.caller, guests, workspace.disks, self._zone_of, port + 1)
        except SettingsError as error:
            raise Refused(str(error)) from None
        except OSError as error:
            if not (shared and self._server and error.errno == errno.EADDRINUSE):
                raise Refused(
                    f"aws: the sandbox's APIs cannot listen on 127.0.0.1:{port} and the next port\n"
                    f"  got: {error.strerror}\n"
                    f"  hint: another program uses a port; run the command again, or, for plain pulumi, remove "
                    f"{workspace.root.name}/ports.json to choose another port"
                ) from None

    def _zone_of(self, subnet: str, region: str) -> str:
        """Return the zone of a subnet: of the world, or the answer of a lookup."""
        row = self.context.world.get(types.SUBNET, subnet)
        found = row.outputs if row else self.lookups.answer(SUBNET, {"id": subnet, "region": region}, {})[0]
        return str(found.get("availabilityZone") or f"{region}a")

    def stop(self) -> None:
        for server in (self._server, self._ec2):
            if server:
                server.close()

    @cached_property
    def caller(self) -> permissions.Caller:
        return permissions.Caller(self.context.world, self.account, permissions.role_of_environment())

    def _not_permitted(self, res: Resource, operation: str) -> Iterator[str]:
        """Yield the errors of actions that the role of the run does not allow."""
        if not self.caller.knows(res.token):
            res.log(f"{res.token}: its actions are not known, so {self.caller.role} may change it", "info")
        doing = {"create": "creating", "update": "updating", "delete": "deleting"}[operation]
        kind, name = res.token.rpartition(":")[2], res.id or self._name(res) or res.name
        for denial in self.caller.operation(res.token, operation, res.inputs, name, res.old_inputs):
            yield f"{doing} {kind} ({name}): {denial.with_hint()}"

    @property
    def account(self) -> str:
        return str(self.lookups.values["account"])

    def region(self, res: Resource) -> str:
        return self._region(res.inputs)

    def _region(self, inputs: Mapping[str, Any]) -> str:
        region = inputs.get("region") or self.context.config.get("region")
        return region if isinstance(region, str) else str(self.lookups.config({})["region"])

    @cached_property
    def existing(self) -> ExistingResources:
        try:
            patterns = sandbox_file.existing_patterns(self.context.workspace.settings_file, "aws")
            return ExistingResources(self.context.world, patterns, self.lookups.values)
        except (SettingsError, LookupRefusedError) as error:
            raise Refused(str(error)) from None

    def autoname(self, res: Resource) -> None:
        shape = self.shapes.shape(res.token)
        bridged.autoname(res, shape, row(res.token).naming)
        for name, declared in shape.inputs.properties.items():
            # Like the real provider, convert a policy that is an object to the JSON text that AWS expects.
            if _is_document(declared.type) and _is_known(res.inputs.get(name)):
                res.inputs[name] = json.dumps(res.inputs[name], sort_keys=True, separators=(",", ":"))

    def rules(self, res: Resource) -> Iterable[Problem]:
        yield from schema.check(res.token, res.inputs, self.region(res))
        yield from rules.rules(res.token, res.inputs)

    def replaces(self, token: str, path: str) -> bool | None:
        return schema.replaces(token, path)

    def replaces_by_documentation(self, token: str, path: str) -> bool | None:
        return schema.replaces_by_name(token, path) or super().replaces_by_documentation(token, path)

    def forced_changes(self, res: Resource) -> Iterable[Change]:
        # terraform-provider-aws 6, internal/provider/sdkv2/region.go: forceNewIfRegionChanges, with the provider's
        # region for a resource without one. The sandbox does not know a region set in the user's environment.
        return bridged.location_changes(res, "region", str(self.context.config.get("region") or ""))

    # -- Create, Update, Delete ---------------------------------------------------------------------------------------

    def refusals(self, res: Resource) -> Iterable[str]:
        yield from self._not_permitted(res, "update" if res.old_inputs is not None else "create")
        if res.old_inputs is None:
            yield from world.name_in_use(self.context.world, res.token, res.inputs)
        if res.token == types.NODE_GROUP:
            yield from node_groups.missing_references(self.existing, res.inputs)
        elif res.token == types.TAG:
            yield from world.missing_image(self.existing, res.inputs)

    def delete_blockers(self, res: Resource) -> Iterable[str]:
        yield from self._not_permitted(res, "delete")

    def listed(self, token: str, import_id: str) -> tuple[str, dict[str, Any]] | None:
        prefix = {types.CLUSTER: "cluster/", types.ROLE: "role/"}.get(token, "")
        if not prefix and token not in [kind for start, kind in KINDS.items() if import_id.startswith(start)]:
            return None
        inputs = {"name": import_id} if prefix else {}
        return (import_id, inputs) if self.existing.exists(prefix + import_id) else None

    def observed(self, record: Record) -> Record:
        for denial in self.caller.operation(record.type, "read", record.inputs, record.id):
            raise Refused(f"reading {record.type.rpartition(':')[2]} ({record.id}): {denial.with_hint()}")
        return super().observed(record)

    def fault_kinds(self, token: str) -> tuple[str, ...]:
        # The faults of a node group affect the starts of its nodes (kubernetes/scheduling/scheduler.py).
        return () if token == types.NODE_GROUP else super().fault_kinds(token)

    def preview_outputs(self, res: Resource) -> dict[str, Any]:
        return eks_outputs.template_preview(res) if res.token == types.LAUNCH_TEMPLATE else {}

    def identity(self, res: Resource) -> str:
        known = row(res.token)
        if known.arn_is_id:
            return self._arn(res)
        if known.id_prefix:
            return f"{known.id_prefix}-0{res.suffix(16)}"
        if known.id:
            return known.id.format_map(self._placeholders(res))
        return self._name(res) or f"{_kind(res.token)}-0{res.suffix(16)}"

    def _name(self, res: Resource) -> str:
        """Return the name of the resource: from the program, else from its id or outputs, else from the prefix."""
        key = row(res.token).naming.key
        name, prefix = res.inputs.get(key) or res.outputs.get(key), res.inputs.get(f"{key}Prefix")
        if isinstance(name, str) and name:
            return name
        if not isinstance(prefix, str) or not prefix:
            return ""
        if res.id and (row(res.token).id or row(res.token).arn_is_id):
            return re.split("[:/]", res.id)[-1]
        return prefix + res.suffix(PREFIX_DIGITS, "0123456789")

    def computed(self, res: Resource) -> dict[str, Any]:
        outputs = self.shapes.shape(res.token).outputs
        # The tags of aws.autoscaling.Group are a list.
        given = res.inputs.get("tags")
        default = (self.context.config.get("defaultTags") or {}).get("tags", {})
        tags = {**default, **(given if isinstance(given, Mapping) else {})}
        outputs_of_type: dict[str, Any] = {"region": self.region(res), "tagsAll": tags}
        arn = str(res.outputs.get("arn") or "")
        if "arn" in outputs and not arn:
            outputs_of_type["arn"] = arn = res.id if row(res.token).arn_is_id else self._arn(res)
        for name in ("ownerId", "registryId", "accountId"):
            outputs_of_type[name] = self.account
        key = row(res.token).naming.key
        if res.inputs.get(f"{key}Prefix"):
            outputs_of_type[key] = self._name(res)
        match res.token:
            case "aws:sqs/queue:Queue":
                outputs_of_type["url"] = res.id
            case types.ROLE:
                outputs_of_type["uniqueId"] = res.outputs.get("uniqueId") or "AROA" + res.suffix(17, BASE32)
            case types.LAUNCH_TEMPLATE:
                outputs_of_type |= eks_outputs.launch_template(res)
            case types.CLUSTER:
                outputs_of_type |= eks_outputs.cluster(res, self.existing, self.region(res))
            case types.NODE_GROUP:
                outputs_of_type |= eks_outputs.node_group(res, self.existing, arn)
                if res.old_inputs is not None:
                    outputs_of_type["scalingConfig"] = node_groups.after_update(self.context.world, res)
            case types.PLACEMENT_GROUP:
                outputs_of_type["placementGroupId"] = res.outputs.get("placementGroupId") or f"pg-0{res.suffix(16)}"
        return {name: value for name, value in outputs_of_type.items() if name in outputs}

    def emulates(self, token: str) -> bool:
        return token in types.TARGETS

    def _arn(self, res: Resource) -> str:
        if form := row(res.token).arn:
            return "arn:aws:" + form.format_map(self._placeholders(res))
        service = res.token.split(":")[1].split("/")[0]
        return f"arn:aws:{service}:{self.region(res)}:{self.account}:{_kind(res.token)}/{res.id or res.name}"

    def _placeholders(self, res: Resource) -> dict[str, Any]:
        inputs = {name: value for name, value in res.inputs.items() if isinstance(value, str | dict)}
        inputs[row(res.token).naming.key] = self._name(res)
        issuer = str(inputs.get("url") or "").removeprefix("https://").rstrip("/")
        return _Placeholders(
            {
                "path": "/",
                "issuer": issuer,
                # A name in an ARN of Image Builder (botocore 1.44.5, imagebuilder: CreateComponentRequest.name).
                "slug": re.sub("[ _]", "-", self._name(res).lower()),
                "uuid": str(uuid.uuid4()),
                **inputs,
                "region": self.region(res),
                "account": self.account,
            }
        )

    def overwrites(self, token: str) -> bool:
        """Return True for objects of S3: PutObject replaces an object, such as one that a stack has retained."""
        return row(token).overwritten

    # -- lookups ------------------------------------------------------------------------------------------------------

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        config = self.context.config
        answered_by_user = (
            self.lookups.answered_by_user(token, arguments, config) if self.lookups.can_answer(token) else False
        )
        for denial in self.caller.lookup(token, arguments):
            raise Refused(f"{token.rpartition(':')[2]}: {denial.with_hint()}")
        region = self._region(arguments)
        if not answered_by_user and (refusal := own_lookups.refusal(self.existing, token, arguments)):
            raise Refused(refusal)
        if not answered_by_user and token == own_lookups.OFFERINGS:
            if problems := self.shapes.check_arguments(token, arguments).problems:
                raise Refused(f"{token}: {problems[0].path}: {problems[0]}")
            return own_lookups.offerings(arguments, region, self.lookups.values), ()
        result, secret = super().invoke(token, arguments)
        if not answered_by_user:
            result |= own_lookups.from_world(self.existing, token, arguments)
        self.existing.looked_up |= own_lookups.resource_paths(token, result)
        return result, secret


class _Placeholders(dict[str, Any]):
    """The values of the placeholders in ids and ARNs. An input that is not set becomes an empty string."""

    def __missing__(self, key: str) -> str:
        return ""


def _kind(token: str) -> str:
    """Return the kind of a type in an ARN: `aws:ec2/vpcEndpoint:VpcEndpoint` gives vpc-endpoint."""
    name = token.rsplit(":", 1)[-1]
    return "".join(f"-{one.lower()}" if one.isupper() and at else one.lower() for at, one in enumerate(name))


def _is_document(kind: Type) -> bool:
    return kind.kind == "union" and any(one.name.endswith("PolicyDocumentArgs") for one in kind.of)


def _is_known(value: Any) -> bool:
    """Return True for an object without unknown values."""
    return isinstance(value, Mapping) and not any(isinstance(one, Unknown) for _, one in leaves(value))
