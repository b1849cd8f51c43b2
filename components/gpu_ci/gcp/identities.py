"""Service accounts and custom roles. Several stacks may share a project, so their ids contain the stack."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

import pulumi
import pulumi_gcp as gcp
from gpu_common import google_permissions
from pydantic import Field

from .. import naming
from ..args import Input, StrictBool

BootstrapRoles = Annotated[
    StrictBool,
    Field(description="whether to use the custom roles that bootstrap/ made in the project, instead of creating roles"),
]
TYPES = ("gcp:serviceaccount/account:Account", google_permissions.PROJECT_MEMBER)
"""The types of a service account with roles on the project."""
WITH_IMAGES = {"imageRepositories": ("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",)}
"""The types of the grants of `image_readers`, by the field with the repositories."""
# Google's limits. Neither resource has an automatic name.
_ACCOUNT_ID_MOST, _ROLE_ID_MOST = 30, 64


def service_account(
    logical_name: str, prefix: str, name: str, display_name: str, project: Input[str], opts: pulumi.ResourceOptions
) -> gcp.serviceaccount.Account:
    """Create the service account `prefix`-`name`-<stack>, shortened to Google's limit."""
    return gcp.serviceaccount.Account(
        logical_name,
        account_id=naming.fit(f"{prefix}-{name}-{pulumi.get_stack()}", _ACCOUNT_ID_MOST),
        display_name=display_name,
        project=project,
        opts=opts,
    )


def member(account: gcp.serviceaccount.Account) -> pulumi.Output[str]:
    """Return the account as a member of a grant."""
    return pulumi.Output.concat("serviceAccount:", account.email)


def in_project(
    logical_name: str,
    role: Input[str],
    account: gcp.serviceaccount.Account,
    project: Input[str],
    opts: pulumi.ResourceOptions,
    condition: Any = None,
) -> gcp.projects.IAMMember:
    """Grant a role on the project to a service account."""
    return gcp.projects.IAMMember(
        logical_name, project=project, role=role, member=member(account), condition=condition, opts=opts
    )


def split(calls: Mapping[str, tuple[str, ...]], on_all: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the permissions of these calls that a condition on names can limit, except `on_all`, and the others."""
    listed = google_permissions.of_calls(calls)
    own = [each for each in listed if google_permissions.is_limited_by_name(each) and each not in on_all]
    return own, [each for each in listed if each not in own]


def on_own_machines(
    name: str,
    role: tuple[str, str, str],
    calls: Mapping[str, tuple[str, ...]],
    prefixes: Mapping[str, Sequence[str]],
    account: gcp.serviceaccount.Account,
    project: Input[str],
    child: Callable[[], pulumi.ResourceOptions],
    on_all: Collection[str] = (),
    made: str = "",
) -> list[pulumi.Resource]:
    """Grant an account these calls, on machines, disks and images only if their names start with a prefix.

    `role` has the logical name, the id and the title of the custom role for them. A second role has the permissions
    that Google does not check on a single machine, disk or image, and the permissions `on_all`. `made` is the component
    in bootstrap_roles.ROLES, if bootstrap/ made both roles.
    """
    own, others = split(calls, on_all)
    own_role = custom_role(*role, own, project, child(), made and f"{made}_machines")
    other_role = custom_role(
        f"{name}-project-role",
        f"{role[1]}-project",
        f"{role[2]}: project",
        others,
        project,
        child(),
        made and f"{made}_project",
    )
    conditions = google_permissions.names_start_with(prefixes)
    return [
        in_project(f"{name}-project", other_role, account, project, child()),
        *(
            in_project(
                f"{name}-machines{number or ''}",
                own_role,
                account,
                project,
                child(),
                {"title": "own names", "expression": expression},
            )
            for number, expression in enumerate(conditions)
        ),
    ]


def on_registry(
    logical_name: str,
    access: Literal["reader", "writer"],
    account: gcp.serviceaccount.Account,
    project: Input[str],
    location: str,
    repository: Input[str],
    opts: pulumi.ResourceOptions,
) -> gcp.artifactregistry.RepositoryIamMember:
    """Let a service account read, or also write, one Artifact Registry repository."""
    return gcp.artifactregistry.RepositoryIamMember(
        logical_name,
        project=project,
        location=location,
        repository=repository,
        role=f"roles/artifactregistry.{access}",
        member=member(account),
        opts=opts,
    )


def image_readers(
    name: str, repositories: Sequence[str], account: gcp.serviceaccount.Account, opts: pulumi.ResourceOptions
) -> list[gcp.artifactregistry.RepositoryIamMember]:
    """Let a service account read Artifact Registry repositories, which may be in other projects."""
    return [
        on_registry(
            f"{name}-{naming.fit(path, 60)}-reader",
            "reader",
            account,
            project=path.split("/")[1],
            location=path.split("/")[3],
            repository=path.split("/")[5],
            opts=opts,
        )
        for path in dict.fromkeys(repositories)
    ]


def custom_role(
    logical_name: str,
    prefix: str,
    title: str,
    permissions: Sequence[str],
    project: Input[str],
    opts: pulumi.ResourceOptions,
    made: str = "",
) -> pulumi.Output[str]:
    """Create the custom role `prefix`_<stack>, and return its name. The id of a role cannot change.

    `made` is the name in bootstrap_roles.ROLES of the role that bootstrap/ made instead.
    """
    if made:
        return pulumi.Output.concat("projects/", project, "/roles/gpu_ci_", made)
    role = gcp.projects.IAMCustomRole(
        logical_name,
        project=project,
        role_id=naming.fit(f"{prefix}-{pulumi.get_stack()}", _ROLE_ID_MOST).replace("-", "_"),
        title=title,
        permissions=list(permissions),
        opts=opts,
    )
    return role.name
