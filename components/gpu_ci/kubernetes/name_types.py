"""The field types of Kubernetes names and of the torch of jobs, and the security settings of unprivileged pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from ..args import Args, Input, Redacted
from ..errors import at_path, invalid, raise_problems
from . import gpu_nodes

# RFC 1123 (kubernetes.io/docs/concepts/overview/working-with-objects/names).
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
# NVIDIA/k8s-device-plugin@7774fe3: README.md, "Shared Access to GPUs"; renameByDefault adds .shared.
_RESOURCE = r"^nvidia\.com/(gpu|mig-[0-9]+g\.[0-9]+gb(\.me)?)(\.shared)?$"


def reserved_namespace(value: str) -> str:
    """Return why a namespace cannot be created; empty if it can."""
    return "is a namespace of Kubernetes itself" if value == "default" or value.startswith("kube-") else ""


def _not_reserved(value: str) -> str:
    if text := reserved_namespace(value):
        raise invalid(
            text,
            "reserved-name",
            safe_hint="use a namespace for this purpose only, such as gpu-ci",
        )
    return value


def _each_once(values: list[Any]) -> list[Any]:
    error = invalid("is a duplicate", "duplicate", safe_hint="remove it")
    raise_problems([at_path(error, value, at) for at, value in enumerate(values) if value in values[:at]])
    return values


EachOnce = AfterValidator(_each_once)


def _each_name_once(values: list[Any]) -> list[Any]:
    names = [each.get("name") if isinstance(each, Mapping) else getattr(each, "name", None) for each in values]
    error = invalid("is a duplicate", "duplicate", safe_hint="give each login another name")
    again = [(at, name) for at, name in enumerate(names) if name is not None and name in names[:at]]
    raise_problems([at_path(error, name, at, "name") for at, name in again])
    return values


EachNameOnce = AfterValidator(_each_name_once)
NamespaceName = Annotated[str, Field(pattern=rf"^{_LABEL}$", max_length=63), AfterValidator(_not_reserved)]
Name = Annotated[str, Field(pattern=rf"^{_LABEL}$", max_length=63)]
# The names of most objects, such as Secrets and claims, are DNS subdomains: labels separated by dots.
ResourceName = Annotated[str, Field(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
SecretName = ResourceName
TorchOfJobs = Annotated[
    str | None,
    Field(
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+cu[0-9]{3})?$",
        description="the torch version of the jobs' images, such as 2.14.0+cu126; it is only checked against the GPU "
        "and the driver, and is not installed",
    ),
]
# The value of a label in Kubernetes and on EKS.
Pool = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]
GpuResource = Annotated[str, Field(pattern=_RESOURCE)]
Registry = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?$")]
_REPOSITORY = r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+"


def _has_digest(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(rf"{_REPOSITORY}(:[\w.-]+)?", value):
        raise invalid(
            "has no digest, and its tag can point to another, unchecked image later",
            "no-digest",
            safe_hint="docker buildx imagetools inspect <image> prints the digest; add it after the tag: "
            ":2.336.0@sha256:…",
            harmless=True,  # the form of an image's name has no place for a password
        )
    return value


# A wrong value may contain a password, so errors redact it.
Image = Annotated[
    str, Redacted(), BeforeValidator(_has_digest), Field(pattern=rf"^{_REPOSITORY}(:[\w.-]+)?@sha256:[0-9a-f]{{64}}$")
]

PullSecrets = Annotated[list[SecretName], EachOnce]


def pull_secrets(names: list[str]) -> dict[str, Any]:
    """Return the pod's field `imagePullSecrets`, or an empty dict without names.

    The Secrets are listed in each pod, not in a service account, because the chart creates a service account for each
    scale set (kubernetes.io/docs/concepts/containers/images, "Using a private registry").
    """
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


POD_SECURITY: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
"""Together with POD_SECURITY, all settings that the pod security level `restricted` requires.

Source: kubernetes.io/docs/concepts/security/pod-security-standards.
"""


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
