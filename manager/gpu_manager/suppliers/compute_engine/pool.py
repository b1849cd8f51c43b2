"""The configuration of a pool on Compute Engine."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ...pool_config import PoolConfig, RungConfig

# Copied from gpu_ci/gcp/resource_names.py, because that module loads Pulumi's SDK.
_ZONE = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
_TEMPLATE = r"(^|/)regions/[a-z0-9-]+/instanceTemplates/[^/]+$"


class ZoneConfig(RungConfig):
    """One place where the manager requests machines."""

    zone: str = Field(pattern=_ZONE)
    """A zone, such as us-central1-a."""
    template: str = Field(default="", pattern=rf"^$|{_TEMPLATE}")
    """The self link of this rung's regional instance template, if it differs from the pool's."""


class ComputeEnginePool(PoolConfig):
    """A pool on Compute Engine."""

    template: str = Field(pattern=_TEMPLATE)
    """The self link of the regional instance template whose check passed."""
    rungs: Sequence[ZoneConfig] = Field(min_length=1)
    """The places where the manager requests machines, in order."""
