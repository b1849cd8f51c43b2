"""The settings of the runner manager that do not depend on the cloud where it runs."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from .args import Args, Input, Integer
from .errors import invalid

Channel = Annotated[str, Field(pattern=r"^projects/[^/]+/notificationChannels/[0-9]+$")]
_DIGEST = r"@sha256:[0-9a-f]{64}$"
_IMAGE = rf"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9._-]+)?{_DIGEST}"


class ManagerAlerts(Args):
    """The conditions for alerts about jobs that get no runner, and the notification channels."""

    EXAMPLE: ClassVar[dict[str, Any]] = {"notificationChannels": ["projects/acme-ci/notificationChannels/1234567890"]}

    notification_channels: list[Input[Channel]] = Field(
        min_length=1,
        max_length=16,
        description="the notification channels of alerts, as projects/<project>/notificationChannels/<number>; list "
        "them with gcloud beta monitoring channels list",
    )
    stalled_sec: Integer = Field(
        default=1200,
        ge=1200,
        le=86400,
        description="seconds without a complete pass of the manager after which to alert, 1200 to 86400",
    )
    wait_objective_sec: Integer = Field(
        default=1800,
        ge=60,
        le=86400,
        description="seconds that a job may wait for its runner before an alert, 60 to 86400",
    )


class ManagerChoices(Args):
    """The image and the number of a manager's processes."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "image": f"us-central1-docker.pkg.dev/acme-ci/build-builds-prod/runner-manager@sha256:{'0123456789abcdef' * 4}",
    }

    image: str = Field(
        description="the container image of the manager, by its digest, as registry/name@sha256:…; build it with "
        "manager/Dockerfile",
        json_schema_extra={"pattern": _IMAGE},
    )
    instances: Integer = Field(
        default=1,
        ge=1,
        le=20,
        description="the number of manager processes, 1 to 20; one of them acts, and the others wait until it ends",
    )

    @field_validator("image")
    @classmethod
    def _image(cls, value: str) -> str:
        if not re.search(_DIGEST, value):
            hint = "a tag can point to another image later; the registry prints the digest of an image"
            raise invalid(
                "is not pinned by its digest", "no-digest", expected="registry/name@sha256:<64 hex digits>", hint=hint
            )
        if not re.fullmatch(_IMAGE, value):
            raise invalid(
                "is not the address of a container image",
                "not-an-image",
                expected="registry/name@sha256:<64 hex digits>",
            )
        return value


ALERTS: Any = Field(
    default=None,
    description="for Cloud Run: alert policies for a stalled manager, for jobs that wait too long, and for budgets "
    "of teams; by default none",
)
METRICS: Any = Field(
    default=False,
    description="for Cloud Run: whether to create log-based metrics in Cloud Monitoring from the manager's "
    "measurements, which cost by volume; the manager's log contains the measurements in any case",
)
BINARY_AUTHORIZATION: Any = Field(
    default=False,
    description="whether Cloud Run checks the image by the project's policy of Binary Authorization",
)
