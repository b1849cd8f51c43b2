"""Settings of pods with GPUs that depend on the nodes of a cloud: more tolerations, and environment variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ..args import Args, Input
from ..errors import at_path, invalid, raise_problems
from . import gpu_nodes
from .name_types import EachOnce

# A label key: a name of at most 63 characters, with an optional DNS subdomain before it (kubernetes.io, "Labels and
# Selectors"). Keys of taints have the same form.
_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"


class Toleration(Args):
    """A taint of nodes that a pod tolerates, in addition to the taint of GPU nodes."""

    key: Annotated[str, Field(pattern=_KEY)] = Field(
        examples=["kubernetes.io/arch"], description="the key of the taint, such as kubernetes.io/arch"
    )
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal", description="Equal for a taint with this value, Exists for a taint with any value"
    )
    value: str = Field(default="", examples=["arm64"], description="the value of the taint, such as arm64")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="the effect of the taint; by default every effect"
    )

    @field_validator("key")
    @classmethod
    def _key(cls, value: str) -> str:
        if value == gpu_nodes.TAINT_KEY:
            raise invalid(
                "is the taint of GPU nodes, which the pods tolerate anyway", "reserved-name", safe_hint="remove it"
            )
        return value

    @field_validator("value")
    @classmethod
    def _value(cls, value: str, info: ValidationInfo) -> str:
        # k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, ValidateTolerations.
        if value and info.data.get("operator") == "Exists":
            raise invalid(
                "must be empty with the operator Exists",
                "value-with-exists",
                safe_hint="remove it, or use operator: Equal",
            )
        return value

    def to_kubernetes(self) -> dict[str, Any]:
        """Return the toleration as an object of Kubernetes."""
        return {name: value for name, value in dict(self).items() if value}


# A label value (kubernetes.io, "Labels and Selectors").
_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
NodeLabels = dict[Annotated[str, Field(pattern=_KEY)], Input[Annotated[str, Field(pattern=_VALUE)]]]

Tolerations = Annotated[list[Toleration], EachOnce]
TOLERATIONS = "taints that the pods tolerate in addition to the taint of GPU nodes"


def tolerations(more: Iterable[Toleration]) -> list[dict[str, Any]]:
    """Return the tolerations of a pod that may run on GPU nodes."""
    return [gpu_nodes.toleration(), *(each.to_kubernetes() for each in more)]


def _without_visible_devices(values: Mapping[str, Any]) -> Mapping[str, Any]:
    if _VISIBLE_DEVICES in values:
        error = invalid(
            "cannot be set: the device plugin assigns the GPUs of a container", "reserved-name", safe_hint="remove it"
        )
        raise_problems([at_path(error, values[_VISIBLE_DEVICES], _VISIBLE_DEVICES)])
    return values


Environment = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str], AfterValidator(_without_visible_devices)
]
ENVIRONMENT = (
    "environment variables of the container with GPUs, such as LD_LIBRARY_PATH for nodes whose container runtime does "
    "not add the folder of the driver's libraries; readable in the cluster, so no secrets. Variables that gpu-ci sets "
    "take precedence"
)


def environment(more: Mapping[str, str], own: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the environment variables of a container: `more`, and then those that gpu-ci sets."""
    names = {each["name"] for each in own}
    return [*({"name": name, "value": value} for name, value in more.items() if name not in names), *map(dict, own)]
