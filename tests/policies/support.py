"""Asks one rule of the pack about one resource, as plain Python."""

from __future__ import annotations

from datetime import date
from typing import Any

from gpu_ci_policies.rule import Resource, Rule, RuleContext
from gpu_ci_policies.rules import RULES

BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}
TODAY = date(2026, 11, 22)

JOB = "kubernetes:batch/v1:Job"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
RELEASE = "kubernetes:helm.sh/v3:Release"
SECRET = "kubernetes:core/v1:Secret"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"


def found(rule: str, kind: str, props: dict[str, Any], today: date = TODAY, **settings: Any) -> list[str]:
    """Return the texts of the rule about a resource of this type."""
    each = BY_NAME[rule]
    context = RuleContext(each.defaults | settings, today)
    return list(each.check(Resource(kind, "x", f"urn:pulumi:dev::p::{kind}::x", props), context))


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the properties of a Job whose pod has these containers."""
    return {"spec": {**spec, "template": {"spec": {"containers": list(containers)}}}}


def scale_set(**container: Any) -> dict[str, Any]:
    """Return the properties of a Helm release of the runner scale set chart with this runner container."""
    template = {"spec": {"containers": [{"name": "runner", **container}]}}
    return {
        "chart": f"oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set@sha256:{64 * '0'}",
        "values": {"template": template},
    }
