"""Emulate the DNS names of pods for a Python program in a container.

A container of the sandbox is a process of this computer, whose resolver does not know pods. The module
in_container/sitecustomize.py changes Python programs; these variables configure it. Source for the names:
kubernetes.io/docs/concepts/services-networking/dns-pod-service, "Pod's hostname and subdomain fields".
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.world.store import World

SERVICE = "kubernetes:core/v1:Service"
FOLDER = Path(__file__).parent / "in_container"


def variables(others: Mapping[str, str], file: Path | None, service: str) -> dict[str, str]:
    """Return the variables for a program with the variables `others`.

    Args:
        others: The other variables of the program.
        file: The file with the names of pods.
        service: The Service of the program's pod; empty without one.
    """
    if not file or not service:
        return {}
    paths = os.pathsep.join(filter(None, (str(FOLDER), others.get("PYTHONPATH"))))
    return {"PULUMI_SANDBOX_NAMES": str(file), "PULUMI_SANDBOX_SERVICE": service, "PYTHONPATH": paths}


def write_names(file: Path, world: World, namespace: str) -> None:
    """Write the current names. The replacement is atomic, so a reader never sees half a file."""
    text = "".join(f"{name} {address}\n" for name, address in sorted(_names(world, namespace)))
    if not file.exists() or file.read_text() != text:
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)


def _names(world: World, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield the DNS name and an address of every running pod with a hostname behind a headless Service."""
    for row in world.find(POD):
        spec, meta = inner(row.inputs, "spec") or {}, inner(row.inputs, "metadata") or {}
        host, subdomain = spec.get("hostname"), spec.get("subdomain")
        running = inner(row.outputs, "status", "phase") == "Running"
        if host and running and meta.get("namespace") == namespace and _is_selected_by(world, meta, str(subdomain)):
            number = zlib.crc32(row.id.encode())
            # kubeadm's guides use 10.244.0.0/16 for pods.
            yield f"{host}.{subdomain}", f"10.244.{number >> 8 & 255}.{number & 255}"


def _is_selected_by(world: World, meta: Mapping[str, Any], service: str) -> bool:
    row = world.get(SERVICE, f"{meta.get('namespace')}/{service}")
    spec = inner(row.inputs, "spec") if row else None
    selector, labels = inner(spec, "selector"), meta.get("labels") or {}
    return inner(spec, "clusterIP") == "None" and bool(selector) and selector.items() <= labels.items()
