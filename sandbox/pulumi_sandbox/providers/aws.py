"""The offline aws provider: Amazon's names, ids and ARNs over the shapes of the SDK."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pulumi_sandbox.providers import aws_iam_rules as iam_rules
from pulumi_sandbox.providers import aws_managed_policies as managed_policies
from pulumi_sandbox.providers import aws_rule_table as rule_table
from pulumi_sandbox.providers import aws_schema as schema
from pulumi_sandbox.providers import bridged
from pulumi_sandbox.providers.aws_tables import ARN_IS_ID, ARNS, DESCRIBED, ID_FORMS, ID_PREFIXES, NAMING, REPLACES
from pulumi_sandbox.providers.cloud import Cloud, Problem, Resource
from pulumi_sandbox.providers.sdk_types import Type
from pulumi_sandbox.providers.values import Unknown, leaves

# The letters of Amazon's unique ids (docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html).
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class Aws(Cloud):
    """Checked by shape; ids and outputs as Amazon forms them for the types of aws_tables, plausible ones elsewhere."""

    package: ClassVar[str] = "aws"
    coerces_scalars: ClassVar[bool] = True

    @property
    def account(self) -> str:
        return str(self.lookups.values["account"])

    def region(self, res: Resource) -> str:
        given = res.inputs.get("region") or self.context.config.get("region")
        return given if isinstance(given, str) else str(self.lookups.config({})["region"])

    def autoname(self, res: Resource) -> None:
        shape = self.shapes.shape(res.token)
        naming = NAMING.get(res.token, bridged.Naming())
        bridged.autoname(res, shape, naming)
        if res.autonamed(naming.key):
            res.inputs[naming.key] = _finished(res, str(res.inputs[naming.key]))
        if res.token in DESCRIBED:
            res.set_default(DESCRIBED[res.token], lambda: "Managed by Pulumi")
        for name, declared in shape.inputs.properties.items():
            # The provider writes a policy that is given as an object as the JSON that Amazon takes.
            if _is_document(declared.type) and _is_known(res.inputs.get(name)):
                res.inputs[name] = json.dumps(res.inputs[name], sort_keys=True, separators=(",", ":"))

    def rules(self, res: Resource) -> Iterable[Problem]:
        region = self.region(res)
        yield from schema.check(res.token, res.inputs, region)
        yield from rule_table.rules(res.token, res.inputs, region)
        for text in iam_rules.notes(res.token, res.inputs):
            res.log(text, "warning")
        for text, severity in managed_policies.notes(res.token, res.inputs):
            res.log(text, severity)

    def replaces(self, token: str, path: str) -> bool | None:
        return bridged.replaces(REPLACES, token, path) if token in REPLACES else schema.replaces(token, path)

    def identity(self, res: Resource) -> str:
        if res.token in ARN_IS_ID:
            return self._arn(res)
        if res.token in ID_PREFIXES:
            return f"{ID_PREFIXES[res.token]}-0{res.suffix(16)}"
        if res.token in ID_FORMS:
            return ID_FORMS[res.token].format_map(self._facts(res))
        naming = NAMING.get(res.token, bridged.Naming())
        chosen = res.inputs.get(naming.key)
        return chosen if isinstance(chosen, str) and chosen else f"{_kind(res.token)}-0{res.suffix(16)}"

    def computed(self, res: Resource) -> dict[str, Any]:
        outputs = self.shapes.shape(res.token).outputs
        tags = {**(self.context.config.get("defaultTags") or {}).get("tags", {}), **(res.inputs.get("tags") or {})}
        found: dict[str, Any] = {"region": self.region(res), "tagsAll": tags}
        if "arn" in outputs and not res.outputs.get("arn"):
            found["arn"] = res.id if res.token in ARN_IS_ID else self._arn(res)
        for name in ("ownerId", "registryId", "accountId"):
            found[name] = self.account
        match res.token:
            case "aws:sqs/queue:Queue":
                found["url"] = res.id
            case "aws:iam/role:Role":
                found["uniqueId"] = res.outputs.get("uniqueId") or "AROA" + res.suffix(17, BASE32)
            case "aws:ec2/launchTemplate:LaunchTemplate":
                version = int(res.outputs.get("latestVersion") or 0) + 1
                found |= {"latestVersion": version, "defaultVersion": res.outputs.get("defaultVersion") or 1}
        return {name: value for name, value in found.items() if name in outputs}

    def _arn(self, res: Resource) -> str:
        form = ARNS.get(res.token)
        if form:
            return "arn:aws:" + form.format_map(self._facts(res))
        service = res.token.split(":")[1].split("/")[0]
        return f"arn:aws:{service}:{self.region(res)}:{self.account}:{_kind(res.token)}/{res.id or res.name}"

    def _facts(self, res: Resource) -> dict[str, Any]:
        inputs = {name: value for name, value in res.inputs.items() if isinstance(value, str | dict)}
        return _Facts(
            {"path": "/", "uuid": str(uuid.uuid4()), **inputs, "region": self.region(res), "account": self.account}
        )


class _Facts(dict[str, Any]):
    """What forms are filled with; an input left out stays empty, as a vendor's own default would be elsewhere."""

    def __missing__(self, key: str) -> str:
        return ""


def _finished(res: Resource, name: str) -> str:
    """What some services want around a name (the PostTransform of the provider's AutoNameOptions)."""
    match res.token:
        case "aws:sqs/queue:Queue" if res.inputs.get("fifoQueue") is True:
            return name if name.endswith(".fifo") else f"{name}.fifo"
        case "aws:sns/topic:Topic" if res.inputs.get("fifoTopic") is True:
            return name if name.endswith(".fifo") else f"{name}.fifo"
        case "aws:kms/alias:Alias":
            return name if name.startswith("alias/") else f"alias/{name}"
    return name


def _kind(token: str) -> str:
    """`aws:ec2/vpcEndpoint:VpcEndpoint` is a vpc-endpoint in an ARN."""
    name = token.rsplit(":", 1)[-1]
    return "".join(f"-{one.lower()}" if one.isupper() and at else one.lower() for at, one in enumerate(name))


def _is_document(kind: Type) -> bool:
    return kind.kind == "union" and any(one.name.endswith("PolicyDocumentArgs") for one in kind.of)


def _is_known(value: Any) -> bool:
    """Whether it is an object without unknowns: one that a preview does not know is left as it is."""
    return isinstance(value, Mapping) and not any(isinstance(one, Unknown) for _, one in leaves(value))
