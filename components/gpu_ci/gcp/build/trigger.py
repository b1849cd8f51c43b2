"""Creates the Cloud Build triggers of build pools and image pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import pulumi
import pulumi_gcp as gcp

from .models import PullRequestEvent, PushEvent, TagEvent


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
    owner, _, repository = source.repository.partition("/")
    event, second = _event(source.event), source.repository_resource
    first_generation: Any = None if second else {"owner": owner, "name": repository, **event}
    second_generation: Any = {"repository": second, **event} if second else None
    return gcp.cloudbuild.Trigger(
        logical_name,
        name=name,
        project=project,
        location=region,
        description=f"{source.event.kind} of {source.repository}",
        github=first_generation,
        repository_event_config=second_generation,
        included_files=list(source.included_files),
        ignored_files=list(source.ignored_files),
        approval_config={"approval_required": source.approval},
        service_account=triggered.account,
        substitutions=triggered.substitutions,
        filename=triggered.filename,
        build=triggered.build,
        opts=opts,
    )


def _event(event: PushEvent | TagEvent | PullRequestEvent) -> dict[str, Any]:
    """Return the event in the form of the API, which is the same for both generations of connected repositories."""
    if isinstance(event, PullRequestEvent):
        return {"pull_request": {"branch": event.branch, "comment_control": event.comment_control}}
    return {"push": {"tag": event.tag} if isinstance(event, TagEvent) else {"branch": event.branch}}
