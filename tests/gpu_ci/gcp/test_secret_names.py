"""Names of secrets: what Secret Manager has elsewhere, and what is no name."""

from __future__ import annotations

import pytest
from gpu_ci.secret_manager import SecretName
from pydantic import TypeAdapter, ValidationError

NAMES: TypeAdapter[str] = TypeAdapter(SecretName)


def test_a_global_secret_is_taken() -> None:
    assert NAMES.validate_python("projects/acme-ci/secrets/app_key-1") == "projects/acme-ci/secrets/app_key-1"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("projects/acme-ci/locations/europe-west4/secrets/key", "is a regional secret, which machines"),
        ("projects/acme-ci/locations/europe-west4/keys/key", "is not the name of a secret in Secret Manager"),
        ("ghp_abcd1234", "is not the name of a secret in Secret Manager"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_its_reason(value: str, problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        NAMES.validate_python(value)
    assert problem in str(refused.value)
