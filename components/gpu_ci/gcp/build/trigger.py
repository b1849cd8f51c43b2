"""What a trigger of a build pool is to Cloud Build: its event, what it runs as, and what it tells a build."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pulumi
import pulumi_gcp as gcp

from .models import BuildFile, BuildTrigger, PullRequestEvent, TagEvent
from .steps import api_steps


class BuildContext(NamedTuple):
    """Where builds of a trigger run, on which workers, and as which account."""

    project: pulumi.Input[str]
    region: str
    logging: Literal["CLOUD_LOGGING_ONLY", "NONE"]
    pool: pulumi.Output[str]
    registry: pulumi.Output[str]
    account: pulumi.Output[str]


def github_trigger(
    logical_name: str, name: str, trigger: BuildTrigger, context: BuildContext, opts: pulumi.ResourceOptions
) -> gcp.cloudbuild.Trigger:
    """The trigger. A build file learns from its substitutions what steps that stand here are given."""
    return gcp.cloudbuild.Trigger(
        logical_name,
        name=name,
        project=context.project,
        location=context.region,  # only a trigger of the pool's own region can use it
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
    """The steps that stand in the stack file, where they do."""
    if isinstance(trigger.build, BuildFile):
        return None
    pushes, tagged = not isinstance(trigger.event, PullRequestEvent), isinstance(trigger.event, TagEvent)
    return gcp.cloudbuild.TriggerBuildArgs(
        steps=api_steps(trigger.build.steps, context.registry, pushes=pushes, tagged=tagged),
        timeout=f"{trigger.build.timeout_sec}s",
        # With an account of one's own the log mode has to be said. The API calls workerPool deprecated for pool.name,
        # which the provider does not have.
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
    """The same events, of a repository that is connected as 2nd gen."""
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
