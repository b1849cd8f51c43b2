"""A catalog of machines with GPUs on Google Cloud and AWS. Every fact is data with a source.

The data files are read at the first query, not at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (
    DoesNotFit,
    UnknownAccelerator,
    UnknownGpu,
    UnknownMachine,
    UnknownMarket,
    UnknownName,
    UnknownSource,
    closest,
)
from .locations import closest_location, region_of
from .models import (
    CLOUDS,
    MARKETS,
    AmiType,
    Architecture,
    Attachment,
    Cloud,
    Demand,
    DriverBranches,
    Gpu,
    LocalDisks,
    Machine,
    Market,
    N1Shape,
    Price,
    Quota,
    Source,
)
from .n1 import (
    attachable,
    attached,
    attachment_counts,
    attachments,
    n1_shape,
    n1_shapes,
    takes_accelerator,
    too_large,
)
from .prices import interruption, price
from .queries import (
    accelerators,
    ami_types,
    driver_branches,
    gpu,
    gpus,
    is_nvidia,
    machine,
    machine_types,
    machine_with_gpu,
    machines,
    market,
    nominal_gpu_memory_gib,
    quota_metric,
    quota_metrics,
    regions,
    source,
    sources_of,
    zones,
)

if TYPE_CHECKING:
    from . import cost, limits, quota, staleness

__all__ = [
    "CLOUDS",
    "MARKETS",
    "AmiType",
    "Architecture",
    "Attachment",
    "Cloud",
    "Demand",
    "DoesNotFit",
    "DriverBranches",
    "Gpu",
    "LocalDisks",
    "Machine",
    "Market",
    "N1Shape",
    "Price",
    "Quota",
    "Source",
    "UnknownAccelerator",
    "UnknownGpu",
    "UnknownMachine",
    "UnknownMarket",
    "UnknownName",
    "UnknownSource",
    "accelerators",
    "ami_types",
    "attachable",
    "attached",
    "attachment_counts",
    "attachments",
    "closest",
    "closest_location",
    "cost",
    "driver_branches",
    "gpu",
    "gpus",
    "interruption",
    "is_nvidia",
    "limits",
    "machine",
    "machine_types",
    "machine_with_gpu",
    "machines",
    "market",
    "n1_shape",
    "n1_shapes",
    "nominal_gpu_memory_gib",
    "price",
    "quota",
    "quota_metric",
    "quota_metrics",
    "region_of",
    "regions",
    "source",
    "sources_of",
    "staleness",
    "takes_accelerator",
    "too_large",
    "zones",
]

# Modules that are loaded at first use, because only some queries need them.
_LATER = ("cost", "limits", "quota", "staleness")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
