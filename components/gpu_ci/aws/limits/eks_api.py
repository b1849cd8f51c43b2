"""The API calls of NodeGroupLimits to EKS and Auto Scaling, through the AWS SDK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

# The SDK retries throttled calls, 5xx and broken connections with growing pauses.
_ATTEMPTS = 6
_CONNECT_SEC, _READ_SEC = 10, 60


@dataclass
class ApiError(Exception):
    """An error of the AWS API, with its name and AWS's message."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message

    @property
    def missing(self) -> bool:
        """True if the group or cluster does not exist."""
        return self.code == "ResourceNotFoundException"

    @property
    def expired(self) -> bool:
        """True if the session of the credentials has expired. Services with XML answers use the shorter name."""
        return self.code in ("ExpiredTokenException", "ExpiredToken")

    @property
    def busy(self) -> bool:
        """True if another update of the group runs."""
        return self.code == "ResourceInUseException"

    @property
    def outdated(self) -> bool:
        """True if the new maximum conflicts with the group's current sizes. An autoscaler may have changed them."""
        return self.code in ("InvalidParameterException", "InvalidRequestException")


@dataclass(frozen=True)
class Sizes:
    """The desired and the maximum number of nodes of a group."""

    desired: int
    most: int


class EksApi(Protocol):
    """The EKS API calls that are needed."""

    def sizes(self, cluster: str, group: str) -> Sizes:
        """Return the current sizes of a group."""

    def set_most(self, cluster: str, group: str, most: int) -> str:
        """Change only the maximum, and return the id of the update."""

    def update_status(self, cluster: str, group: str, update: str) -> str:
        """Return InProgress or Successful. Raise ApiError if the update failed or was cancelled."""

    def suspend_balancing(self, scaling_group: str) -> None:
        """Prevent an Auto Scaling group from terminating nodes to balance its zones."""


@dataclass(frozen=True)
class Account:
    """The region, profile and role of API calls. Without profile and role, the environment's credentials apply."""

    region: str
    profile: str = ""
    role_arn: str = ""


class AwsClient:
    """A client for one service through the AWS SDK, which raises ApiError."""

    def __init__(self, service: str, account: Account, attempts: int = _ATTEMPTS) -> None:
        self._service, self._account, self._attempts = service, account, attempts
        self._client = _client(service, account, attempts)

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of an operation, by its name in the SDK.

        If the session of an assumed role has expired, the call is repeated with a new session. A session lasts one hour
        by default, and a change may wait longer for another update of the group.
        """
        try:
            return self._call(operation, **arguments)
        except ApiError as error:
            if not (error.expired and self._account.role_arn):
                raise
            self._client = _client(self._service, self._account, self._attempts)
            return self._call(operation, **arguments)

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
        from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
        except ClientError as error:
            raise _api_error(error) from None
        except (BotoCoreError, ResponseParserError) as error:
            raise ApiError("", str(error)) from None
        return answer


def _client(service: str, account: Account, attempts: int) -> Any:
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import Session  # type: ignore[import-untyped]

    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=_CONNECT_SEC,
        read_timeout=_READ_SEC,
    )
    session = Session(profile=account.profile or None)
    keys: dict[str, str] = {}
    try:
        if account.role_arn:
            sts = session.create_client("sts", region_name=account.region, config=config)
            found = sts.assume_role(RoleArn=account.role_arn, RoleSessionName="gpu-ci")["Credentials"]
            keys = {
                "aws_access_key_id": found["AccessKeyId"],
                "aws_secret_access_key": found["SecretAccessKey"],
                "aws_session_token": found["SessionToken"],
            }
        return session.create_client(service, region_name=account.region, config=config, **keys)
    except ClientError as error:
        raise _api_error(error) from None
    except (BotoCoreError, ValueError) as error:  # ValueError: an AWS_ENDPOINT_URL that is not a URL
        raise ApiError("", str(error)) from None


def _api_error(error: Any) -> ApiError:
    details = error.response.get("Error", {})
    return ApiError(str(details.get("Code", "")), str(details.get("Message", "")))


class AwsEks:
    """The API through the AWS SDK."""

    def __init__(self, account: Account) -> None:
        self._eks = AwsClient("eks", account)
        self._account = account

    def sizes(self, cluster: str, group: str) -> Sizes:
        found = self._eks.call("describe_nodegroup", clusterName=cluster, nodegroupName=group)["nodegroup"][
            "scalingConfig"
        ]
        return Sizes(int(found["desiredSize"]), int(found["maxSize"]))

    def set_most(self, cluster: str, group: str, most: int) -> str:
        # "When updating a node group, you can specify any or none of the properties" (botocore 1.44.5, eks,
        # NodegroupScalingConfig): without desiredSize the group keeps its nodes.
        answer = self._eks.call(
            "update_nodegroup_config", clusterName=cluster, nodegroupName=group, scalingConfig={"maxSize": most}
        )
        return str(answer["update"]["id"])

    def update_status(self, cluster: str, group: str, update: str) -> str:
        found = self._eks.call("describe_update", name=cluster, nodegroupName=group, updateId=update)["update"]
        if found["status"] in ("Failed", "Cancelled"):
            reasons = [
                f"{each.get('errorCode', '')}: {each.get('errorMessage', '')}" for each in found.get("errors", [])
            ]
            raise ApiError(f"update {found['status']}", "; ".join(reasons) or "AWS reports no reason")
        return str(found["status"])

    def suspend_balancing(self, scaling_group: str) -> None:
        client = AwsClient("autoscaling", self._account)
        client.call("suspend_processes", AutoScalingGroupName=scaling_group, ScalingProcesses=["AZRebalance"])
