"""How the GPUs of a node are given out, as a choice of models, and the device plugin's configuration of each.

Time-slicing and MPS exclude each other, and MPS excludes MIG (NVIDIA/k8s-device-plugin@7774fe3: README.md, "Shared
Access to GPUs"), so that no model here has words for two of them.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ..args import Args, Integer, StrictBool
from . import gpu_nodes

# "number of replicas must be >= 2" (the same: api/config/v1/replicas.go).
Replicas = Annotated[Integer, Field(ge=2, examples=[4])]
_SHARED = "whether they are advertised as nvidia.com/gpu.shared, so that no pod takes one for a whole GPU"


class WholeGpus(Args):
    """Each GPU goes to one container at a time."""

    kind: Literal["none"] = Field(description="each GPU goes to one container at a time")

    def configuration(self) -> dict[str, Any]:
        """The plugin's own words for it; so below."""
        return {"flags": {"migStrategy": "none"}}


class TimeSlicing(Args):
    """Several containers take turns on a GPU. Nothing keeps them apart: they share memory and each other's crash."""

    kind: Literal["time-slicing"] = Field(description="containers take turns on a GPU, and nothing keeps them apart")
    replicas: Replicas = Field(description="how many containers share a GPU, at least 2")
    rename_by_default: StrictBool = Field(default=True, description=_SHARED)
    fail_requests_greater_than_one: StrictBool = Field(
        default=True, description="whether a container that asks for several is refused, since it would not get more"
    )

    def configuration(self) -> dict[str, Any]:
        shared = {
            "renameByDefault": self.rename_by_default,
            "failRequestsGreaterThanOne": self.fail_requests_greater_than_one,
            "resources": [{"name": gpu_nodes.RESOURCE, "replicas": self.replicas}],
        }
        return {"flags": {"migStrategy": "none"}, "sharing": {"timeSlicing": shared}}


class Mps(Args):
    """Several containers on a GPU at once, each with an equal part of its memory; experimental, as NVIDIA says."""

    kind: Literal["mps"] = Field(
        description="containers use a GPU at once, each with an equal part of its memory; experimental, as NVIDIA "
        "says. Nodes need the label nvidia.com/mps.capable=true"
    )
    replicas: Replicas = Field(description="into how many parts a GPU is divided, at least 2")
    rename_by_default: StrictBool = Field(default=True, description=_SHARED)

    def configuration(self) -> dict[str, Any]:
        shared = {
            "renameByDefault": self.rename_by_default,
            "resources": [{"name": gpu_nodes.RESOURCE, "replicas": self.replicas}],
        }
        return {"flags": {"migStrategy": "none"}, "sharing": {"mps": shared}}


class Mig(Args):
    """The parts a GPU has been divided into in hardware; whoever makes the node divides it."""

    kind: Literal["mig"] = Field(description="GPUs that the node's maker has divided in hardware")
    strategy: Literal["single", "mixed"] = Field(
        description="single (all parts alike, advertised as nvidia.com/gpu) or mixed (each by its profile, such as "
        "nvidia.com/mig-1g.10gb)"
    )

    def configuration(self) -> dict[str, Any]:
        return {"flags": {"migStrategy": self.strategy}}


Sharing: TypeAlias = Annotated[WholeGpus | TimeSlicing | Mps | Mig, Field(discriminator="kind")]


def resource_of(sharing: WholeGpus | TimeSlicing | Mps | Mig) -> str:
    """What pods ask for where GPUs are given out so; of MIG's mixed strategy, what all of its names begin with."""
    if isinstance(sharing, Mig) and sharing.strategy == "mixed":
        return "nvidia.com/mig-"
    renamed = isinstance(sharing, TimeSlicing | Mps) and sharing.rename_by_default
    return f"{gpu_nodes.RESOURCE}.shared" if renamed else gpu_nodes.RESOURCE


def as_text(sharing: WholeGpus | TimeSlicing | Mps | Mig) -> str:
    """A configuration file of the plugin, which reads JSON as it does YAML."""
    return json.dumps({"version": "v1", **sharing.configuration()}, indent=2, sort_keys=True)
