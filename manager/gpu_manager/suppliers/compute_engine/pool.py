"""The configuration of a pool on Compute Engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from ...model import CONFIGURED, Offer, Pool, Rungs

# Copied from gpu_ci/gcp/resource_names.py, because that module loads Pulumi's SDK.
_ZONE = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
_TEMPLATE = r"(^|/)regions/[a-z0-9-]+/instanceTemplates/[^/]+$"


@dataclass(frozen=True, config=CONFIGURED)
class ZoneOffer(Offer):
    """A machine in a zone."""

    zone: Annotated[str, Field(pattern=_ZONE)]
    """A zone, such as us-central1-a."""
    template: str = Field(default="", pattern=rf"^$|{_TEMPLATE}")
    """The self link of this rung's regional instance template, if it differs from the pool's."""


@dataclass(frozen=True, config=CONFIGURED)
class ComputeEnginePool(Pool):
    """A pool on Compute Engine."""

    template: Annotated[str, Field(pattern=_TEMPLATE)]
    """The self link of the regional instance template whose check passed."""
    rungs: Rungs[ZoneOffer]
    """The places where the manager requests machines, in order."""
