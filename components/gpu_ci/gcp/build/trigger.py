"""Creates the Cloud Build triggers of build pools and image pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

import pulumi
import pulumi_gcp as gcp

from .models import BuildFile, BuildTrigger, PullRequestEvent, PushEvent, TagEvent
from .steps import api_steps


class BuildContext(NamedTuple):
    """The settings that a trigger gets from its build pool."""

    project: pulumi.Input[str]
    region: str
    logging: Literal["CLOUD_LOGGING_ONLY", "NONE"]
    pool: pulumi.Output[str]
    registry: pulumi.Output[str]
    account: pulumi.Output[str]


class Source(Protocol):
    """A GitHub repository, and the event there that starts builds."""

    @property
    def repository(self) -> str: ...
    @property
    def repository_resource(self) -> str | None: ...
    @property
    def event(self) -> PushEvent | TagEvent | PullRequestEvent: ...
    @property
    def included_files(self) -> list[str]: ...
    @property
    def ignored_files(self) -> list[str]: ...
    @property
    def approval(self) -> bool: ...


class TriggeredBuild(NamedTuple):
    """What a trigger starts, and the service account of the build."""

    account: pulumi.Output[str]
    build: gcp.cloudbuild.TriggerBuildArgs | None
    filename: str | None = None
    substitutions: Mapping[str, pulumi.Input[str]] | None = None


def github_trigger(
    logical_name: str, name: str, trigger: BuildTrigger, context: BuildContext, opts: pulumi.ResourceOptions
) -> gcp.cloudbuild.Trigger:
    """Create a trigger of a pool. Build files read the pool, the registry and the cache from its substitutions."""
    substitutions: dict[str, pulumi.Input[str]] = {
        **trigger.substitutions,
        "_POOL": context.pool,
        "_REGISTRY": context.registry,
        "_CACHE": pulumi.Output.concat(context.registry, "/cache"),
    }
    filename = trigger.build.filename if isinstance(trigger.build, BuildFile) else None
    triggered = TriggeredBuild(context.account, _build(trigger, context), filename, substitutions)
    # A trigger can use the pool only in the pool's region.
    return source_trigger(logical_name, name, trigger, context.project, context.region, triggered, opts)


def source_trigger(
    logical_name: str,
    name: str,
    source: Source,
    project: pulumi.Input[str],
    region: str,
    triggered: TriggeredBuild,
    opts: pulumi.ResourceOptions,
) -> gcp.cloudbuild.Trigger:
    """Create a trigger for an event of a GitHub repository."""
    return gcp.cloudbuild.Trigger(
        logical_name,
        name=name,
        project=project,
        location=region,
        description=f"{source.event.kind} of {source.repository}",
        github=None if source.repository_resource else _github(source),
        repository_event_config=_repository_event(source) if source.repository_resource else None,
        included_files=list(source.included_files),
        ignored_files=list(source.ignored_files),
        approval_config=gcp.cloudbuild.TriggerApprovalConfigArgs(approval_required=source.approval),
        service_account=triggered.account,
        substitutions=triggered.substitutions,
        filename=triggered.filename,
        build=triggered.build,
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


def _github(trigger: Source) -> gcp.cloudbuild.TriggerGithubArgs:
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


def _repository_event(trigger: Source) -> gcp.cloudbuild.TriggerRepositoryEventConfigArgs:
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
