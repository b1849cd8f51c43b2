"""Service accounts and custom roles. Several stacks may share a project, so their ids contain the stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pulumi
import pulumi_gcp as gcp

from .. import naming
from ..args import Input

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
) -> gcp.projects.IAMMember:
    """Grant a role on the project to a service account."""
    return gcp.projects.IAMMember(logical_name, project=project, role=role, member=member(account), opts=opts)


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
) -> pulumi.Output[str]:
    """Create the custom role `prefix`_<stack>, and return its name. The id of a role cannot change."""
    role = gcp.projects.IAMCustomRole(
        logical_name,
        project=project,
        role_id=naming.fit(f"{prefix}-{pulumi.get_stack()}", _ROLE_ID_MOST).replace("-", "_"),
        title=title,
        permissions=list(permissions),
        opts=opts,
    )
    return role.name
