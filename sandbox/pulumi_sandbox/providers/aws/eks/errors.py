"""Messages of EKS that refuse a node group, each with its source."""

from __future__ import annotations

# Source of the common format: https://github.com/pulumi/pulumi-eks/issues/1283. The request id is left out.
INVALID = "InvalidParameterException"
NOT_FOUND = "ResourceNotFoundException"
IN_USE = "ResourceInUseException"
STATUS = {NOT_FOUND: 404, IN_USE: 409}


class ApiError(Exception):
    """A refusal with the error code that clients expect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


# https://github.com/sassoftware/viya4-iac-aws/issues/298
MIN_ABOVE = "minSize can't be greater than desiredSize"
# https://github.com/ministryofjustice/cloud-platform-infrastructure/pull/4595
DESIRED_ABOVE = "desiredSize can't be greater than maxSize"


def no_cluster(name: str) -> str:
    # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/793
    return f"No cluster found for name: {name}."


def creating(group: str, code: str, message: str, doing: str = "creating", operation: str = "CreateNodegroup") -> str:
    """Format a refusal of the API in the form of pulumi-aws."""
    return (
        f"{doing} EKS Node Group ({group}): operation error EKS: {operation}, https response error StatusCode: "
        f"{STATUS.get(code, 400)}, {code}: {message}"
    )
