"""Key rings and keys of Cloud KMS, which Google never deletes.

Source: terraform-provider-google e03b7622, google/services/kms/resource_kms_{key_ring,crypto_key}.go. The deletion of a
key ring only removes it from the state. The deletion of a key destroys all its versions, and ends its rotation.
"""

from __future__ import annotations

from typing import Any

from pulumi_sandbox.providers.gcp import errors
from pulumi_sandbox.providers.resource import Resource

KEY_RING, CRYPTO_KEY = "gcp:kms/keyRing:KeyRing", "gcp:kms/cryptoKey:CryptoKey"
NEVER_DELETED = (KEY_RING, CRYPTO_KEY)


def outputs(res: Resource) -> dict[str, Any]:
    """Return the outputs that the provider adds to the inputs of a key: its primary version."""
    if res.token != CRYPTO_KEY:
        return {}
    first = {"name": f"{res.id}/cryptoKeyVersions/1", "state": "ENABLED"}
    return {"primaries": res.outputs.get("primaries") or [first]}


def deleted(res: Resource) -> None:
    kind = res.token.rpartition(":")[2]
    destroyed = " All versions of the key are scheduled for destruction." if res.token == CRYPTO_KEY else ""
    res.log(f"Google does not delete a {kind}: {res.id} remains without a stack.{destroyed}", "warning")


def already_exists(res: Resource) -> str:
    """Return the error for a name in use (github.com/hashicorp/terraform-provider-google/issues/1214)."""
    kind = res.token.rpartition(":")[2]
    error = errors.GoogleError(409, "alreadyExists", f"{kind} {res.id} already exists.")
    return f"Error creating {kind}: {error}"
