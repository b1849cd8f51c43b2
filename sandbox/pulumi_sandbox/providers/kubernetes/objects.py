"""What an object's token and metadata tell, and what an API server fills in by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.resource import Resource

AUTONAMED = "pulumi.com/autonamed"


def kind(token: str) -> str:
    return token.rsplit(":", 1)[-1]


def group(token: str) -> str:
    """`kubernetes:apps/v1:Deployment` is of the group apps; what has no group is of core."""
    found, slash, _ = token.split(":")[1].partition("/")
    return found if slash else "core"


def resource(token: str) -> str:
    """What the API calls objects of a kind: `jobs.batch` (apimachinery, UnsafeGuessKindToResource)."""
    word, of = kind(token).lower(), group(token)
    plural = {"s": f"{word}es", "y": f"{word[:-1]}ies"}.get(word[-1], f"{word}s")
    plural = word if word.endswith("endpoints") else plural
    return plural if of == "core" else f"{plural}.{of}"


def taken(res: Resource, stack: str) -> str:
    """What is said of a name that a cluster has already: helm.sh/helm/v3, pkg/action/install.go, availableName, and
    k8s.io/apimachinery, NewAlreadyExists."""
    message = "cannot re-use a name that is still in use"
    if kind(res.token) != "Release":
        message = f'{resource(res.token)} "{metadata(res)["name"]}" already exists'
    hint = f"the stack {stack} has it in this cluster: leave it to that one, or choose another name"
    return f"{message}\n  hint: {hint}" if stack else message


def metadata(res: Resource) -> dict[str, Any]:
    given = res.inputs.get("metadata")
    return dict(given) if isinstance(given, Mapping) else {}


def is_autonamed(given: Any) -> bool:
    annotations = given.get("annotations") if isinstance(given, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(AUTONAMED) == "true"


def _byte(res: Resource) -> int:
    return int(res.suffix(2), 16)


def filled(res: Resource, meta: dict[str, Any]) -> dict[str, Any]:
    """What the API server and its controllers fill in, for the kinds a program reads it from."""
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
