"""What AWS reports of a node group whose smoke check has failed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from ...aws.limits.eks_api import Account, ApiError, AwsClient

_MOST_ACTIVITIES = 3
# The messages of Auto Scaling are long. If a zone has no capacity for an instance type, the message lists other zones.
_MOST_CHARACTERS = 400


class AwsHealth:
    """Queries what AWS reports about a node group whose smoke check has failed."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def issues(self, cluster: str, group: str) -> list[Mapping[str, Any]]:
        """Return EKS's health issues of a node group."""
        found = AwsClient("eks", self._account).call("describe_nodegroup", clusterName=cluster, nodegroupName=group)
        return list(found["nodegroup"].get("health", {}).get("issues", []))

    def activities(self, scaling_group: str) -> list[Mapping[str, Any]]:
        """Return the most recent activities of Auto Scaling, the newest first."""
        found = AwsClient("autoscaling", self._account).call(
            "describe_scaling_activities", AutoScalingGroupName=scaling_group, MaxRecords=_MOST_ACTIVITIES
        )
        return list(found.get("Activities", []))


def after_failed_check(
    owner: pulumi.Resource, pool: str, cluster: pulumi.Input[str], group: pulumi.Input[str], **account: Any
) -> pulumi.ResourceTransformation:
    """Return a transformation for the smoke check's Job. If the Job fails, AWS's reports appear as a warning.

    Cluster, group and account may be Outputs. Their values are known when the Job fails, because the Job runs on the
    nodes of the group.

    Args:
        owner: The component under which the warning is shown.
        pool: The pool's name.
        cluster: The cluster's name.
        group: The name of the node group.
        account: The scaling_group, region, profile and role_arn.
    """
    values: dict[str, Any] = {}
    pulumi.Output.all(cluster=cluster, group=group, **account).apply(values.update)

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation == "create" and values:
            aws_account = Account(values["region"], values["profile"] or "", values["role_arn"] or "")
            text = aws_report(aws_account, values["cluster"], values["group"], values["scaling_group"])
            pulumi.log.warn(f"{pool}: {text}", owner)
        return False  # do not retry the Job

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        # A Job without hooks means that the engine does not support them (smoke_job.py).
        if args.type_ != "kubernetes:batch/v1:Job" or args.opts.hooks is None:
            return None
        options = copy.copy(args.opts)
        options.hooks = copy.copy(args.opts.hooks)
        options.hooks.on_error = [*(options.hooks.on_error or []), pulumi.ErrorHook(f"{args.name}-aws-report", warn)]
        return pulumi.ResourceTransformationResult(args.props, options)

    return transform


def aws_report(account: Account, cluster: str, group: str, scaling_group: str) -> str:
    """Return the issues of EKS and the last activities of Auto Scaling as lines. A failed query is a line, too."""
    queries = AwsHealth(account)
    lines = [
        *_lines("EKS", lambda: [_issue(each) for each in queries.issues(cluster, group)]),
        *_lines("Auto Scaling", lambda: [_activity(each) for each in queries.activities(scaling_group)]),
    ]
    return f"what AWS reports of the node group {group}:\n" + "\n".join(f"  {line}" for line in lines)


def _lines(service: str, query: Callable[[], list[str]]) -> list[str]:
    try:
        found = query()
    except ApiError as error:
        return [f"{service} could not be queried: {error}"]
    return [f"{service}: {line}" for line in found] or [f"{service}: nothing"]


def _issue(issue: Mapping[str, Any]) -> str:
    on = ", ".join(issue.get("resourceIds", []))
    return _short(f"{issue.get('code')}: {issue.get('message')}{f' ({on})' if on else ''}")


def _activity(activity: Mapping[str, Any]) -> str:
    parts = (activity.get("StatusCode"), activity.get("Description"), activity.get("StatusMessage"))
    return _short(": ".join(str(part) for part in parts if part))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
