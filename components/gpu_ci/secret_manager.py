"""The format of the names of secrets in Google's Secret Manager, in which stacks of every cloud keep their secrets."""

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


SecretName = Annotated[
    str, Redacted(), AfterValidator(_secret_name), WithJsonSchema({"type": "string", "pattern": _SECRET_NAME})
]
