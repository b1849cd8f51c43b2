"""The part of EC2's API that the manager uses, with the manager's errors for those of AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]
from botocore.session import Session  # type: ignore[import-untyped]
from gpu_ci.aws.ec2_requests import CREDENTIALS, NO_CAPACITY, NOT_YET, OVER_QUOTA, START_FAILED

from ...model import InsertError
from ...ports import InsertRefused, Refused, Unavailable

Body = dict[str, Any]

# Two attempts of 9 s each and at most 1 s between them: less than the 20 s of ports.Supplier.
CONFIG = Config(connect_timeout=3, read_timeout=6, retries={"mode": "standard", "total_max_attempts": 2})
# Answers that are not of AWS: a proxy may answer 200 with its own page, or cut off an answer.
_UNUSABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError, HTTPException, ResponseParserError)

# docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html. An agent that gets the notice may switch its
# machine off before AWS does, so the mark counts too.
_INTERRUPTED = (
    "marked-for-termination", "instance-terminated-by-experiment", "instance-terminated-by-price",
    "instance-terminated-by-service", "instance-terminated-capacity-oversubscribed",
    "instance-terminated-launch-group-constraint", "instance-terminated-no-capacity",
)  # fmt: skip
# "You can currently get g6.xlarge capacity by not specifying an Availability Zone in your request or choosing
# us-west-2a, us-west-2b." `Unsupported` ends in the same way.
_OTHER_ZONES = re.compile(r"\bor choosing ([a-z0-9-]+(?:, [a-z0-9-]+)*)")


class Clients:
    """AWS's clients of botocore. Each is created at its first use, which takes up to a second.

    Credentials and endpoints are botocore's: its chain of credentials, and AWS_ENDPOINT_URL.
    """

    def __init__(self) -> None:
        self._session = Session()
        self._clients: dict[str, Any] = {}

    def __call__(self, region: str, service: str = "ec2") -> Any:
        """Return the client of a region. Raises BotoCoreError."""
        key = f"{service} {region}"
        if key not in self._clients:
            self._clients[key] = self._session.create_client(service, region_name=region, config=CONFIG)
        return self._clients[key]

    def account(self, region: str) -> str:
        """Return the account of the credentials. Raises Unavailable or Refused."""
        with converted_errors(f"the account of the credentials, asked in {region}"):
            return str(self(region, "sts").get_caller_identity()["Account"])

    def instances(self, region: str, filters: Mapping[str, str]) -> list[Body]:
        """Return the instances that match, also ended ones for an hour. Raises Unavailable or Refused."""
        return [
            {**row, "OwnerId": each["OwnerId"]}
            for each in self._pages(region, "describe_instances", "Reservations", filters)
            for row in each["Instances"]
        ]

    def interrupted(self, region: str, filters: Mapping[str, str]) -> list[Body]:
        """Return the Spot requests of interrupted instances of the last four hours. Raises Unavailable or Refused."""
        wanted = {**filters, "status-code": _INTERRUPTED}
        return self._pages(region, "describe_spot_instance_requests", "SpotInstanceRequests", wanted)

    def _pages(
        self, region: str, operation: str, result: str, filters: Mapping[str, str | Sequence[str]]
    ) -> list[Body]:
        wanted = [
            {"Name": name, "Values": [values] if isinstance(values, str) else list(values)}
            for name, values in filters.items()
        ]
        with converted_errors(f"{operation} in {region}"):
            pages = self(region).get_paginator(operation)
            found = pages.paginate(Filters=wanted, PaginationConfig={"PageSize": 1000})
            return [each for page in found for each in page[result]]


def tags(row: Body) -> dict[str, str]:
    """Return an instance's tags."""
    return {str(each["Key"]): str(each["Value"]) for each in row.get("Tags", ())}


def reason(row: Body) -> str:
    """Return the code of the last change of an instance's state, or ""."""
    return str(row.get("StateReason", {}).get("Code", ""))


def state(row: Body) -> str:
    return str(row["State"]["Name"])


@contextmanager
def converted_errors(subject: str) -> Iterator[None]:
    """Raise Unavailable or Refused for an error of AWS. The text has no secret."""
    try:
        yield
    except ClientError as error:
        raise (Unavailable if _is_temporary(error) else Refused)(f"{subject}: {_text(error)}") from None
    except BotoCoreError as error:
        # Also if this computer has no credentials yet.
        raise Unavailable(f"{subject}: {error}") from None
    except _UNUSABLE as error:
        raise Unavailable(f"{subject}: the answer cannot be used: {type(error).__name__}") from None


@contextmanager
def converted_insert_errors(subject: str) -> Iterator[None]:
    """Raise Unavailable or InsertRefused for an error of AWS."""
    with converted_errors(subject):
        try:
            yield
        except ClientError as error:
            if _is_temporary(error):
                raise
            raise InsertRefused(_insert_error(error)) from None


def start_error(row: Body) -> InsertError | None:
    """Return the error of a machine that AWS accepted and could not start, or None."""
    kind = START_FAILED.get(reason(row)) if state(row) == "terminated" else None
    return InsertError(kind, str(row["StateReason"].get("Message", reason(row)))) if kind else None


def _is_temporary(error: ClientError) -> bool:
    """Return True if the same request may succeed later. A missing capacity has status 500, too."""
    code, status = _code(error), int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return code in NOT_YET | CREDENTIALS or (status >= 500 and code not in NO_CAPACITY | OVER_QUOTA)


def _insert_error(error: ClientError) -> InsertError:
    code, text = _code(error), _text(error)
    if code in NO_CAPACITY:
        found = _OTHER_ZONES.search(text)
        return InsertError("no-capacity", text, tuple(found[1].split(", ")) if found else ())
    return InsertError("over-quota" if code in OVER_QUOTA else "refused", text)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _text(error: ClientError) -> str:
    return f"{_code(error)}: {error.response.get('Error', {}).get('Message', '')}"
