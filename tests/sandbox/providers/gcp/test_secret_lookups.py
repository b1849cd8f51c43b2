"""Lookups of secrets, where sandbox.yaml says which ones are there and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.references import ACCESS, VERSION
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import Google

LISTED = "exists: {gcp: [projects/ci-project/secrets/app-*]}\n"
BOTH = pytest.mark.parametrize(
    ("token", "beginning"),
    [
        (VERSION, "error retrieving available secret manager secret versions"),
        (ACCESS, "Error retrieving available secret manager secret version access"),
    ],
)


@pytest.fixture
def with_file(tmp_path: Path) -> Iterator[Callable[[str], Google]]:
    made: list[Google] = []

    def make(settings: str) -> Google:
        made.append(Google(tmp_path, settings=settings))
        return made[-1]

    yield make
    for one in made:
        one.world.close()


@BOTH
def test_a_secret_that_is_neither_listed_nor_made_is_not_found(
    with_file: Callable[[str], Google], token: str, beginning: str
) -> None:
    google = with_file(LISTED)
    for given, home in (("key", "ci-project"), ("projects/other/secrets/key", "other")):
        with pytest.raises(Refused) as refused:
            google.cloud.invoke(token, {"secret": given})
        assert str(refused.value) == (
            f"{beginning}: googleapi: Error 404: Secret [projects/123456789012/secrets/key] not found or has no "
            f"versions.\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: "
            f"{{gcp: [projects/{home}/secrets/key]}}"
        )


@BOTH
def test_a_secret_that_is_listed_or_made_is_answered(
    with_file: Callable[[str], Google], token: str, beginning: str
) -> None:
    google = with_file(LISTED)
    google.make(types.SECRET, "key", {"secretId": "key", "replication": {"auto": {}}})
    for given in ("app-key", "projects/ci-project/secrets/app-key", "key"):
        result, secrets = google.cloud.invoke(token, {"secret": given})
        assert (result["secretData"], secrets) == (f"sandbox-placeholder-of-{given.split('/')[-1]}", ("secretData",)), (
            beginning
        )
