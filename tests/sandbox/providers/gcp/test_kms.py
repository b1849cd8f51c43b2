"""Cloud KMS keeps deleted key rings and keys, without the versions of the keys."""

from __future__ import annotations

import pytest
from pulumi_sandbox.providers.gcp import kms
from pulumi_sandbox.providers.resource import Refused, Resource

from tests.sandbox.providers.gcp.conftest import PROJECT, Google

RING_ID = f"projects/{PROJECT}/locations/us-central1/keyRings/pulumi"
KEY_ID = f"{RING_ID}/cryptoKeys/secrets"
RING_INPUTS = {"name": "pulumi", "location": "us-central1"}
KEY_INPUTS = {"name": "secrets", "keyRing": RING_ID, "rotationPeriod": "7776000s"}
VERSION = f"{KEY_ID}/cryptoKeyVersions/1"


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def pair(google: Google, messages: list[str]) -> tuple[Resource, Resource]:
    """A key ring and a key, after their deletion."""
    ring = google.make(kms.KEY_RING, "ring", RING_INPUTS)
    key = google.make(kms.CRYPTO_KEY, "key", KEY_INPUTS)
    assert (ring.id, key.id) == (RING_ID, KEY_ID)
    assert key.outputs["primaries"] == [{"name": VERSION, "state": "ENABLED"}]
    for each in (key, ring):
        deleted = google.resource(
            each.token, each.name, each.inputs, id=each.id, outputs=each.outputs,
            log=lambda text, severity="info": messages.append(f"{severity}: {text}"),
        )  # fmt: skip
        google.lifecycle.delete(deleted)
    return ring, key


def test_a_deleted_ring_and_key_remain_without_a_stack(
    google: Google, pair: tuple[Resource, Resource], messages: list[str]
) -> None:
    rows = {each.id: google.world.get(each.token, each.id) for each in pair}
    assert {identity: row.urn for identity, row in rows.items() if row} == {RING_ID: "", KEY_ID: ""}
    destroyed = " All versions of the key are scheduled for destruction."
    assert messages == [
        f"warning: Google does not delete a CryptoKey: {KEY_ID} remains without a stack.{destroyed}",
        f"warning: Google does not delete a KeyRing: {RING_ID} remains without a stack.",
    ]


@pytest.mark.parametrize(
    ("token", "inputs", "path"), [(kms.KEY_RING, RING_INPUTS, RING_ID), (kms.CRYPTO_KEY, KEY_INPUTS, KEY_ID)]
)
@pytest.mark.usefixtures("pair")
def test_a_second_create_is_refused(google: Google, token: str, inputs: dict[str, str], path: str) -> None:
    kind = token.rpartition(":")[2]
    with pytest.raises(Refused) as refused:
        google.make(token, "again", inputs)
    assert str(refused.value) == (
        f"Error creating {kind}: googleapi: Error 409: {kind} {path} already exists., alreadyExists"
    )
