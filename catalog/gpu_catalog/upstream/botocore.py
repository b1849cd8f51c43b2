"""Reads AWS's lists of EC2 instance types and EKS AMI types from the service models in botocore."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpu_catalog.upstream import UpstreamError, folder, read_json, version

SHAPES = {"InstanceType": "ec2", "AMITypes": "eks"}


@dataclass(frozen=True, slots=True)
class ApiEnum:
    """The values of an enumeration of an API, in the order of the API."""

    service: str
    api_version: str
    shape: str
    values: tuple[str, ...]


@cache
def enums() -> dict[str, ApiEnum]:
    """Return the values of each enumeration by its name."""
    return {shape: _read_enum(service, shape) for shape, service in SHAPES.items()}


def _read_enum(service: str, shape: str) -> ApiEnum:
    # The name of a folder is the date of an API version. botocore itself uses the newest.
    models = sorted(folder("botocore", "botocore").glob(f"data/{service}/*/service-2.json*"))
    if not models:
        raise UpstreamError(f"botocore {version('botocore')}: has no model of {service}")
    values = read_json(models[-1])["shapes"].get(shape, {}).get("enum")
    if not values:
        raise UpstreamError(f"{models[-1]}: shapes.{shape}.enum: missing\n  expected: a list of words")
    return ApiEnum(service, models[-1].parent.name, shape, tuple(values))


def instance_types() -> tuple[str, ...]:
    return enums()["InstanceType"].values


def ami_types() -> tuple[str, ...]:
    return enums()["AMITypes"].values
