"""The sandbox's answers about a project fit Google's discovery documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.project_apis import ProjectApis
from pulumi_sandbox.providers.gcp.restrictions import Restrictions
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import operator, token_of
from pulumi_sandbox.world.store import Record

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.conftest import Google

OWNER = f"Bearer {token_of(operator('p'))}"
RESTRICTED = Restrictions(frozenset({"iam.googleapis.com"}), {"gcp.resourceLocations": ["in:eu-locations"]}, "17")


@pytest.fixture
def apis(google: Google) -> ProjectApis:
    grant = {"project": "p", "role": "roles/viewer", "member": "user:a@example.org"}
    google.world.insert(Record(types.PROJECT_MEMBER, "p/viewer/a", "a", "", grant, grant))
    account = {"email": "l4@p.iam.gserviceaccount.com"}
    google.world.insert(Record(types.ACCOUNT, "projects/p/serviceAccounts/l4", "l4", "", {}, account))
    return ProjectApis(google.world, RESTRICTED, lambda path: path == "buckets/listed")


def asked(service: Any, path: str, body: Any = None, *, who: str = OWNER, **query: list[str]) -> tuple[int, Any]:
    answer = service(Call("GET" if body is None else "POST", path, query, who, body))
    return answer.status, json.loads(answer.body)


def test_each_answer_has_the_form_of_its_discovery_document(apis: ProjectApis) -> None:
    wanted = {"permissions": ["iam.serviceAccounts.actAs"]}
    names = [f"projects/p/services/{each}.googleapis.com" for each in ("iam", "compute")]
    manager, policies = "cloudresourcemanager", "projects/p/policies"
    answers = [
        (manager, "Project", asked(apis.resource_manager, "/v3/projects/p")),
        (manager, "Policy", asked(apis.resource_manager, "/v3/projects/p:getIamPolicy", {})),
        (manager, "TestIamPermissionsResponse",
         asked(apis.resource_manager, "/v3/projects/p:testIamPermissions", wanted)),
        ("serviceusage", "BatchGetServicesResponse",
         asked(apis.service_usage, "/v1/projects/p/services:batchGet", names=names)),
        ("orgpolicy", "GoogleCloudOrgpolicyV2Policy",
         asked(apis.organization_policy, f"/v2/{policies}/gcp.resourceLocations:getEffectivePolicy")),
    ]  # fmt: skip
    for service, schema, (status, answer) in answers:
        assert status == 200
        compare(answer, service, schema)
    project, grants, permissions, services, policy = (answer for _, _, (_, answer) in answers)
    assert (project["name"], project["state"]) == ("projects/17", "ACTIVE")
    assert {"role": "roles/viewer", "members": ["user:a@example.org"]} in grants["bindings"]
    assert permissions == wanted
    assert [each["state"] for each in services["services"]] == ["DISABLED", "ENABLED"]
    assert policy["spec"]["rules"] == [{"values": {"allowedValues": ["in:eu-locations"]}}]
    path = "/v1/projects/-/serviceAccounts/l4@p.iam.gserviceaccount.com:testIamPermissions"
    assert asked(apis.iam, path, wanted) == (200, wanted)


@pytest.mark.parametrize(
    ("inputs", "versioning", "uniform"),
    [
        ({"versioning": {"enabled": True}, "uniformBucketLevelAccess": True}, True, True),
        ({"versioning": {"enabled": False}, "uniformBucketLevelAccess": True}, False, True),
        ({}, False, False),
    ],
)
def test_a_bucket_of_a_stack_has_the_settings_of_its_inputs(
    apis: ProjectApis, inputs: dict[str, Any], versioning: bool, uniform: bool
) -> None:
    apis.world.insert(Record(types.BUCKET, "state", "state", "", {"name": "state", **inputs}, {}))
    status, answer = asked(apis.storage, "/storage/v1/b/state")
    compare(answer, "storage", "Bucket")
    assert (status, answer["versioning"]["enabled"]) == (200, versioning)
    assert answer["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is uniform
    listed = asked(apis.storage, "/storage/v1/b/listed")[1]
    assert (listed["name"], listed["versioning"]) == ("listed", {"enabled": True})
    missing = asked(apis.storage, "/storage/v1/b/other")
    assert (missing[0], missing[1]["error"]["message"]) == (404, "The specified bucket does not exist.")
    assert asked(apis.storage, "/storage/v1/b/state", who="Bearer x")[0] == 401
    assert asked(apis.storage, "/storage/v1/b/state", {})[0] == 404  # no bucket is created


GKE = "projects/p/locations/us-central1/clusters"


def cluster(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of getCluster for the cluster gpu."""
    found = {
        "masterVersion": "1.34.1-gke.3720000",
        "enableAutopilot": False,
        "datapathProvider": "ADVANCED_DATAPATH",
        "subnetwork": "projects/p/regions/us-central1/subnetworks/ci",
        "networkPolicies": [{"enabled": True}],
        "nodePools": [{"name": "default-pool", "nodeConfigs": []}],
    }
    return found if arguments == {"project": "p", "location": "us-central1", "name": "gpu"} else None


def test_a_gke_cluster_has_the_values_of_its_lookup_and_the_node_pools_of_stacks(apis: ProjectApis) -> None:
    apis.cluster = cluster
    for path in (f"{GKE}/gpu/nodePools/l4-a1", f"{GKE}/other/nodePools/t4"):
        apis.world.insert(Record(types.NODE_POOL, path, "nodes", "", {}, {}))
    status, answer = asked(apis.container, f"/v1/{GKE}/gpu")
    compare(answer, "container", "Cluster")
    assert status == 200
    assert answer == {
        "name": "gpu",
        "location": "us-central1",
        "status": "RUNNING",
        "currentMasterVersion": "1.34.1-gke.3720000",
        "autopilot": {"enabled": False},
        "networkConfig": {
            "datapathProvider": "ADVANCED_DATAPATH",
            "subnetwork": "projects/p/regions/us-central1/subnetworks/ci",
        },
        "networkPolicy": {"provider": "CALICO", "enabled": True},
        "nodePools": [{"name": "default-pool", "status": "RUNNING"}, {"name": "l4-a1", "status": "RUNNING"}],
    }
    missing = asked(apis.container, f"/v1/{GKE}/other")
    assert (missing[0], missing[1]["error"]["message"]) == (404, f"Not found: {GKE}/other.")
    assert asked(apis.container, f"/v1/{GKE}/gpu", who="Bearer x")[0] == 401
    assert asked(apis.container, f"/v1/{GKE}/gpu", who=f"Bearer {token_of('a@p.example')}")[0] == 403


def test_an_account_has_the_permissions_of_its_custom_roles_and_an_owner_has_all(apis: ProjectApis) -> None:
    role = "projects/p/roles/deploy"
    apis.world.insert(Record(types.CUSTOM_ROLE, role, "deploy", "", {"permissions": ["a.b.get"]}, {}))
    for who, granted in (("few", role), ("all", "roles/owner"), ("other", "roles/editor")):
        grant = {"project": "p", "role": granted, "member": f"serviceAccount:{who}@p.example"}
        apis.world.insert(Record(types.PROJECT_MEMBER, f"p/{granted}/{who}", who, "", grant, grant))
    tested = {"permissions": ["a.b.get", "a.b.create"]}
    found = {
        who: asked(
            apis.resource_manager,
            "/v3/projects/p:testIamPermissions",
            tested,
            who=f"Bearer {token_of(f'{who}@p.example')}",
        )
        for who in ("few", "all", "other")
    }
    assert found == {
        "few": (200, {"permissions": ["a.b.get"]}),
        "all": (200, tested),
        "other": (200, {"permissions": []}),
    }
    reads = {who: asked(apis.resource_manager, "/v3/projects/p", who=f"Bearer {token_of(f'{who}@p.example')}")[0]
             for who in ("few", "all")}  # fmt: skip
    assert reads == {"few": 403, "all": 200}


def test_who_does_not_own_the_project_and_who_is_nobody_are_refused(apis: ProjectApis) -> None:
    machine = f"Bearer {token_of('l4@p.iam.gserviceaccount.com')}"
    refusals = [
        (status, answer["error"]["status"])
        for status, answer in (asked(apis.resource_manager, "/v3/projects/p", who=who) for who in (machine, "Bearer x"))
    ]
    assert refusals == [(403, "PERMISSION_DENIED"), (401, "UNAUTHENTICATED")]
    unknown = "/v1/projects/-/serviceAccounts/t4@p.iam.gserviceaccount.com:testIamPermissions"
    assert asked(apis.iam, unknown, {})[0] == 404


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("regions/us-central1", "Region"),
        ("global/images/family/pytorch-latest", "Image"),
        ("zones/us-central1-a/acceleratorTypes/nvidia-l4", "AcceleratorType"),
        ("regions/us-central1/subnetworks/ci", "Subnetwork"),
        ("regions/us-central1/routers", "RouterList"),
    ],
)
def test_compute_engine_describes_the_project(api: Api, path: str, schema: str) -> None:
    place, network = (
        "projects/ci-project/regions/us-central1/subnetworks/ci",
        {"network": "projects/ci-project/global/x"},
    )
    api.google.world.insert(Record(types.SUBNETWORK, place, "ci", "", network, network))
    compare(api.ok("GET", path), "compute", schema)
    status, answer = api.call("GET", "zones/us-central1-a/acceleratorTypes/nvidia-b999")
    assert (status, answer["error"]["errors"][0]["reason"]) == (404, "notFound")
