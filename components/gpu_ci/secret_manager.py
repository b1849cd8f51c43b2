"""The formats of the names of secrets: in Google's Secret Manager, or in AWS Secrets Manager."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from .args import Redacted
from .errors import invalid

# cloud.google.com/secret-manager/docs/creating-and-accessing-secrets: letters, digits, _ and -, at most 255. A user may
# by mistake give the secret itself instead of its name, so errors redact the value.
_SECRET_NAME = r"^projects/[a-z0-9.:-]+/secrets/[A-Za-z0-9_-]{1,255}$"  # noqa: S105 - a form, no secret


# A regional secret is only at the endpoint of its region, https://secretmanager.REGION.rep.googleapis.com
# (docs.cloud.google.com/secret-manager/docs/samples/secretmanager-get-regional-secret). gpu-ci uses the global
# endpoint.
_REGIONAL = r"^projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/secrets/"


def _secret_name(value: str) -> str:
    if re.match(_REGIONAL, value):
        raise invalid(
            "is a regional secret, which machines and the stack do not support",
            "regional-secret",
            safe_hint="create a global secret whose only replica is in the region: gcloud secrets create NAME "
            "--replication-policy user-managed --locations REGION",
        )
    if not re.match(_SECRET_NAME, value):
        raise invalid(
            "is not the name of a secret in Secret Manager",
            "not-a-secret-name",
            safe_hint="store the value in Secret Manager, and give the name of the secret here: "
            "projects/<project>/secrets/<name>",
        )
    return value


# docs.aws.amazon.com/secretsmanager/latest/userguide/reference_iam-permissions.html, "Secrets Manager resources". The
# six characters that AWS adds to the name may be missing (API_GetSecretValue, SecretId).
_ARN = r"^arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z0-9-]+):[0-9]{12}:secret:(?P<name>[A-Za-z0-9/_+=.@-]{1,512})$"


def aws_secret(reference: str) -> re.Match[str] | None:
    """Return the match of the ARN of a secret in AWS Secrets Manager, with its region and name, or None."""
    return re.match(_ARN, reference)


def _stack_secret(value: str) -> str:
    if value.startswith("arn:") and not aws_secret(value):
        raise invalid(
            "is not the ARN of a secret in AWS Secrets Manager",
            "not-a-secret-name",
            safe_hint="arn:aws:secretsmanager:<region>:<account>:secret:<name>",
        )
    return value if aws_secret(value) else _secret_name(value)


SecretName = Annotated[
    str, Redacted(), AfterValidator(_secret_name), WithJsonSchema({"type": "string", "pattern": _SECRET_NAME})
]
"""The name of a secret in Secret Manager, which machines on Google Cloud can read, too."""
StackSecret = Annotated[
    str,
    Redacted(),
    AfterValidator(_stack_secret),
    WithJsonSchema({"type": "string", "pattern": f"{_SECRET_NAME}|{re.sub('[?]P<[a-z]+>', '', _ARN)}"}),
]
"""A secret that only the stack reads: the name of one in Secret Manager, or the ARN of one in AWS Secrets Manager."""
