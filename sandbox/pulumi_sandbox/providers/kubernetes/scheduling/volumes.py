"""Check the volumes of a pod as the scheduler does, with its messages.

Sources, k8s.io/kubernetes v1.36.0: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}.go and
volumerestrictions/volume_restrictions.go. The sandbox creates no volume. A claim counts as bound if its class exists.
Zones, sizes and the access modes of a class's provisioner are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.kubernetes.scheduling.fit import NO_NODES, Misfit
from pulumi_sandbox.world.store import Record, World

CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ALONE = "ReadWriteOncePod"

NOT_FOUND = 'persistentvolumeclaim "{}" not found'
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def unresolvable_message(nodes: int, reason: str) -> str:
    """Return the scheduler's message for a pod that it compares with no node.

    The last two words are the error of the plugin for ResourceClaims, which finds no state of its own after that
    (plugins/dynamicresources/dynamicresources.go, PostFilter).
    """
    return f"0/{nodes} nodes are available: {reason}. not found" if nodes else NO_NODES


@dataclass(frozen=True)
class Volumes:
    """The claims and the storage classes of one cluster."""

    world: World
    values: Callable[[], Mapping[str, Any]]
    """Returns the values of sandbox.yaml and the fixtures for the cluster."""

    def unresolvable(self, namespace: str, spec: Mapping[str, Any]) -> str:
        """Return why no node can have the volumes of the pod. Return "" if there is no such reason."""
        claims = [(name, self._claim(namespace, name)) for name in claim_names(spec)]
        missing = next((NOT_FOUND.format(name) for name, claim in claims if claim is None), "")
        templates = [inner(one, "ephemeral", "volumeClaimTemplate", "spec") for _, one in items(spec.get("volumes"))]
        specs = [one for one in (*(claim for _, claim in claims), *templates) if one is not None]
        return missing or ("" if all(self._is_bound(one) for one in specs) else UNBOUND)

    def misfit(self, namespace: str, spec: Mapping[str, Any], running: Iterable[Record]) -> Misfit | None:
        """Return the reason if another pod uses a claim that only one pod can use."""
        used = {
            claim
            for row in running
            if inner(row.inputs, "metadata", "namespace") == namespace
            for claim in claim_names(inner(row.inputs, "spec") or {})
        }
        shared = used & set(claim_names(spec))
        alone = any(ALONE in (inner(self._claim(namespace, name), "accessModes") or ()) for name in shared)
        return Misfit((IN_USE,), final=False) if alone else None

    def _claim(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the spec of a claim; None if it does not exist. A claim of sandbox.yaml is bound."""
        identity = f"{namespace}/{name}"
        row = self.world.get(CLAIM, identity)
        if row is not None:
            return inner(row.inputs, "spec") or {}
        listed = (one for _, one in items(self.values().get("claims")) if one.get("name") == identity)
        return next(({**one, "volumeName": identity} for one in listed), None)

    def _is_bound(self, claim: Mapping[str, Any]) -> bool:
        name = claim.get("storageClassName")
        if claim.get("volumeName"):
            return True
        if name is None:
            return any(is_default for _, is_default in self._classes())
        return any(name == one for one, _ in self._classes())

    def _classes(self) -> Iterator[tuple[str, bool]]:
        """Yield each storage class, and whether it is the default class."""
        for row in self.world.find(CLASS):
            yield row.id, inner(row.inputs, "metadata", "annotations", DEFAULT_CLASS) == "true"
        for _, one in items(self.values().get("storageClasses")):
            yield str(one.get("name")), bool(one.get("default"))


def claim_names(spec: Mapping[str, Any]) -> list[str]:
    """Return the claims that a pod names."""
    names = (inner(one, "persistentVolumeClaim", "claimName") for _, one in items(spec.get("volumes")))
    return [str(name) for name in names if name]
