"""Messages of EKS and EC2 that refuse a node group, each with its source."""

from __future__ import annotations

# Source of the common format: https://github.com/pulumi/pulumi-eks/issues/1283. The request id is left out.
INVALID = "InvalidParameterException"
NOT_FOUND = "ResourceNotFoundException"
IN_USE = "ResourceInUseException"
STATUS = {NOT_FOUND: 404, IN_USE: 409}


# https://github.com/sassoftware/viya4-iac-aws/issues/298
MIN_ABOVE = "minSize can't be greater than desiredSize"
# https://github.com/ministryofjustice/cloud-platform-infrastructure/pull/4595
DESIRED_ABOVE = "desiredSize can't be greater than maxSize"


def no_cluster(name: str) -> str:
    # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/793
    return f"No cluster found for name: {name}."


def sold_out(kind: str, zone: str, elsewhere: list[str]) -> str:
    # https://github.com/eksctl-io/eksctl/issues/4732
    other = f" or choosing {', '.join(elsewhere)}" if elsewhere else ""
    return (
        f"Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient "
        f"{kind} capacity in the Availability Zone you requested ({zone}). Our system will be working on provisioning "
        f"additional capacity. You can currently get {kind} capacity by not specifying an Availability Zone in your "
        f"request{other}. Launching EC2 instance failed."
    )


# https://github.com/rancher/rancher/issues/38196
NO_SPOT = (
    "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request "
    "configuration. Please adjust your request and try again. Launching EC2 instance failed."
)


def quota(market: str, limit: int = 0) -> str:
    # https://github.com/klothoplatform/klotho/pull/311. For Spot, the source has only the code, not the message:
    # https://github.com/aws/karpenter-provider-aws/issues/5789.
    if market == "SPOT":
        return (
            "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded. "
            "Launching EC2 instance failed."
        )
    return (
        "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your "
        f"current vCPU limit of {limit} allows for the instance bucket that the specified instance type belongs to. "
        "Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit. Launching "
        "EC2 instance failed."
    )


def creating(group: str, code: str, message: str, doing: str = "creating", operation: str = "CreateNodegroup") -> str:
    """Format a refusal of the API in the form of pulumi-aws."""
    return (
        f"{doing} EKS Node Group ({group}): operation error EKS: {operation}, https response error StatusCode: "
        f"{STATUS.get(code, 400)}, {code}: {message}"
    )


def failed(group: str, scaling_group: str, message: str) -> str:
    """Format the error for a group that was created without machines.

    Source: https://github.com/hashicorp/terraform-provider-aws/issues/39904.
    """
    return (
        f"waiting for EKS Node Group ({group}) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last "
        f"error: {scaling_group}: AsgInstanceLaunchFailures: {message}"
    )
