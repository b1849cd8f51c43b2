"""What our components declare, as pulumi-kubernetes would send it: the recorder's inputs, with names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from pulumi_sandbox.providers.wire import decode

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

JOB, RELEASE = "kubernetes:batch/v1:Job", "kubernetes:helm.sh/v3:Release"
# Without a success the Job's component has no verdict, and fails the program.
DONE = {**COMPUTED, JOB: {"status": {"succeeded": 1}}}
ENDING = "1a2b3c4d"


def declared(program: Callable[[], Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every object but Helm's, by its token."""
    found = []
    for row in deploy(program, computed=DONE).rows:
        if not row.type.startswith("kubernetes:") or row.type == RELEASE:
            continue
        given = dict(decode(row.request.object).values)
        given["metadata"] = {"name": f"{row.name}-{ENDING}", **given["metadata"]}
        found.append((row.type, given))
    return found


def helm_values(program: Callable[[], Any]) -> dict[str, Any]:
    """The values of the one Helm release."""
    [row] = [row for row in deploy(program, computed=DONE).rows if row.type == RELEASE]
    found: dict[str, Any] = decode(row.request.object).values["values"]
    return found


def smoke_job(**changes: Any) -> dict[str, Any]:
    """The Job of a SmokeJob `smoke`, from its own example with these changes."""
    args = {"namespace": "gpu-ci", **SmokeJob.EXAMPLE, **changes}
    [job] = [given for token, given in declared(lambda: SmokeJob("smoke", SmokeJobArgs(**args))) if token == JOB]
    return job
