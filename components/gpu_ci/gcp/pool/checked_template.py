"""An instance template and its smoke check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pulumi
import pulumi_gcp as gcp

from ...machines.runner import Registration
from ...machines.settings import SmokeSettings
from ..machine.args import GpuMachineArgs
from ..machine.template import machine_template
from ..smoke_gate import SmokeGate, SmokeGateArgs


def checked_template(
    logical_name: str,
    pool: str,
    args: GpuMachineArgs,
    smoke: SmokeSettings,
    zones: list[str],
    account: gcp.serviceaccount.Account,
    tags: dict[str, str],
    grants: Sequence[pulumi.Resource],
    child: Callable[..., pulumi.ResourceOptions],
    registration: Registration | None = None,
) -> SmokeGate:
    """Create a template for the machines of `args`, and its check on one machine in one of the zones.

    The check waits for `grants`, which its machine needs. `child` is the method of the component.
    """
    template = machine_template(
        f"{logical_name}-template",
        pool,
        args,
        account=account.email,
        tags=tags,
        deadline_sec=smoke.deadline_sec,
        opts=child(),
        registration=registration,
    )
    return SmokeGate(
        f"{logical_name}-gate",
        SmokeGateArgs(
            project=args.project,
            zones=zones,
            template=template.self_link,
            pool=pool,
            labels=tags,
            deadline_sec=smoke.deadline_sec,
            on_no_capacity=smoke.on_no_capacity,
        ),
        opts=child(depends_on=[*grants]),
    )
