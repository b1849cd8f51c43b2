"""Returns the objects that our components declare, in the form in which pulumi-kubernetes sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from pulumi_sandbox.providers.wire import decode

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

JOB, RELEASE = "kubernetes:batch/v1:Job", "kubernetes:helm.sh/v3:Release"
# This resource patches an object of the Helm chart. Without Helm the object does not exist.
REGISTERED = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSetPatch"
ENDING = "1a2b3c4d"


def declared(program: Callable[[], Any], passes: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """Return every object except Helm's, by its type token. If the check does not pass, a Job's component has no
    verdict and fails.
    """
    found = []
    for row in deploy(program, computed={**COMPUTED, JOB: {"status": {"succeeded": passes}}}).rows:
        if not row.type.startswith("kubernetes:") or row.type in (RELEASE, REGISTERED):
            continue
        given = dict(decode(row.request.object).values)
        given["metadata"] = {"name": f"{row.name}-{ENDING}", **given["metadata"]}
        found.append((row.type, given))
    return found


def as_sent(value: Any) -> Any:
    """Return an object as the provider sends it. These field names have dashes in requests (pulumi-kubernetes at
    94977969, provider/pkg/provider/provider.go).
    """
    if isinstance(value, dict):
        dashed = {key: key.replace("_", "-") if key.startswith("x_kubernetes_") else key for key in value}
        return {dashed[key]: as_sent(inner) for key, inner in value.items()}
    return [as_sent(inner) for inner in value] if isinstance(value, list) else value


def with_ports(value: Any, ports: Mapping[str, int]) -> Any:
    """Return an object whose references to these Services have other ports."""
    if isinstance(value, list):
        return [with_ports(each, ports) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: with_ports(each, ports) for key, each in value.items()}
    service = found.get("service")
    if isinstance(service, dict) and service.get("name") in ports:
        found["service"] = {**service, "port": ports[service["name"]]}
    return found


def helm_values(program: Callable[[], Any]) -> dict[str, Any]:
    """Return the values of the only Helm release."""
    [row] = [row for row in deploy(program, computed=COMPUTED).rows if row.type == RELEASE]
    found: dict[str, Any] = decode(row.request.object).values["values"]
    return found


def smoke_job(**changes: Any) -> dict[str, Any]:
    """Return the Job of a SmokeJob named `smoke`, from the component's example with these changes."""
    args = SmokeJobArgs(**{"namespace": "gpu-ci", **SmokeJob.EXAMPLE, **changes})
    return dict(declared(lambda: SmokeJob("smoke", args), args.nodes))[JOB]
