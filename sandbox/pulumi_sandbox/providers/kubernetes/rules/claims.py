"""Check the API server's rules for claims of volumes (PersistentVolumeClaim).

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import (
    canonical,
    dns_subdomain,
    forbidden,
    invalid,
    quantity,
    required,
    unsupported,
)
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.kubernetes.rules.selectors import selector
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

ALONE = "ReadWriteOncePod"
MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", ALONE)
VOLUME_MODES = ("Block", "Filesystem")


def claim(given: Mapping[str, Any]) -> Iterator[Problem]:
    yield from claim_spec("spec", given.get("spec"))


def claim_spec(path: str, spec: Any) -> Iterator[Problem]:
    if isinstance(spec, Unknown):
        return
    yield from _access_modes(f"{path}.accessModes", inner(spec, "accessModes"))
    yield from selector(f"{path}.selector", inner(spec, "selector"))
    requests = inner(spec, "resources", "requests")
    unknown = any(isinstance(one, Unknown) for one in (inner(spec, "resources"), requests))
    storage, storage_path = inner(requests, "storage"), f"{path}.resources[storage]"
    if storage is None and not unknown:
        yield required(storage_path)
    elif (amount := quantity(storage)) is not None and amount <= 0:
        yield invalid(storage_path, canonical(storage), "must be greater than zero")
    mode = inner(spec, "volumeMode")
    for field in ("storageClassName", "volumeAttributesClassName"):
        value = inner(spec, field)
        if isinstance(value, str) and value:
            yield from (invalid(f"{path}.{field}", value, message) for message in dns_subdomain(value))
    yield from _sources(path, spec)
    if isinstance(mode, str) and mode not in VOLUME_MODES:
        yield unsupported(f"{path}.volumeMode", mode, VOLUME_MODES)


def _access_modes(path: str, modes: Any) -> Iterator[Problem]:
    if isinstance(modes, Unknown):
        return
    if not modes:
        yield required(path, "at least 1 access mode is required")
        return
    yield from (unsupported(path, one, MODES) for one in modes if isinstance(one, str) and one not in MODES)
    if ALONE in modes and any(one in MODES and one != ALONE for one in modes):
        yield forbidden(path, f"may not use {ALONE} with other access modes")


def _sources(path: str, spec: Any) -> Iterator[Problem]:
    """Check the sources of the contents of a volume.

    The API server removes a dataSource of a kind that it does not know unless there is a dataSourceRef too.
    """
    source, reference = (inner(spec, name) for name in ("dataSource", "dataSourceRef"))
    for name, given in (("dataSource", source), ("dataSourceRef", reference)):
        group = inner(given, "apiGroup")
        if reference is not None and isinstance(group, str) and group:
            yield from (invalid(f"{path}.{name}.apiGroup", group, message) for message in dns_subdomain(group))
    if isinstance(source, Mapping) and isinstance(reference, Mapping) and source != reference:
        yield invalid(path, {}, "must match dataSourceRef")
