"""The outputs that AWS adds to a cluster, a node group and a launch template.

Source: terraform-provider-aws, internal/service/eks/node_group.go (at 012e0a32), internal/service/ec2/
ec2_launch_template.go (at 025e4f81).
"""

from __future__ import annotations

import uuid
from typing import Any

from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import now

Json = dict[str, Any]
# The inputs whose change creates no new version of a launch template (upstream, resourceLaunchTemplateUpdate:
# updateKeys).
SAME_VERSION = {"defaultVersion", "name", "namePrefix", "region", "tags", "updateDefaultVersion"}
# The default instance type of EKS (botocore, eks 2017-11-01, CreateNodegroupRequest.instanceTypes).
INSTANCE_TYPE = "t3.medium"
# The default AMI type of EKS: https://github.com/HHS/simpler-grants-gov/pull/12404.
AMI_TYPE = "AL2023_x86_64_STANDARD"
# botocore, eks 2017-11-01, CreateNodegroupRequest.diskSize.
DISK_GIB = 20


def node_group(res: Resource, existing: ExistingResources, arn: str) -> Json:
    """Return the outputs of a node group.

    The name of the Auto Scaling group contains the name of the node group and the end of its ARN
    (https://github.com/hashicorp/terraform-provider-aws/issues/39904).
    """
    inputs, old = res.inputs, res.outputs
    name = str(inputs.get("nodeGroupName") or res.id.partition(":")[2])
    template = existing.template(inputs.get("launchTemplate"))
    template_inputs = template.inputs if template else {}
    version = str(inputs.get("version") or old.get("version") or existing.version(str(inputs.get("clusterName"))))
    image = inputs.get("amiType") or ("CUSTOM" if template_inputs.get("imageId") else AMI_TYPE)
    types = rows(inputs.get("instanceTypes")) or ([] if template_inputs.get("instanceType") else [INSTANCE_TYPE])
    outputs: Json = {
        "nodeGroupName": name,
        "status": "ACTIVE",
        "amiType": image,
        "capacityType": inputs.get("capacityType") or "ON_DEMAND",
        "instanceTypes": types,
        "diskSize": inputs.get("diskSize") or (0 if inputs.get("launchTemplate") else DISK_GIB),
        "updateConfig": inputs.get("updateConfig") or {"maxUnavailable": 1},
        "nodeRepairConfig": inputs.get("nodeRepairConfig") or {"enabled": False},
        "resources": [
            {"autoscalingGroups": [{"name": f"eks-{name}-{arn.rpartition('/')[2]}"}], "remoteAccessSecurityGroupId": ""}
        ],
    }
    if image != "CUSTOM":
        releases = table(existing.values.get("releases"))
        family = "bottlerocket" if str(image).startswith("BOTTLEROCKET") else "al"
        outputs |= {"version": version, "releaseVersion": inputs.get("releaseVersion") or old.get("releaseVersion")}
        outputs["releaseVersion"] = (
            outputs["releaseVersion"] or f"{'' if family != 'al' else version}{releases.get(family, '')}"
        )
    if template:
        reference = table(inputs.get("launchTemplate"))
        outputs["launchTemplate"] = {**reference, "id": template.id, "name": template.outputs.get("name")}
    return outputs


def cluster(res: Resource, existing: ExistingResources, region: str) -> Json:
    inputs, old, values = res.inputs, res.outputs, existing.values
    network = table(inputs.get("vpcConfig"))
    subnets = [existing.world.get("aws:ec2/subnet:Subnet", one) for one in rows(network.get("subnetIds"))]
    vpcs = [made.inputs.get("vpcId") for made in subnets if made]
    number = (old.get("endpoint") or f"https://{uuid.uuid4().hex.upper()}").removeprefix("https://").partition(".")[0]
    return {
        "status": "ACTIVE",
        "version": inputs.get("version") or old.get("version") or values.get("kubernetesVersion"),
        "platformVersion": old.get("platformVersion") or "eks.9",
        "createdAt": old.get("createdAt") or now(),
        "endpoint": f"https://{number}.gr7.{region}.eks.amazonaws.com",
        "certificateAuthority": {"data": values.get("certificate")},
        "identities": [{"oidcs": [{"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{number}"}]}],
        "vpcConfig": {
            **network,
            "clusterSecurityGroupId": table(old.get("vpcConfig")).get("clusterSecurityGroupId")
            or f"sg-0{res.suffix(16)}",
            "vpcId": next(iter(vpcs), None) or values.get("vpcId"),
        },
    }


def launch_template(res: Resource) -> Json:
    """Return the version numbers of a launch template. The first is 1. A change of a versioned input adds a version."""
    latest = int(res.outputs.get("latestVersion") or 0)
    if not latest or has_changed(res, SAME_VERSION):
        latest += 1
    default = res.inputs.get("defaultVersion") or res.outputs.get("defaultVersion") or 1
    return {"latestVersion": latest, "defaultVersion": latest if res.inputs.get("updateDefaultVersion") else default}


def template_preview(res: Resource) -> Json:
    """Return the version numbers as unknown if an update in a preview adds a version (upstream, ComputedIf)."""
    if res.old_inputs is None or not has_changed(res, SAME_VERSION | {"description"}):
        return {}
    return {"latestVersion": UNKNOWN} | ({"defaultVersion": UNKNOWN} if res.inputs.get("updateDefaultVersion") else {})


def has_changed(res: Resource, ignored: set[str]) -> bool:
    before, after = res.old_inputs or {}, res.inputs
    names = {name for name in before.keys() | after.keys() if not name.startswith("__")} - ignored
    return any(before.get(name) != after.get(name) for name in names)
