"""Roles in an AWS account for the jobs that deploy and preview pools on EKS."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_aws as aws
from gpu_ci.aws.github_identity import GithubIdentity, GithubIdentityArgs
from gpu_ci.github_trust import Purpose
from gpu_common import aws_permissions

from bootstrap.settings import Aws, Jobs, Settings

ACTIONS: dict[Purpose, list[str]] = {"deploy": aws_permissions.deployer(), "preview": aws_permissions.reader()}


def build(settings: Settings, on_aws: Aws) -> dict[str, Any]:
    """Create the OIDC provider, unless the account has one, and the roles. Return their ARNs."""
    through = aws.Provider("aws", region=on_aws.region)
    provider_arn: Any = on_aws.provider_arn
    found = {}
    for name, purpose, jobs in settings.github.identities():
        identity = _identity(settings, on_aws, f"aws-{name}", purpose, jobs, provider_arn, through)
        provider_arn = provider_arn or identity.provider_arn
        found[name] = {"role": identity.role_arn}
    return found


def _identity(
    settings: Settings, on_aws: Aws, name: str, purpose: Purpose, jobs: Jobs, provider_arn: Any, through: aws.Provider
) -> GithubIdentity:
    github = settings.github
    policy = {"Version": "2012-10-17", "Statement": aws_permissions.statements(ACTIONS[purpose])}
    immutable = {"subject_claim": "immutable", "repository": github.repository}
    return GithubIdentity(
        name,
        GithubIdentityArgs(
            purpose=purpose,
            owner_id=github.owner_id,
            repository_id=github.repository_id,
            allow_organization=github.allow_organization,
            provider_arn=provider_arn,
            **(immutable if on_aws.subject_claim == "immutable" else {}),
            **jobs.model_dump(exclude={"pool_id"}),
            policies={"stack": json.dumps(policy)},
        ),
        pulumi.ResourceOptions(provider=through),
    )
