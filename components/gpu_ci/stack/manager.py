"""The model of gpu-ci:manager: where the runner manager runs, and which managers the stack has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from gpu_common import google_permissions
from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from ..args import StrictBool
from ..aws import resource_names
from ..errors import at_path, invalid, raise_problems
from ..gcp.network_choices import network_region
from ..runner_manager import ALERTS, BINARY_AUTHORIZATION, METRICS, ManagerAlerts, ManagerChoices

_ONLY_GOOGLE, _ONLY_AWS = ("alerts", "metrics", "binary_authorization"), ("subnets", "assign_public_ip")


def on_aws(value: Any) -> bool:
    """Return True if the manager of a stack file runs on AWS. The value may be invalid."""
    region = value.get("region") if isinstance(value, Mapping) else None
    return bool(re.fullmatch(resource_names.REGION, str(region)))


class ManagerSettings(ManagerChoices):
    """The settings of a runner manager in a stack file."""

    EXAMPLE: ClassVar[dict[str, Any]] = {**ManagerChoices.EXAMPLE, "region": "us-central1"}
    CREATES: ClassVar[tuple[str, ...]] = (
        "gcp:cloudrunv2/workerPool:WorkerPool",
        google_permissions.CUSTOM_ROLE,
        "gcp:serviceaccount/iAMMember:IAMMember",
        "gcp:storage/bucket:Bucket",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "gcp:storage/bucketObject:BucketObject",
        "gcp:serviceaccount/account:Account",
        google_permissions.PROJECT_MEMBER,
        google_permissions.SECRET_MEMBER,
    )
    CREATES_WITH: ClassVar[dict[str, tuple[str, ...]]] = {
        "metrics": ("gcp:logging/metric:Metric",),
        "alerts": ("gcp:logging/metric:Metric", "gcp:monitoring/alertPolicy:AlertPolicy"),
    }

    region: str = Field(
        description="the region where the manager runs: of Google Cloud, such as us-central1, or of AWS, such as "
        "us-east-1"
    )
    subnets: list[resource_names.SubnetId] = Field(
        default=[],
        max_length=16,
        examples=[["subnet-0a1b2c3d4e5f60001"]],
        description="on AWS: the subnets of the manager, in one VPC, with a route to the internet",
    )
    assign_public_ip: StrictBool = Field(
        default=False,
        description="on AWS: whether the manager gets a public address, which it needs in a subnet without a NAT "
        "gateway; it accepts no incoming connection",
    )
    alerts: ManagerAlerts | None = ALERTS
    metrics: StrictBool = METRICS
    binary_authorization: StrictBool = BINARY_AUTHORIZATION
    demand: Literal["sweep", "scaleSets"] = Field(
        default="sweep",
        description="how the manager finds jobs: by lists of all runs, or by messages of runner scale sets "
        "(docs/guides/runner-manager-setup.md#runner-scale-sets)",
    )
    others: dict[Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$")], list[str]] = Field(
        default={},
        description="further managers with these settings: for each name, the pools that this manager serves; the "
        "first manager serves every other pool",
    )

    @property
    def on_aws(self) -> bool:
        return on_aws({"region": self.region})

    @property
    def own(self) -> dict[str, Any]:
        """The arguments of the component RunnerManager of the cloud."""
        unused = {"others", "demand", *(_ONLY_GOOGLE if self.on_aws else _ONLY_AWS)}
        return {field: value for field, value in self if field not in unused}

    @model_validator(mode="after")
    def _fits_the_cloud(self) -> Self:
        wrong = []
        if not self.on_aws:
            try:
                network_region(self.region)
            except ValueError as error:
                wrong.append(at_path(error, self.region, "region"))  # type: ignore[arg-type]
        elif not self.subnets:
            missing = invalid("is missing, and a manager on AWS needs it", "missing", hint="private subnets with a NAT")
            wrong.append(at_path(missing, None, "subnets"))
        for name in _ONLY_AWS if not self.on_aws else _ONLY_GOOGLE:
            if value := getattr(self, name):
                text = f"is for a manager on {'Google Cloud' if self.on_aws else 'AWS'}"
                hint = f"remove it, or correct region, which is {self.region}"
                got: Any = value if isinstance(value, list | bool) else {}
                wrong.append(at_path(invalid(text, "other-cloud", hint=hint), got, to_camel(name)))
        raise_problems(wrong)
        return self
