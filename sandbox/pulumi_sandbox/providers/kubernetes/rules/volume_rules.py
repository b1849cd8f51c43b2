"""Check the API server's rules for the volumes of a pod and their mounts.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/core/validation/validation.go, validateEphemeralVolumeSource,
validatePersistentClaimVolumeSource and ValidateVolumeMounts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import required
from pulumi_sandbox.providers.kubernetes.rules.claims import claim_spec
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown


def volumes(path: str, spec: Any) -> Iterator[Problem]:
    for at, one in items(inner(spec, "volumes")):
        claim, ephemeral = one.get("persistentVolumeClaim"), one.get("ephemeral")
        if isinstance(claim, Mapping) and claim.get("claimName") == "":
            yield required(f"{path}.volumes[{at}].persistentVolumeClaim.claimName")
        if isinstance(ephemeral, Mapping):
            here, template = f"{path}.volumes[{at}].ephemeral.volumeClaimTemplate", ephemeral.get("volumeClaimTemplate")
            if template is None:
                yield required(here)
            elif not isinstance(template, Unknown):
                yield from claim_spec(f"{here}.spec", inner(template, "spec"))
    for kind in ("containers", "initContainers"):
        for at, container in items(inner(spec, kind)):
            for number, one in items(container.get("volumeMounts")):
                if one.get("mountPath") == "":
                    yield required(f"{path}.{kind}[{at}].volumeMounts[{number}].mountPath")
