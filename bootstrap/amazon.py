"""Roles in an AWS account for the jobs that deploy and preview pools on EKS."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_aws as aws
from gpu_ci.aws.github_identity import GithubIdentity, GithubIdentityArgs
from gpu_ci.github_trust import Purpose
from gpu_common import aws_permissions

from bootstrap.settings import Settings

ACTIONS: dict[Purpose, list[str]] = {"deploy": aws_permissions.deployer(), "preview": aws_permissions.reader()}


def build(settings: Settings, region: str) -> dict[str, Any]:
    """Create the OIDC provider and both roles, and return their ARNs."""
    through = aws.Provider("aws", region=region)
    deploy = _identity(settings, "deploy", through)
    preview = _identity(settings, "preview", through, provider_arn=deploy.provider_arn)
    return {"deploy": {"role": deploy.role_arn}, "preview": {"role": preview.role_arn}}


def _identity(settings: Settings, purpose: Purpose, through: aws.Provider, **wiring: Any) -> GithubIdentity:
    github = settings.github
    jobs = github.deploy if purpose == "deploy" else github.preview
    policy = {"Version": "2012-10-17", "Statement": aws_permissions.statements(ACTIONS[purpose])}
    return GithubIdentity(
        f"aws-{purpose}",
        GithubIdentityArgs(
            purpose=purpose,
            owner_id=github.owner_id,
            repository_id=github.repository_id,
            allow_organization=github.allow_organization,
            **jobs.model_dump(exclude={"pool_id"}),
            policies={"stack": json.dumps(policy)},
            **wiring,
        ),
        pulumi.ResourceOptions(provider=through),
    )
