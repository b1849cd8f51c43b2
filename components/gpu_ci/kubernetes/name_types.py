"""The forms in which Kubernetes names things, and the rights a pod has when nothing asks for more."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from ..args import Redacted
from ..errors import at_path, invalid, raise_problems, whole_value

# RFC 1123 (kubernetes.io/docs/concepts/overview/working-with-objects/names).
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
# NVIDIA/k8s-device-plugin@7774fe3: README.md, "Shared Access to GPUs"; .shared is what renameByDefault adds.
_RESOURCE = r"^nvidia\.com/(gpu|mig-[0-9]+g\.[0-9]+gb(\.me)?)(\.shared)?$"


def _not_kept(value: str) -> str:
    if value == "default" or value.startswith("kube-"):
        raise invalid("is one of Kubernetes' own namespaces", safe_hint="name one for this alone, such as gpu-ci")
    return value


def _each_once(values: list[Any]) -> list[Any]:
    error = invalid("is there twice", safe_hint="remove one")
    raise_problems([at_path(error, value, at) for at, value in enumerate(values) if value in values[:at]])
    return values


EachOnce = whole_value(_each_once)
NamespaceName = Annotated[str, Field(pattern=rf"^{_LABEL}$", max_length=63), AfterValidator(_not_kept)]
Name = Annotated[str, Field(pattern=rf"^{_LABEL}$", max_length=63)]
# What a label may hold, as EKS and Kubernetes take it (the page above, "Labels").
# A Secret's name is a subdomain: labels with dots between them.
SecretName = Annotated[str, Field(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
Pool = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]
GpuResource = Annotated[str, Field(pattern=_RESOURCE)]
Registry = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?$")]
_REPOSITORY = r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+"


def _by_digest(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(rf"{_REPOSITORY}(:[\w.-]+)?", value):
        raise invalid(
            "has no digest: what its tag names may be another image tomorrow, and that one nobody has checked",
            safe_hint="docker buildx imagetools inspect <image> tells it; put it behind the tag: :2.336.0@sha256:…",
        )
    return value


# What stands in its place by mistake may have a password in it.
Image = Annotated[
    str, Redacted(), BeforeValidator(_by_digest), Field(pattern=rf"^{_REPOSITORY}(:[\w.-]+)?@sha256:[0-9a-f]{{64}}$")
]

PullSecrets = Annotated[list[SecretName], EachOnce]


def pull_secrets(names: list[str]) -> dict[str, Any]:
    """The pod's field for the Secrets that the kubelet pulls private images with; nothing where there are none.

    The kubelet reads the pod's own list alone: a service account's list reaches only pods without one, and the chart
    makes an account for each set (kubernetes.io/docs/concepts/containers/images, "Using a private registry").
    """
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


POD_SECURITY: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
"""With POD_SECURITY all that the level `restricted` asks for (kubernetes.io/docs/concepts/security/
pod-security-standards)."""
