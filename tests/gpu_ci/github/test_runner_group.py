"""The resources of a runner group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi_github as github
import pytest
from gpu_ci.errors import ArgsError
from gpu_ci.github.runner_group import RunnerGroup, RunnerGroupArgs

from tests.gpu_ci.harness import UNKNOWN, Deployment, deploy
from tests.gpu_ci.support import CALLS, COMPUTED


def run(program: Callable[[], Any], **options: Any) -> Deployment:
    return deploy(program, computed=COMPUTED, calls=CALLS, **options)


def group(**changes: Any) -> Deployment:
    return run(lambda: RunnerGroup("gpu", RunnerGroupArgs(**{**RunnerGroup.EXAMPLE, **changes})))


def test_a_public_repository_is_refused_in_the_preview() -> None:
    wanted = {**RunnerGroup.EXAMPLE, "repositories": ["web", "open-web", "nowhere"]}
    with pytest.raises(ArgsError) as caught:
        run(lambda: RunnerGroup("gpu", RunnerGroupArgs(**wanted)), preview=True)
    assert str(caught.value) == (
        "RunnerGroup 'gpu': repositories[1]: is a public repository: any user's pull request could run code on the "
        "machines\n"
        "  got: 'open-web'\n"
        "  expected: a private or internal repository\n"
        "  hint: remove it, or set publicRepositories: true in a stack of its own (docs/guides/github.md)\n"
        "RunnerGroup 'gpu': repositories[2]: GitHub has no such repository\n"
        "  hint: check the name and the owner, and that the token has access to the repository"
    )


def test_a_group_for_public_repositories_allows_them() -> None:
    made = group(repositories=["web", "open-web"], publicRepositories=True)
    assert made.one(":ActionsRunnerGroup").inputs["allowsPublicRepositories"] is True
    assert group().one(":ActionsRunnerGroup").inputs["allowsPublicRepositories"] is False


def test_a_repository_that_the_same_stack_makes_is_not_looked_up_in_the_preview() -> None:
    def program() -> None:
        made = github.Repository("later")
        RunnerGroup("gpu", RunnerGroupArgs(repositories=[made.name]))

    inputs = run(program, preview=True).one(":ActionsRunnerGroup").inputs
    assert inputs["selectedRepositoryIds"] == UNKNOWN


def test_a_public_repository_is_refused_beside_one_that_is_not_made_yet() -> None:
    def program() -> None:
        made = github.Repository("later")
        RunnerGroup("gpu", RunnerGroupArgs(repositories=[made.name, "open-web"]))

    with pytest.raises(ArgsError, match=r"RunnerGroup 'gpu': repositories\[1\]: is a public repository"):
        run(program, preview=True)


MADE = "github:index/actionsRunnerGroup:ActionsRunnerGroup"


def made_as(*, public: bool = False, **outputs: Any) -> Deployment:
    """The group of the example where GitHub answers with something else than it was asked."""
    computed = {**COMPUTED, MADE: {**COMPUTED.get(MADE, {}), **outputs}}
    args = RunnerGroupArgs(**RunnerGroup.EXAMPLE, publicRepositories=public)
    return deploy(lambda: RunnerGroup("gpu", args), computed=computed, calls=CALLS)


@pytest.mark.parametrize(
    ("outputs", "got"),
    [
        ({"restrictedToWorkflows": False, "selectedWorkflows": []}, "a group for all workflows"),
        ({"restrictedToWorkflows": False}, "a group for all workflows"),
        (
            {"selectedWorkflows": ["acme/web/.github/workflows/other.yml@refs/heads/main"]},
            "a group for other workflows",
        ),
    ],
)
def test_a_restriction_that_github_left_out_fails_the_deployment(outputs: dict[str, Any], got: str) -> None:
    with pytest.raises(ArgsError) as caught:
        made_as(**outputs)
    assert str(caught.value) == (
        "RunnerGroup 'gpu': selectedWorkflows: is not in force: every workflow of the repositories may use the group "
        "on GitHub\n"
        f"  got: {got}\n"
        "  expected: GitHub Enterprise Cloud, which supports this restriction\n"
        "  hint: remove selectedWorkflows, or change the organization's plan (docs/guides/github.md, Plans)"
    )


@pytest.mark.parametrize("outputs", [{"visibility": "all"}, {"allowsPublicRepositories": True}])
def test_a_group_that_github_made_for_more_repositories_fails_the_deployment(outputs: dict[str, Any]) -> None:
    with pytest.raises(ArgsError, match="repositories: are not the only ones that may use the group on GitHub"):
        made_as(**outputs)


def test_a_public_group_for_all_repositories_fails_the_deployment() -> None:
    with pytest.raises(ArgsError) as caught:
        made_as(public=True, visibility="all", allowsPublicRepositories=True)
    assert "  got: visibility all, public repositories allowed\n" in str(caught.value)
    assert "  expected: visibility selected, public repositories allowed\n" in str(caught.value)


def test_neither_name_nor_id_of_a_group_that_is_too_open_is_handed_on() -> None:
    handed_on: list[str] = []

    def program() -> None:
        group = RunnerGroup("gpu", RunnerGroupArgs(**RunnerGroup.EXAMPLE))
        group.group_name.apply(handed_on.append)
        group.group_id.apply(handed_on.append)

    computed = {**COMPUTED, MADE: {**COMPUTED.get(MADE, {}), "visibility": "all"}}
    with pytest.raises(ArgsError):
        deploy(program, computed=computed, calls=CALLS)
    assert handed_on == []


def test_another_form_of_the_same_workflow_is_the_same() -> None:
    assert made_as(selectedWorkflows=["Acme/web/.github/workflows/gpu.yml@main"]).rows
