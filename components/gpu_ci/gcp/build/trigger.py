"""Creates the Cloud Build trigger for a trigger of a stack file."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pulumi
import pulumi_gcp as gcp

from .models import BuildFile, BuildTrigger, PullRequestEvent, TagEvent
from .steps import api_steps


class BuildContext(NamedTuple):
    """The settings that a trigger gets from its build pool."""

    project: pulumi.Input[str]
    region: str
    logging: Literal["CLOUD_LOGGING_ONLY", "NONE"]
    pool: pulumi.Output[str]
    registry: pulumi.Output[str]
    account: pulumi.Output[str]


def github_trigger(
    logical_name: str, name: str, trigger: BuildTrigger, context: BuildContext, opts: pulumi.ResourceOptions
) -> gcp.cloudbuild.Trigger:
    """Create the trigger. Build files read the pool, the registry and the cache from its substitutions."""
    return gcp.cloudbuild.Trigger(
        logical_name,
        name=name,
        project=context.project,
        location=context.region,  # a trigger can use the pool only in the pool's region
        description=f"{trigger.event.kind} of {trigger.repository}",
        github=None if trigger.repository_resource else _github(trigger),
        repository_event_config=_repository_event(trigger) if trigger.repository_resource else None,
        included_files=list(trigger.included_files),
        ignored_files=list(trigger.ignored_files),
        approval_config=gcp.cloudbuild.TriggerApprovalConfigArgs(approval_required=trigger.approval),
        service_account=context.account,
        substitutions={
            **trigger.substitutions,
            "_POOL": context.pool,
            "_REGISTRY": context.registry,
            "_CACHE": pulumi.Output.concat(context.registry, "/cache"),
        },
        filename=trigger.build.filename if isinstance(trigger.build, BuildFile) else None,
        build=_build(trigger, context),
        opts=opts,
    )


def _build(trigger: BuildTrigger, context: BuildContext) -> gcp.cloudbuild.TriggerBuildArgs | None:
    """Return the steps from the stack file, or None for a build file."""
    if isinstance(trigger.build, BuildFile):
        return None
    pushes, tagged = not isinstance(trigger.event, PullRequestEvent), isinstance(trigger.event, TagEvent)
    return gcp.cloudbuild.TriggerBuildArgs(
        steps=api_steps(trigger.build.steps, context.registry, pushes=pushes, tagged=tagged),
        timeout=f"{trigger.build.timeout_sec}s",
        # With a custom service account, the log mode must be set. The API deprecates workerPool in favor of pool.name,
        # which the provider does not support.
        options=gcp.cloudbuild.TriggerBuildOptionsArgs(logging=context.logging, worker_pool=context.pool),
    )


def _github(trigger: BuildTrigger) -> gcp.cloudbuild.TriggerGithubArgs:
    owner, _, name = trigger.repository.partition("/")
    event = trigger.event
    if isinstance(event, PullRequestEvent):
        pull = gcp.cloudbuild.TriggerGithubPullRequestArgs(branch=event.branch, comment_control=event.comment_control)
        return gcp.cloudbuild.TriggerGithubArgs(owner=owner, name=name, pull_request=pull)
    push = (
        gcp.cloudbuild.TriggerGithubPushArgs(tag=event.tag)
        if isinstance(event, TagEvent)
        else gcp.cloudbuild.TriggerGithubPushArgs(branch=event.branch)
    )
    return gcp.cloudbuild.TriggerGithubArgs(owner=owner, name=name, push=push)


def _repository_event(trigger: BuildTrigger) -> gcp.cloudbuild.TriggerRepositoryEventConfigArgs:
    """Return the event configuration of a repository that is connected as 2nd gen."""
    event, repository = trigger.event, trigger.repository_resource
    if isinstance(event, PullRequestEvent):
        pull = gcp.cloudbuild.TriggerRepositoryEventConfigPullRequestArgs(
            branch=event.branch, comment_control=event.comment_control
        )
        return gcp.cloudbuild.TriggerRepositoryEventConfigArgs(repository=repository, pull_request=pull)
    push = (
        gcp.cloudbuild.TriggerRepositoryEventConfigPushArgs(tag=event.tag)
        if isinstance(event, TagEvent)
        else gcp.cloudbuild.TriggerRepositoryEventConfigPushArgs(branch=event.branch)
    )
    return gcp.cloudbuild.TriggerRepositoryEventConfigArgs(repository=repository, push=push)
