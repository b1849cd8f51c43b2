"""Read the kind, the group and fields of objects, and compute the fields that an API server fills in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.values import Unknown

AUTONAMED = "pulumi.com/autonamed"


def items(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the index and the object of each list element; unknown elements of a preview are left out."""
    for at, one in enumerate(value if isinstance(value, list) else ()):
        if isinstance(one, Mapping):
            yield at, one


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a map with a known value."""
    for name, one in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(one, Unknown):
            yield name, one


def inner(value: Any, *path: str) -> Any:
    """Return the value at a path of nested maps; None if the path does not exist."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


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
    return bool(inner(given, "annotations", AUTONAMED) == "true")


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
            generated = f"10.96.{int(res.suffix(2), 16)}.{int(res.suffix(2), 16)}"
            address = spec.get("clusterIP") or old.get("clusterIP") or generated
            spec |= {"clusterIP": address, "clusterIPs": [address], "type": spec.get("type") or "ClusterIP"}
            ingress = inner(res.outputs, "status", "loadBalancer", "ingress")
            # 203.0.113.0/24 is for documentation (RFC 5737).
            ingress = ingress or [{"ip": f"203.0.113.{int(res.suffix(2), 16)}"}]
            balancer = {"ingress": ingress} if spec["type"] == "LoadBalancer" else {}
            return {"spec": spec, "status": {"loadBalancer": balancer}}
    return {}
