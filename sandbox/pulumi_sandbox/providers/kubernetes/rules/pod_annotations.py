"""Check the annotations with a meaning for the pod itself.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, ValidatePodSpecificAnnotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import forbidden, has_unknown, invalid
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.resource import Problem

MIRROR, DELETION_COST = "kubernetes.io/config.mirror", "controller.kubernetes.io/pod-deletion-cost"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR_PROFILES, SECCOMP_PROFILES = (
    ("", "runtime/default", "unconfined"),
    (
        "runtime/default",
        "docker/default",
        "unconfined",
    ),
)
LOCAL = "localhost/"
# The type of a profile by its name in an annotation.
TYPES = {"runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault", "unconfined": "Unconfined"}


def check(given: Mapping[str, Any]) -> Iterator[Problem]:
    annotations, spec, path = inner(given, "metadata", "annotations"), given.get("spec"), "metadata.annotations"
    if not isinstance(annotations, Mapping) or has_unknown(annotations) or has_unknown(spec):
        return
    if MIRROR in annotations and not inner(spec, "nodeName"):
        message = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{path}[{MIRROR}]", annotations[MIRROR], message)
    cost = annotations.get(DELETION_COST)
    if cost is not None and not (re.fullmatch("0|-?[1-9][0-9]*", cost) and -(2**31) <= int(cost) < 2**31):
        yield invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    containers = _containers(spec)
    for name, profile in annotations.items():
        if name == SECCOMP_POD:
            yield from _seccomp(f"{path}.{name}", profile)
            yield from _same("spec.securityContext", "seccomp", profile, inner(spec, "securityContext"))
        elif name.startswith(SECCOMP_CONTAINER):
            yield from _seccomp(f"{path}.{name}", profile)
            where, container = containers.get(name.removeprefix(SECCOMP_CONTAINER), ("", {}))
            yield from _same(f"{where}.securityContext", "seccomp", profile, inner(container, "securityContext"))
        elif name.startswith(APPARMOR):
            container_name = name.removeprefix(APPARMOR)
            if container_name not in containers:
                yield invalid(f"{path}[{name}]", container_name, "container not found")
            if profile not in APPARMOR_PROFILES and not profile.startswith(LOCAL):
                yield invalid(f"{path}[{name}]", profile, f'invalid AppArmor profile name: "{profile}"')
            where, container = containers.get(container_name, ("", {}))
            yield from _same(f"{where}.securityContext", "apparmor", profile, inner(container, "securityContext"))


def _containers(spec: Any) -> dict[Any, tuple[str, Mapping[str, Any]]]:
    """Return the path and the object of each container by its name."""
    return {
        one.get("name"): (f"spec.{kind}[{at}]", one)
        for kind in ("containers", "initContainers")
        for at, one in items(inner(spec, kind))
    }


def _seccomp(path: str, profile: str) -> Iterator[Problem]:
    if profile.startswith(LOCAL):
        local = profile.removeprefix(LOCAL)
        if local.startswith("/"):
            yield invalid(path, local, "must be a relative path")
        if ".." in local.split("/"):
            yield invalid(path, local, "must not contain '..'")
    elif profile not in SECCOMP_PROFILES:
        yield invalid(path, profile, "must be a valid seccomp profile")


def _same(path: str, what: str, profile: str, security: Any) -> Iterator[Problem]:
    """Check that a profile in an annotation is the one in the field (validateSeccompAnnotationsAndFieldsMatch)."""
    field = {"seccomp": "seccompProfile", "apparmor": "appArmorProfile"}[what]
    given = inner(security, field)
    if given is None:
        return
    kind = "Localhost" if profile.startswith(LOCAL) else TYPES.get(profile)
    if kind != given.get("type"):
        yield forbidden(f"{path}.{field}.type", f"{what} type in annotation and field must match")
    elif kind == "Localhost" and given.get("localhostProfile") != profile.removeprefix(LOCAL):
        yield forbidden(f"{path}.{field}.localhostProfile", f"{what} profile in annotation and field must match")


def update(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    """Check a change of the annotations (ValidatePodSpecificAnnotationUpdates)."""
    before, after = (inner(one, "metadata", "annotations") or {} for one in (old, new))
    for name in (*before, *(one for one in after if one not in before)):
        what = "mirror pod annotation" if name == MIRROR else "AppArmor annotations"
        if (name == MIRROR or name.startswith(APPARMOR)) and before.get(name) != after.get(name):
            yield forbidden(
                f"metadata.annotations[{name}]", f"may not {'remove or update' if name in before else 'add'} {what}"
            )
