"""The ways to share the GPUs of a node: time-slicing, MPS (Multi-Process Service) and MIG (Multi-Instance GPU).

Each way is a model, which returns the configuration for NVIDIA's device plugin. `Sharing` is the union of the models.
No model combines two ways: time-slicing and MPS exclude each other, and MPS excludes MIG
(NVIDIA/k8s-device-plugin@7774fe3: README.md, "Shared Access to GPUs").
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ..args import Args, Integer, StrictBool
from . import gpu_nodes

# "number of replicas must be >= 2" (NVIDIA/k8s-device-plugin, api/config/v1/replicas.go).
Replicas = Annotated[Integer, Field(ge=2, examples=[4])]
_SHARED = "whether the resource is named nvidia.com/gpu.shared, so that no pod gets a part instead of a whole GPU"


class WholeGpus(Args):
    """Each GPU goes to one container at a time."""

    kind: Literal["none"] = Field(description="each GPU goes to one container at a time")

    def configuration(self) -> dict[str, Any]:
        """Return the plugin's configuration."""
        return {"flags": {"migStrategy": "none"}}


class TimeSlicing(Args):
    """Several containers take turns on a GPU. They share its memory without isolation, and a crash affects all."""

    kind: Literal["time-slicing"] = Field(description="containers take turns on a GPU, without isolation")
    replicas: Replicas = Field(description="number of containers that share a GPU, at least 2")
    rename_by_default: StrictBool = Field(default=True, description=_SHARED)
    fail_requests_greater_than_one: StrictBool = Field(
        default=True, description="whether to reject requests for several parts, because they give no more capacity"
    )

    def configuration(self) -> dict[str, Any]:
        shared = {
            "renameByDefault": self.rename_by_default,
            "failRequestsGreaterThanOne": self.fail_requests_greater_than_one,
            "resources": [{"name": gpu_nodes.RESOURCE, "replicas": self.replicas}],
        }
        return {"flags": {"migStrategy": "none"}, "sharing": {"timeSlicing": shared}}


class Mps(Args):
    """Several containers use a GPU at the same time, with equal parts of its memory. NVIDIA calls MPS experimental."""

    kind: Literal["mps"] = Field(
        description="containers use a GPU at the same time, each with an equal part of its memory; NVIDIA calls MPS "
        "experimental. Nodes need the label nvidia.com/mps.capable=true"
    )
    replicas: Replicas = Field(description="number of parts of a GPU, at least 2")
    rename_by_default: StrictBool = Field(default=True, description=_SHARED)

    def configuration(self) -> dict[str, Any]:
        shared = {
            "renameByDefault": self.rename_by_default,
            "resources": [{"name": gpu_nodes.RESOURCE, "replicas": self.replicas}],
        }
        return {"flags": {"migStrategy": "none"}, "sharing": {"mps": shared}}


class Mig(Args):
    """GPUs that are divided in hardware. The creator of a node divides its GPUs."""

    kind: Literal["mig"] = Field(description="GPUs that the creator of the node has divided in hardware")
    strategy: Literal["single", "mixed"] = Field(
        description="single (all partitions alike, advertised as nvidia.com/gpu) or mixed (each by its profile, such "
        "as nvidia.com/mig-1g.10gb)"
    )

    def configuration(self) -> dict[str, Any]:
        return {"flags": {"migStrategy": self.strategy}}


Sharing: TypeAlias = Annotated[WholeGpus | TimeSlicing | Mps | Mig, Field(discriminator="kind")]


def resource_of(sharing: WholeGpus | TimeSlicing | Mps | Mig) -> str:
    """Return the name of the resource that pods request. For MIG's strategy mixed, return the prefix of the names."""
    if isinstance(sharing, Mig) and sharing.strategy == "mixed":
        return "nvidia.com/mig-"
    renamed = isinstance(sharing, TimeSlicing | Mps) and sharing.rename_by_default
    return f"{gpu_nodes.RESOURCE}.shared" if renamed else gpu_nodes.RESOURCE


def as_text(sharing: WholeGpus | TimeSlicing | Mps | Mig) -> str:
    """Return the configuration file for the plugin as JSON, which is also valid YAML."""
    return json.dumps({"version": "v1", **sharing.configuration()}, indent=2, sort_keys=True)
