"""The group runners register into: which repositories, and which of their workflows, may use the machines."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_github as github
from pydantic import AfterValidator, Field

from ..args import Args, Input
from ..component import Component
from ..errors import Problem, invalid
from .names import EachOnce, RepositoryName, WorkflowRef
from .repository_lookup import repository_ids

_DEFAULT = "default"


def _not_default(value: str) -> str:
    # "All organizations have a single default runner group": docs.github.com/en/actions/hosting-your-own-runners/
    # managing-access-to-self-hosted-runners-using-groups.
    if value.lower() == _DEFAULT:
        raise invalid("is the group every organization has already", safe_hint="name it after what its machines are")
    return value


# The length is ours: GitHub publishes none.
GroupName = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_not_default)]


class RunnerGroupArgs(Args):
    """Who may use the runners."""

    group_name: Input[GroupName] | None = Field(
        default=None, description="what GitHub calls it, at most 100 characters; by default the component's name"
    )
    repositories: Annotated[list[Input[RepositoryName]], EachOnce] = Field(
        min_length=1,
        description="names of the repositories whose workflows may use the runners, without the owner; none of them "
        "public",
    )
    selected_workflows: Annotated[list[WorkflowRef], EachOnce] = Field(
        default=[],
        description="the only workflows that may, as owner/repo/.github/workflows/file.yml@ref, the ref a branch, a "
        "tag or a commit; by default all of the repositories'. Needs GitHub Enterprise Cloud: on another plan GitHub "
        "has no such restriction, and the deployment fails",
    )


class RunnerGroup(Component):
    """A group of the organization's runners that only the repositories named here may use, and no public one.

    Creates: a runner group. Costs: nothing. What GitHub made is compared with what was asked: pools get the group's
    name only where every restriction is in force.
    Does not: register runners; pools do, by the group's name. Nor does it see a repository become public later: GitHub
    then leaves its jobs in the queue, because the group takes no public repository.
    Replaces on change of: nothing; all of it is updated in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:github:RunnerGroup"
    ARGS: ClassVar[type[Args]] = RunnerGroupArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "repositories": ["web", "kernels"],
        "selectedWorkflows": ["acme/web/.github/workflows/gpu.yml@refs/heads/main"],
    }

    group_name: pulumi.Output[str]
    """The name runners register under, and jobs ask for as `runs-on: {group: …}`."""
    group_id: pulumi.Output[str]
    """GitHub's number of the group, as the runner API wants it."""

    def __init__(self, name: str, args: RunnerGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        group = github.ActionsRunnerGroup(
            f"{name}-group",
            name=args.group_name or name,
            visibility="selected",
            selected_repository_ids=repository_ids(self, args, "repositories", args.repositories, public=False),
            # A fork's pull request would run its code on the machines: docs.github.com/en/actions/reference/security/
            # secure-use ("Hardening for self-hosted runners").
            allows_public_repositories=False,
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
    """Refuse a group that GitHub made more open than it was asked.

    The plan decides what GitHub makes, and its documentation does not say that it refuses the rest (github/docs,
    data/features/restrict-groups-to-workflows.yml). Workflows are compared without their refs, whose form GitHub may
    change.
    """
    problems = []
    # A value that the provider leaves out is the one that was asked for.
    if public or visibility not in (None, "selected"):
        problems.append(
            Problem(
                "repositories",
                "are not the only ones that may use the group GitHub made",
                f"visibility {visibility}, public repositories {'' if public else 'not '}allowed",
                "visibility selected, public repositories not allowed",
                "see the group's settings on GitHub, and the organization's plan (docs/guides/github.md, Plans)",
            )
        )
    wanted = {_file(each) for each in args.selected_workflows}
    if wanted and (restricted is False or wanted != {_file(each) for each in workflows or ()}):
        problems.append(
            Problem(
                "selectedWorkflows",
                "is not in force: every workflow of the repositories may use the runners of the group GitHub made",
                "a group for all workflows" if restricted is False else "a group for other workflows",
                "GitHub Enterprise Cloud, which has this restriction",
                "leave selectedWorkflows out, or change the organization's plan (docs/guides/github.md, Plans)",
            )
        )
    if problems:
        raise args.wrong(problems)


def _file(workflow: str) -> str:
    return workflow.partition("@")[0].lower()
