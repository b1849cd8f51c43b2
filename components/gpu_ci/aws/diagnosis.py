"""What AWS reports of a node group whose check did not pass: EKS's health issues, and what Auto Scaling tried."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pulumi

from .limits.eks_api import Account, ApiError, AwsClient

_ACTIVITIES = 3
# The messages of Auto Scaling are long: a sold-out type is named with every other zone.
_LONGEST = 400


class NodeGroupHealth(Protocol):
    """What is asked of AWS."""

    def issues(self, cluster: str, group: str) -> list[Mapping[str, Any]]:
        """EKS's health issues of a node group."""

    def activities(self, scaling_group: str) -> list[Mapping[str, Any]]:
        """The last things that Auto Scaling did, the newest first."""


class AwsHealth:
    """Both over AWS's own SDK."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def issues(self, cluster: str, group: str) -> list[Mapping[str, Any]]:
        found = AwsClient("eks", self._account).call("describe_nodegroup", clusterName=cluster, nodegroupName=group)
        return list(found["nodegroup"].get("health", {}).get("issues", []))

    def activities(self, scaling_group: str) -> list[Mapping[str, Any]]:
        found = AwsClient("autoscaling", self._account).call(
            "describe_scaling_activities", AutoScalingGroupName=scaling_group, MaxRecords=_ACTIVITIES
        )
        return list(found.get("Activities", []))


def after_failed_check(
    owner: pulumi.Resource, pool: str, cluster: pulumi.Input[str], group: pulumi.Input[str], **account: Any
) -> pulumi.ResourceTransformation:
    """Adds to the Job that is the pool's check: a warning with what AWS reports, where the Job fails.

    Args:
        owner: The component that the warning is shown under.
        pool: The pool's name.
        cluster: The cluster's name.
        group: The name of the node group.
        account: The scaling_group, region, profile and role_arn. All of them may be Outputs, and are known when a
            check fails, because it runs on the group's nodes.
    """
    known: dict[str, Any] = {}
    pulumi.Output.all(cluster=cluster, group=group, **account).apply(known.update)

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation == "create" and known:
            asked = Account(known["region"], known["profile"] or "", known["role_arn"] or "")
            pulumi.log.warn(f"{pool}: {report(asked, known['cluster'], known['group'], known['scaling_group'])}", owner)
        return False

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        # Without hooks of its own the engine has none.
        if args.type_ != "kubernetes:batch/v1:Job" or args.opts.hooks is None:
            return None
        options = copy.copy(args.opts)
        options.hooks = copy.copy(args.opts.hooks)
        options.hooks.on_error = [*(options.hooks.on_error or []), pulumi.ErrorHook(f"{args.name}-aws-report", warn)]
        return pulumi.ResourceTransformationResult(args.props, options)

    return transform


def report(
    account: Account,
    cluster: str,
    group: str,
    scaling_group: str,
    health: Callable[[Account], NodeGroupHealth] = AwsHealth,
) -> str:
    """Lines for the user: each issue of EKS, and the last activities of Auto Scaling. It never raises ApiError."""
    found = health(account)
    lines = [
        *_lines("EKS", lambda: [_issue(each) for each in found.issues(cluster, group)]),
        *_lines("Auto Scaling", lambda: [_activity(each) for each in found.activities(scaling_group)]),
    ]
    return f"what AWS reports of the node group {group}:\n" + "\n".join(f"  {line}" for line in lines)


def _lines(service: str, ask: Callable[[], list[str]]) -> list[str]:
    try:
        found = ask()
    except ApiError as error:
        return [f"{service} could not be asked: {error}"]
    return [f"{service}: {line}" for line in found] or [f"{service}: nothing"]


def _issue(issue: Mapping[str, Any]) -> str:
    on = ", ".join(issue.get("resourceIds", []))
    return _short(f"{issue.get('code')}: {issue.get('message')}{f' ({on})' if on else ''}")


def _activity(activity: Mapping[str, Any]) -> str:
    parts = (activity.get("StatusCode"), activity.get("Description"), activity.get("StatusMessage"))
    return _short(": ".join(str(part) for part in parts if part))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
