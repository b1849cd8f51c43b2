"""A machine made from a template with secrets: the world has only their digests, so some cannot boot."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.values import Decoded, Path
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.gcp.api import Api, printed, script
from tests.sandbox.providers.gcp.conftest import PROJECT, TEMPLATE, Google

EMAIL = f"runner@{PROJECT}.iam.gserviceaccount.com"
REFUSED = (
    "the sandbox stores secrets as digests, so it cannot boot a machine from a template with secret inputs\n"
    "  got: {} as secret\n  hint: a real cloud can boot the machine (docs/how-it-works/sandbox.md)"
)


def make(google: Google, token: str, inputs: dict[str, Any], *secrets: Path) -> str:
    """A resource with these inputs secret; its id."""
    urn = f"urn:pulumi:dev::tests::{token}::one"
    res = google.lifecycle.resource(urn, Decoded(dict(inputs), frozenset(secrets)), seed=b"seed")
    _, problems = google.lifecycle.check(res)
    assert problems == []
    google.lifecycle.create(res)
    return res.id


def digests(world: World) -> int:
    return sum(str(row).count("hmac-sha256:") for row in world.find())


@pytest.mark.parametrize(
    ("changes", "secrets", "named"),
    [
        (script("true"), [("metadata", "startup-script")], 'metadata["startup-script"]'),
        ({"metadataStartupScript": "true"}, [("metadataStartupScript",)], "metadataStartupScript"),
        ({}, [("machineType",), ("scheduling", "onHostMaintenance")], "machineType, scheduling.onHostMaintenance"),
        (script("true"), [("metadata",)], "metadata"),
    ],
)
def test_a_machine_is_refused_at_once_when_what_it_boots_from_is_secret(
    api: Api, changes: dict[str, Any], secrets: list[Path], named: str
) -> None:
    template = make(api.google, types.REGION_TEMPLATE, {**TEMPLATE, **changes}, *secrets)
    assert digests(api.google.world) > 0
    status, answer = api.call(
        "POST", "zones/us-central1-a/instances", {"name": "check"}, sourceInstanceTemplate=template
    )
    message = REFUSED.format(named)
    assert (status, answer["error"]["message"]) == (400, message)
    assert answer["error"]["errors"] == [{"message": message, "domain": "global", "reason": "sandbox"}]
    assert api.call("GET", "zones/us-central1-a/instances/check")[0] == 404


def test_a_secret_project_whose_account_the_world_has_boots_all_the_same(api: Api) -> None:
    account = {"accountId": "runner", "project": PROJECT}
    make(api.google, types.ACCOUNT, account, ("project",))
    inputs = {
        **TEMPLATE,
        **script("echo booted; shutdown -h now"),
        "project": PROJECT,
        "labels": {"owner": "somebody"},
        "serviceAccount": {"email": EMAIL, "scopes": ["cloud-platform"]},
    }
    secrets = [("project",), ("labels", "owner"), ("serviceAccount", "email")]
    template = make(api.google, types.REGION_TEMPLATE, inputs, *secrets)
    api.insert(template)
    assert printed(api.off())[0] == "booted"
    assert api.instance()["serviceAccounts"] == [{"email": EMAIL, "scopes": ["cloud-platform"]}]
    shown = api.ok("GET", template.partition(f"{PROJECT}/")[2])
    assert shown["properties"]["labels"] == {"owner": "[secret]"}
