"""Check the API server's rules for the claim templates and the pod template of a StatefulSet.

Source: k8s.io/kubernetes v1.36.0, pkg/apis/apps/validation/validation.go, ValidateStatefulSetSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.fields import dns_label, forbidden, invalid
from pulumi_sandbox.providers.kubernetes.rules.claims import claim_spec
from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown


def stateful_set(spec: Any) -> Iterator[Problem]:
    """Check the fields that only a StatefulSet has."""
    for at, one in items(inner(spec, "volumeClaimTemplates")):
        yield from claim_spec(f"spec.volumeClaimTemplates[{at}].spec", one.get("spec"))
    service = inner(spec, "serviceName")
    if isinstance(service, str) and service:
        yield from (invalid("spec.serviceName", service, message) for message in dns_label(service))
    if isinstance(inner(spec, "template", "spec", "activeDeadlineSeconds"), int):
        yield forbidden(
            "spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in StatefulSet is not Supported"
        )


def pod_template(spec: Any) -> Any:
    """Return the pod template in the form that the API server checks.

    Each claim template counts as a volume. It takes the place of a volume with the same name. The controller sets the
    hostname and the subdomain of each pod, so their values in the template are not checked.
    """
    template, pod = inner(spec, "template"), inner(spec, "template", "spec")
    if not isinstance(pod, Mapping):
        return template
    checked = {name: value for name, value in pod.items() if name not in ("hostname", "subdomain")}
    claims, volumes = inner(spec, "volumeClaimTemplates") or [], pod.get("volumes") or []
    if isinstance(claims, Unknown) or isinstance(volumes, Unknown):
        checked["volumes"] = claims if isinstance(claims, Unknown) else volumes
    elif claims:
        names = [inner(one, "metadata", "name") for one in claims]
        checked["volumes"] = [{"name": name} for name in names]
        checked["volumes"] += [one for one in volumes if inner(one, "name") not in names]
    return {**template, "spec": checked}
