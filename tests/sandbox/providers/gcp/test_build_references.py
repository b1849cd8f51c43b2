"""Networks, pools, triggers and registries: references that must exist, and values that cannot be read back."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.world.store import Fault

from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.rules.test_build import ACCOUNT, INLINE, POOL, REPOSITORY, TRIGGER

SERVICE = "servicenetworking.googleapis.com"
PEERED = {**POOL, "networkConfig": {"peeredNetwork": "projects/123456789012/global/networks/ci"}}
ATTACHMENT = "projects/ci-project/regions/us-central1/networkAttachments/ci"
ATTACHED = {**POOL, "privateServiceConnect": {"networkAttachment": ATTACHMENT}}
READER = {"repository": "images", "location": "us-central1", "role": "roles/artifactregistry.reader"}
RESERVED = {
    "name": "google",
    "addressType": "INTERNAL",
    "purpose": "VPC_PEERING",
    "network": "ci",
    "prefixLength": 16,
}


def refusal(google: Google, token: str, inputs: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        google.make(token, "it", inputs)
    return str(refused.value).partition("\n")[0]


def network(google: Google) -> Any:
    return google.make(types.NETWORK, "ci", {"name": "ci", "autoCreateSubnetworks": False})


def subnetwork(google: Google) -> Any:
    return google.make(types.SUBNETWORK, "ci", {"name": "ci", "network": "ci", "ipCidrRange": "10.1.0.0/24"})


def invalid(kind: str, field: str, value: str, why: str) -> str:
    return f"Error creating {kind}: googleapi: Error 400: Invalid value for field '{field}': '{value}'. {why}, invalid"


def not_found(path: str) -> str:
    return f"googleapi: Error 404: The resource '{path}' was not found, notFound"


POOLS = "projects/ci-project/locations/us-central1/workerPools"
SUBNETWORKS = "projects/ci-project/regions/{}/subnetworks/{}"
PSC = "private_pool_v1_config.private_service_connect.network_attachment"
MISSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "a router's network": (
        types.ROUTER,
        {"network": "ci"},
        invalid(
            "Router",
            "resource.network",
            "projects/ci-project/global/networks/ci",
            "The referenced network resource cannot be found.",
        ),
    ),
    "a NAT's router": (
        types.ROUTER_NAT,
        {"router": "ci", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"},
        f"Error creating RouterNat: {not_found('projects/ci-project/regions/us-central1/routers/ci')}",
    ),
    "an attachment's subnetwork": (
        types.NETWORK_ATTACHMENT,
        {"connectionPreference": "ACCEPT_AUTOMATIC", "subnetworks": ["ci"]},
        invalid(
            "NetworkAttachment",
            "resource.subnetworks[0]",
            SUBNETWORKS.format("us-central1", "ci"),
            "The referenced subnetwork resource cannot be found.",
        ),
    ),
    "an attachment's subnetwork of another region": (
        types.NETWORK_ATTACHMENT,
        {"connectionPreference": "ACCEPT_AUTOMATIC", "subnetworks": ["regions/us-east1/subnetworks/default"]},
        invalid(
            "NetworkAttachment",
            "resource.subnetworks[0]",
            SUBNETWORKS.format("us-east1", "default"),
            "The subnetwork is not in region us-central1.",
        ),
    ),
    "a connection's range": (
        types.CONNECTION,
        {"network": "default", "service": SERVICE, "reservedPeeringRanges": ["google"]},
        f"Error creating Connection: {not_found('projects/ci-project/global/addresses/google')}",
    ),
    "a pool's peered network": (
        types.WORKER_POOL,
        PEERED,
        f"Error creating WorkerPool: {not_found('projects/ci-project/global/networks/ci')}",
    ),
    "a pool's attachment": (
        types.WORKER_POOL,
        ATTACHED,
        invalid("WorkerPool", PSC, ATTACHMENT, "The referenced networkAttachment resource cannot be found."),
    ),
    "a pool's attachment of another region": (
        types.WORKER_POOL,
        {**ATTACHED, "location": "us-east1"},
        invalid("WorkerPool", PSC, ATTACHMENT, "The networkAttachment is not in region us-east1."),
    ),
    "a trigger's account": (
        types.TRIGGER,
        {**TRIGGER, "serviceAccount": ACCOUNT},
        "Error creating Trigger: "
        + not_found(ACCOUNT).replace(" was not found", " of type 'serviceAccount' was not found."),
    ),
    "a trigger's pool": (
        types.TRIGGER,
        {**INLINE, "build": {**INLINE["build"], "options": {"workerPool": f"{POOLS}/ci"}}},
        f"Error creating Trigger: {not_found(f'{POOLS}/ci')}",
    ),
    "a trigger's pool of another region": (
        types.TRIGGER,
        {**INLINE, "location": "us-east1", "build": {**INLINE["build"], "options": {"workerPool": f"{POOLS}/ci"}}},
        (
            "Error creating Trigger: googleapi: Error 400: Invalid value for field 'build.options.pool.name': "
            f"'{POOLS}/ci'. The trigger is in us-east1., invalid"
        ),
    ),
    "a role's repository": (
        types.REPOSITORY_MEMBER,
        {**READER, "member": "allUsers"},
        "Error creating RepositoryIamMember: "
        + not_found("projects/ci-project/locations/us-central1/repositories/images"),
    ),
}


@pytest.mark.parametrize(("token", "inputs", "expected"), MISSING.values(), ids=MISSING)
def test_what_is_not_there_is_refused(google: Google, token: str, inputs: dict[str, Any], expected: str) -> None:
    assert refusal(google, token, inputs) == expected


def test_a_pool_can_be_peered_once_the_network_has_its_private_connection(google: Google) -> None:
    made = network(google)
    assert refusal(google, types.WORKER_POOL, PEERED) == (
        "Error creating WorkerPool: the network 'projects/ci-project/global/networks/ci' has no private connection to "
        "servicenetworking.googleapis.com"
    )
    google.make(types.GLOBAL_ADDRESS, "google", RESERVED)
    connection = google.make(
        types.CONNECTION, "it", {"network": made.id, "service": SERVICE, "reservedPeeringRanges": ["google"]}
    )
    assert connection.id == f"projects%2Fci-project%2Fglobal%2Fnetworks%2Fci:{SERVICE}"
    assert connection.outputs["peering"] == "servicenetworking-googleapis-com"
    pool = google.make(types.WORKER_POOL, "it", {**PEERED, "name": "ci"})
    assert (pool.id, pool.outputs["state"]) == (f"{POOLS}/ci", "RUNNING")


def test_private_service_connect_is_not_read_back_because_the_provider_does_not_send_it(google: Google) -> None:
    network(google)
    subnetwork(google)
    google.make(
        types.NETWORK_ATTACHMENT,
        "ci",
        {"name": "ci", "connectionPreference": "ACCEPT_AUTOMATIC", "subnetworks": ["ci"]},
    )
    assert "privateServiceConnect" not in google.make(types.WORKER_POOL, "it", ATTACHED).outputs


@pytest.mark.parametrize(
    ("before", "after", "replaced"),
    [
        ({}, {"networkConfig": {"peeredNetwork": "projects/1/global/networks/default"}}, ["networkConfig"]),
        ({"networkConfig": PEERED["networkConfig"]}, {}, ["networkConfig"]),
        ({}, {"privateServiceConnect": {"networkAttachment": ATTACHMENT}}, ["privateServiceConnect"]),
        ({}, {"workerConfig": {"machineType": "e2-standard-16", "noExternalIp": True}}, []),
    ],
)
def test_a_pools_network_is_for_good_and_its_workers_are_not(
    google: Google, before: dict[str, Any], after: dict[str, Any], replaced: list[str]
) -> None:
    res = google.resource(types.WORKER_POOL, "it", {**POOL, **after})
    changes, _ = google.lifecycle.diff(res, Decoded({**POOL, **before}), [])
    assert changes
    assert (
        sorted({str(one.path[0]) for one in changes if google.cloud.replaces(types.WORKER_POOL, one.text)}) == replaced
    )


def test_a_trigger_runs_its_steps_in_the_pool_and_its_name_is_taken_in_every_region(google: Google) -> None:
    pool = google.make(types.WORKER_POOL, "it", {**POOL, "name": "ci"})
    google.make(types.ACCOUNT, "it", {"accountId": "builds"})
    options = {"logging": "CLOUD_LOGGING_ONLY", "workerPool": pool.id}
    inline = {**INLINE, "name": "main", "serviceAccount": ACCOUNT, "build": {**INLINE["build"], "options": options}}
    trigger = google.make(types.TRIGGER, "main", inline)
    assert trigger.id == f"projects/ci-project/locations/us-central1/triggers/{trigger.outputs['triggerId']}"
    assert refusal(google, types.TRIGGER, {**TRIGGER, "location": "us-east1", "name": "main"}) == (
        "Error creating Trigger: googleapi: Error 409: trigger main already exists, alreadyExists"
    )


def test_a_repository_says_where_it_is_and_takes_roles(google: Google) -> None:
    made = google.make(types.REPOSITORY, "it", {**REPOSITORY, "labels": {"team": "ml"}})
    assert made.outputs["registryUri"] == "us-central1-docker.pkg.dev/ci-project/images"
    assert made.outputs["effectiveLabels"] == {"team": "ml", "goog-pulumi-provisioned": "true"}
    role = google.make(types.REPOSITORY_MEMBER, "it", {**READER, "member": "allUsers"})
    assert role.id == f"{made.id}/roles/artifactregistry.reader/allUsers"
    assert refusal(google, types.REPOSITORY, REPOSITORY) == (
        f"Error creating Repository: googleapi: Error 409: The resource '{made.id}' already exists, alreadyExists"
    )


@pytest.mark.parametrize("kind", ["router", "range", "firewall"])
def test_a_network_that_is_used_stays(google: Google, kind: str) -> None:
    made = network(google)
    users = {
        "router": (types.ROUTER, {"network": "ci"}),
        "range": (types.GLOBAL_ADDRESS, RESERVED),
        "firewall": (types.FIREWALL, {"network": made.id, "denies": [{"protocol": "all"}], "sourceTags": ["a"]}),
    }
    user = google.make(users[kind][0], "it", users[kind][1])
    with pytest.raises(Refused, match=f"already being used by '{user.id}', resourceInUseByAnotherResource"):
        google.delete(made)
    google.delete(user)
    google.delete(made)
    assert google.world.find() == []


def test_a_subnetwork_that_is_attached_stays(google: Google) -> None:
    network(google)
    made = subnetwork(google)
    google.make(types.NETWORK_ATTACHMENT, "it", {"connectionPreference": "ACCEPT_AUTOMATIC", "subnetworks": [made.id]})
    with pytest.raises(Refused, match="The subnetwork resource"):
        google.delete(made)


@pytest.mark.parametrize("token", [types.WORKER_POOL, types.REPOSITORY, types.ROUTER])
def test_a_planted_refusal_strikes_them_as_any_other(google: Google, token: str) -> None:
    inputs = {types.WORKER_POOL: POOL, types.REPOSITORY: REPOSITORY, types.ROUTER: {"network": "default"}}[token]
    google.world.add_fault(Fault("refuse", token, 1, message="not today"))
    assert refusal(google, token, inputs) == "not today"
    google.make(token, "it", inputs)
