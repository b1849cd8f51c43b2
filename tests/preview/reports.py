"""Example reports, written by hand."""

from __future__ import annotations

from typing import Any

from gpu_preview.model import (
    Amount,
    Cost,
    Counts,
    Finding,
    Operation,
    PoolCost,
    PropertyChange,
    Report,
    Resource,
    Severity,
    Side,
    Stack,
    Status,
    Violation,
    Wall,
)

TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
POOL = "gpu-ci:gcp:RunnerPool"
GATE = "gpu-ci:gcp:SmokeGate"


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:staging::gpu-ci::{kind}::{name}"


def resource(kind: str, name: str, operation: Operation = Operation.SAME, **more: Any) -> Resource:
    """Return a resource, of the pool t4 by default."""
    given = {"component": "t4", "parent": urn(POOL, "t4"), **more}
    return Resource(urn=urn(kind, name), type=kind, name=name, operation=operation, **given)


def changed(path: str, before: str | None, after: str | None, forces: bool = False) -> PropertyChange:
    kind: Any = "add" if before is None else "delete" if after is None else "update"
    return PropertyChange(path=path, kind=kind, before=before, after=after, forces_replacement=forces)


def usd(at_max: float, machines: int | None = None) -> Amount:
    month = at_max * 730
    return Amount(at_rest_usd_per_hour=0, at_max_usd_per_hour=at_max, worst_month_usd=month, max_machines=machines)


def stack(name: str = "staging", *resources: Resource, **more: Any) -> Stack:
    given = {"status": Status.PREVIEWED, "counts": Counts.of(resources), **more}
    return Stack(stack=name, file=f"Pulumi.{name}.yaml", resources=resources, **given)


def report(*stacks: Stack, **more: Any) -> Report:
    given = {
        "made_by": "gpu-ci 0.1.0",
        "how": "base",
        "base": Side(ref="main", commit="595024d8fab1c2d3e4f5a6b7c8d9e0f1a2b3c4d5"),
        "head": Side(ref="bigger-t4", commit="0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"),
        "walls": (
            Wall(name="network", stands=True, text=""),
            Wall(name="environment", stands=True, text=""),
        ),
        **more,
    }
    return Report(stacks=stacks, **given)


POOL_T4 = resource(POOL, "t4", parent="")
ACCOUNT = resource("gcp:serviceaccount/account:Account", "t4-account")
BIGGER_TEMPLATE = resource(
    TEMPLATE,
    "t4-template",
    Operation.REPLACE,
    replaced_for=("machineType",),
    properties=(changed("machineType", '"n1-standard-4"', '"n1-standard-8"', forces=True),),
)
NEW_GATE = resource(
    GATE,
    "t4-gate",
    Operation.REPLACE,
    replaced_for=("template",),
    depends_on=(BIGGER_TEMPLATE.urn,),
    properties=(changed("template", '"projects/p/t4-1"', "(unknown)", forces=True),),
)
UPDATED_GROUP = resource(
    GROUP,
    "t4-group",
    Operation.UPDATE,
    depends_on=(NEW_GATE.urn, BIGGER_TEMPLATE.urn),
    properties=(changed("versions[0].instanceTemplate", '"projects/p/t4-1"', "(unknown)"),),
)
LARGER_DISK = resource(
    "gcp:compute/disk:Disk", "t4-cache", Operation.UPDATE, properties=(changed("size", "100", "200"),)
)
JOBS_END = Finding(
    rule="interrupts-jobs",
    severity=Severity.DANGER,
    text="The machines of pool t4 are replaced while jobs may run: each job has 10 minutes to end.",
    hint="Set max to 0 and wait, or merge when no job runs.",
    urn=UPDATED_GROUP.urn,
    component="t4",
)
OLD_RUNNER = Finding(
    rule="stale-runner", severity=Severity.WARNING, text="Runner 2.330.0 gets no jobs after 2026-12-01."
)
PUBLIC = Violation(
    policy="no-public-ip",
    pack="gpu-ci",
    level="mandatory",
    text="accessConfigs gives the machines a public address.",
    urn=BIGGER_TEMPLATE.urn,
)
UNLABELLED = Violation(policy="labels", pack="gpu-ci", level="advisory", text="The label cost-center is missing.")
DEARER = Cost(before=usd(1.2), after=usd(1.8), pools=(PoolCost(pool="t4", before=usd(0.6, 1), after=usd(1.2, 2)),))

NOTHING = report(stack("staging", POOL_T4, ACCOUNT))
REPLACED = stack(
    "staging",
    POOL_T4,
    ACCOUNT,
    BIGGER_TEMPLATE,
    NEW_GATE,
    UPDATED_GROUP,
    findings=(JOBS_END, OLD_RUNNER),
    cost=DEARER,
    outputs=(changed("t4.machineType", '"n1-standard-4"', '"n1-standard-8"'),),
    policies="gpu-ci 0.1.0, 12 rules: none broken",
)
REPLACEMENT = report(REPLACED)
FAILED_STACK = stack(
    "prod",
    status=Status.FAILED,
    error="error: Pulumi.prod.yaml: gpu-ci:pools.t4.max\n  got: 20\n  expected: at most 8, the quota",
)
FAILED = report(FAILED_STACK)
SEVERAL = report(
    REPLACED,
    stack("dev", POOL_T4, ACCOUNT),
    FAILED_STACK,
    stack("old", status=Status.REMOVED, counts=Counts(same=12)),
    stack(
        "next",
        resource(POOL, "l4", Operation.CREATE, component="l4", parent=""),
        resource("gcp:storage/bucket:Bucket", "logs", component="", parent="", moved_from=urn("x:y:Z", "old-logs")),
        resource("gcp:storage/bucket:Bucket", "scratch", Operation.DELETE, component="", parent="", protected=True),
    ),
    walls=(Wall(name="network", stands=False, text="This machine has no network namespaces."),),
)
POLICIES_BROKEN = report(
    stack(
        "staging",
        POOL_T4,
        ACCOUNT,
        LARGER_DISK,
        violations=(UNLABELLED, PUBLIC),
        policies="gpu-ci 0.1.0, 12 rules",
    )
)
TOO_LONG = report(
    stack(
        "staging",
        *(
            resource(
                TEMPLATE,
                f"pool-{pool}-{number}",
                Operation.UPDATE,
                component=f"pool-{pool}",
                properties=tuple(changed(f"metadata.key{key}", '"old"', '"new"') for key in range(30)),
            )
            for pool in range(3)
            for number in range(10)
        ),
        findings=(JOBS_END,) * 3,
        violations=(PUBLIC,) * 2,
    )
)
GOLDEN = {
    "nothing": NOTHING,
    "failed": FAILED,
    "several": SEVERAL,
    "policies-broken": POLICIES_BROKEN,
}
