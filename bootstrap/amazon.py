"""Roles in an AWS account for the jobs that deploy and preview pools on EKS, and the state without Google Cloud."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
from gpu_ci.aws.github_identity import GithubIdentity, GithubIdentityArgs
from gpu_ci.aws.resource_names import SECRETS_ALIAS, secrets_provider, state_backend, state_bucket
from gpu_ci.github_trust import Purpose
from gpu_common import aws_permissions

from bootstrap.settings import Aws, Jobs, Settings

ACTIONS: dict[Purpose, list[str]] = {"deploy": aws_permissions.deployer(), "preview": aws_permissions.reader()}


@dataclass(frozen=True)
class _State:
    bucket: aws.s3.Bucket
    key: aws.kms.Key

    @property
    def policy(self) -> pulumi.Output[str]:
        """The policy of a role that deploys."""
        arns = pulumi.Output.all(self.bucket.arn, self.key.arn)
        return arns.apply(lambda known: _policy(aws_permissions.state_statements(*known)))


def build(settings: Settings, on_aws: Aws) -> dict[str, Any]:
    """Create the OIDC provider, unless the account has one, and the roles. Return the values for the workflows.

    Without a Google Cloud project, also create the bucket and the key for Pulumi's state.
    """
    through = aws.Provider("aws", region=on_aws.region)
    state = None if settings.project else _state(through)
    # Stacks attach it to the roles of runner managers. A deployer may write no policy.
    aws.iam.Policy(
        "manager",
        name=aws_permissions.MANAGER_POLICY,
        description="GPU runner managers: their own machines and objects",
        policy=_policy(aws_permissions.manager_statements()),
        opts=pulumi.ResourceOptions(provider=through),
    )
    provider_arn: Any = on_aws.provider_arn
    roles = {}
    for name, purpose, jobs in settings.github.identities():
        identity = _identity(settings, on_aws, f"aws-{name}", purpose, jobs, provider_arn, state, through)
        provider_arn = provider_arn or identity.provider_arn
        roles[name] = {"role": identity.role_arn}
    if state is None:
        return {"aws": roles}
    return {
        "backend": state.bucket.bucket.apply(lambda name: state_backend(name, on_aws.region)),
        "secretsProvider": secrets_provider(on_aws.region),
        "aws": roles,
    }


def _state(through: aws.Provider) -> _State:
    opts = pulumi.ResourceOptions(provider=through)
    account = aws.get_caller_identity_output(opts=pulumi.InvokeOutputOptions(provider=through)).account_id
    # Without the key, no one can read old versions of states.
    key = aws.kms.Key(
        "secrets",
        description="Pulumi's state and its secrets",
        enable_key_rotation=True,
        opts=pulumi.ResourceOptions(provider=through, retain_on_delete=True),
    )
    alias = aws.kms.Alias("secrets", name=SECRETS_ALIAS, target_key_id=key.key_id, opts=opts)
    # Pulumi must not delete a bucket that has states. If the deletion fails, the key and its alias stay in the state.
    after = pulumi.ResourceOptions(provider=through, depends_on=[key, alias])
    bucket = aws.s3.Bucket("state", bucket=account.apply(state_bucket), force_destroy=False, opts=after)
    versioning = aws.s3.BucketVersioning(
        "state", bucket=bucket.id, versioning_configuration={"status": "Enabled"}, opts=opts
    )
    # As in the bucket on Google Cloud.
    aws.s3.BucketLifecycleConfiguration(
        "state",
        bucket=bucket.id,
        rules=[
            {
                "id": "old-versions",
                "status": "Enabled",
                "filter": {},
                "noncurrent_version_expiration": {"noncurrent_days": 365, "newer_noncurrent_versions": 10},
            }
        ],
        opts=pulumi.ResourceOptions(provider=through, depends_on=[versioning]),
    )
    aws.s3.BucketServerSideEncryptionConfiguration(
        "state",
        bucket=bucket.id,
        rules=[
            {
                "apply_server_side_encryption_by_default": {"sse_algorithm": "aws:kms", "kms_master_key_id": key.arn},
                "bucket_key_enabled": True,
            }
        ],
        opts=opts,
    )
    blocked = aws.s3.BucketPublicAccessBlock(
        "state",
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=opts,
    )
    # S3 refuses two changes of one bucket's access at the same time (OperationAborted).
    aws.s3.BucketPolicy(
        "state",
        bucket=bucket.id,
        policy=bucket.arn.apply(lambda arn: _policy([_only_with_tls(arn)])),
        opts=pulumi.ResourceOptions(provider=through, depends_on=[blocked]),
    )
    return _State(bucket, key)


def _only_with_tls(bucket: str) -> dict[str, Any]:
    # docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html, "Enforce encryption".
    return {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [bucket, f"{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _identity(
    settings: Settings, on_aws: Aws, name: str, purpose: Purpose, jobs: Jobs, provider_arn: Any, state: _State | None,
    through: aws.Provider,
) -> GithubIdentity:  # fmt: skip
    github = settings.github
    immutable = {"subject_claim": "immutable", "repository": github.repository}
    policies: dict[str, Any] = {"stack": _policy(aws_permissions.statements(ACTIONS[purpose]))}
    if state and purpose == "deploy":
        policies["state"] = state.policy
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
            policies=policies,
        ),
        pulumi.ResourceOptions(provider=through),
    )
