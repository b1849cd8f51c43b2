"""The component RunnerGroup: a runner group of an organization, with the repositories that may use its runners."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_github as github
from pydantic import AfterValidator, Field

from ..args import Args, ComponentArgs, Input, StrictBool
from ..component import Component
from ..errors import Problem, invalid
from .names import EachOnce, RepositoryName, WorkflowRef
from .repository_lookup import repository_ids

_DEFAULT = "default"


def _not_default(value: str) -> str:
    # "All organizations have a single default runner group": docs.github.com/en/actions/hosting-your-own-runners/
    # managing-access-to-self-hosted-runners-using-groups.
    if value.lower() == _DEFAULT:
        raise invalid(
            "is the default group, which every organization already has",
            "default-group",
            safe_hint="use another name, such as gpu",
        )
    return value


# This limit is the project's own, because GitHub publishes none.
GroupName = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_not_default)]


class RunnerGroupArgs(ComponentArgs):
    """The repositories and workflows that may use the runners."""

    group_name: Input[GroupName] | None = Field(
        default=None,
        description="the name of the group on GitHub, at most 100 characters; by default the component's name",
    )
    repositories: Annotated[list[Input[RepositoryName]], EachOnce] = Field(
        min_length=1,
        description="names of the repositories whose workflows may use the runners, without the owner; public ones "
        "need publicRepositories",
    )
    public_repositories: StrictBool = Field(
        default=False,
        description="whether public repositories may use the runners, after an approval of each commit of a fork",
    )
    selected_workflows: Annotated[list[WorkflowRef], EachOnce] = Field(
        default=[],
        description="the only workflows that may use the runners, as owner/repo/.github/workflows/file.yml@ref, with "
        "a branch, tag or commit as ref; by default all workflows of the repositories. Requires GitHub Enterprise "
        "Cloud; on another plan the deployment fails",
    )


class RunnerGroup(Component):
    """A runner group of the organization that only the listed repositories may use.

    Creates: a runner group. Costs: nothing. The component compares the group on GitHub with these settings. Pools get
    the group's name only if GitHub applies every restriction.
    Does not: register runners; pools register them by the group's name. It does not detect that a repository becomes
    public later. By default GitHub then leaves its jobs in the queue.
    Replaces on change of: nothing. Every change is in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:github:RunnerGroup"
    ARGS: ClassVar[type[Args]] = RunnerGroupArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "repositories": ["web", "kernels"],
        "selectedWorkflows": ["acme/web/.github/workflows/gpu.yml@refs/heads/main"],
    }

    group_name: pulumi.Output[str]
    """Name of the group, for the registration of runners and for `runs-on: {group: …, labels: …}` of jobs."""
    group_id: pulumi.Output[str]
    """GitHub's id of the group, for the runner API."""

    def __init__(self, name: str, args: RunnerGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        group = github.ActionsRunnerGroup(
            f"{name}-group",
            name=args.group_name or name,
            visibility="selected",
            selected_repository_ids=repository_ids(
                self, args, "repositories", args.repositories, public=args.public_repositories
            ),
            # A pull request from a fork could run its code on the machines:
            # docs.github.com/en/actions/reference/security/secure-use ("Hardening for self-hosted runners").
            allows_public_repositories=args.public_repositories,
            restricted_to_workflows=bool(args.selected_workflows),
            selected_workflows=args.selected_workflows,
            opts=self.child(),
        )
        made = pulumi.Output.all(
            group.visibility, group.allows_public_repositories, group.restricted_to_workflows, group.selected_workflows
        ).apply(lambda values: _in_force(args, *values))
        self.group_name = pulumi.Output.all(made, group.name).apply(lambda values: str(values[1]))
        self.group_id = pulumi.Output.all(made, group.id).apply(lambda values: str(values[1]))
        self.register()


def _in_force(args: RunnerGroupArgs, visibility: str, public: bool, restricted: bool, workflows: list[str]) -> None:
    """Raise an error if the group on GitHub is less restricted than its settings.

    On some plans, GitHub does not support all restrictions. Its documentation does not say that GitHub then rejects the
    settings (github/docs, data/features/restrict-groups-to-workflows.yml), so the group is checked here. Workflows are
    compared without their refs, because GitHub may change the format of a ref.
    """
    problems = []
    # If the provider returns no value, GitHub has the requested value.
    if (public and not args.public_repositories) or visibility not in (None, "selected"):
        problems.append(
            Problem(
                "repositories",
                "are not the only ones that may use the group on GitHub",
                f"visibility {visibility}, public repositories {'' if public else 'not '}allowed",
                f"visibility selected, public repositories {'' if args.public_repositories else 'not '}allowed",
                "check the group's settings on GitHub, and the organization's plan (docs/guides/github.md, Plans)",
                rule="group-not-restricted",
            )
        )
    wanted = {_file(each) for each in args.selected_workflows}
    if wanted and (restricted is False or wanted != {_file(each) for each in workflows or ()}):
        problems.append(
            Problem(
                "selectedWorkflows",
                "is not in force: every workflow of the repositories may use the group on GitHub",
                "a group for all workflows" if restricted is False else "a group for other workflows",
                "GitHub Enterprise Cloud, which supports this restriction",
                "remove selectedWorkflows, or change the organization's plan (docs/guides/github.md, Plans)",
                rule="group-not-restricted",
            )
        )
    if problems:
        raise args.wrong(problems)


def _file(workflow: str) -> str:
    return workflow.partition("@")[0].lower()
