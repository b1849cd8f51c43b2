"""Read the kind, group and metadata of objects, and compute the fields that an API server fills in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.resource import Resource

AUTONAMED = "pulumi.com/autonamed"


def kind(token: str) -> str:
    return token.rsplit(":", 1)[-1]


def group(token: str) -> str:
    """Return the API group of a token: `kubernetes:apps/v1:Deployment` has `apps`; the default is `core`."""
    name, slash, _ = token.split(":")[1].partition("/")
    return name if slash else "core"


def resource(token: str) -> str:
    """Return the resource name of a kind, such as `jobs.batch` (apimachinery, UnsafeGuessKindToResource)."""
    word, api_group = kind(token).lower(), group(token)
    plural = {"s": f"{word}es", "y": f"{word[:-1]}ies"}.get(word[-1], f"{word}s")
    plural = word if word.endswith("endpoints") else plural
    return plural if api_group == "core" else f"{plural}.{api_group}"


def already_exists(res: Resource, stack: str) -> str:
    """Return the error for a name that the cluster already has.

    Sources: helm.sh/helm/v3, pkg/action/install.go, availableName; k8s.io/apimachinery, NewAlreadyExists.
    """
    message = "cannot re-use a name that is still in use"
    if kind(res.token) != "Release":
        message = f'{resource(res.token)} "{metadata(res)["name"]}" already exists'
    hint = f"the stack {stack} has this object in the same cluster: remove it from one of the stacks, or rename it"
    return f"{message}\n  hint: {hint}" if stack else message


def metadata(res: Resource) -> dict[str, Any]:
    given = res.inputs.get("metadata")
    return dict(given) if isinstance(given, Mapping) else {}


def is_autonamed(given: Any) -> bool:
    annotations = given.get("annotations") if isinstance(given, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(AUTONAMED) == "true"


def _byte(res: Resource) -> int:
    return int(res.suffix(2), 16)


def server_fields(res: Resource, meta: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the API server and its controllers fill in, for kinds whose fields programs read."""
    match kind(res.token):
        case "Namespace":
            meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
            return {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        case "Service":
            spec = dict(res.inputs.get("spec") or {})
            old = res.outputs.get("spec") or {}
            # 10.96.0.0/12 is kubeadm's default service range.
            address = spec.get("clusterIP") or old.get("clusterIP") or f"10.96.{_byte(res)}.{_byte(res)}"
            spec |= {"clusterIP": address, "clusterIPs": [address], "type": spec.get("type") or "ClusterIP"}
            return {"spec": spec, "status": {"loadBalancer": {}}}
    return {}
