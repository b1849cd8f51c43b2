"""Ids, names and computed outputs: every output of the SDK's class is filled, or knowingly left open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

ONE: dict[str, dict[str, Any]] = {
    types.TEMPLATE: TEMPLATE,
    types.REGION_TEMPLATE: TEMPLATE,
    types.REGION_GROUP: {"baseInstanceName": "runner"},
    types.NETWORK: {},
    types.SUBNETWORK: {"network": "default", "ipCidrRange": "10.1.0.0/24"},
    "gcp:compute/firewall:Firewall": {
        "network": "default",
        "allows": [{"protocol": "tcp"}],
        "sourceRanges": ["10.0.0.0/8"],
    },
    types.ROUTER: {"network": "default"},
    "gcp:compute/routerNat:RouterNat": {"sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"},
    types.WORKER_POOL: {"location": "us-central1"},
    types.TRIGGER: {"filename": "cloudbuild.yaml", "sourceToBuild": {"ref": "refs/heads/main", "repoType": "GITHUB"}},
    types.REPOSITORY: {"format": "DOCKER", "repositoryId": "images"},
    types.REPOSITORY_MEMBER: {"repository": "images", "role": "roles/artifactregistry.reader", "member": "allUsers"},
    types.RUN_POOL: {"location": "us-central1", "template": {"containers": [{"image": "hello"}]}},
    types.CUSTOM_ROLE: {"roleId": "manager", "title": "manager", "permissions": ["compute.instances.list"]},
    types.POOL: {"workloadIdentityPoolId": "github"},
    types.POOL_PROVIDER: {"workloadIdentityPoolId": "github", "workloadIdentityPoolProviderId": "actions"},
    "gcp:logging/metric:Metric": {"filter": "severity=ERROR"},
    types.AI_ENDPOINT: {"location": "us-central1", "displayName": "scan"},
    types.ALERT_POLICY: {
        "displayName": "none",
        "combiner": "OR",
        "conditions": [{"displayName": "none", "conditionPrometheusQueryLanguage": {"query": "vector(1)"}}],
    },
    types.CLUSTER: {"location": "us-central1"},
    types.NODE_POOL: {"location": "us-central1", "cluster": "ci"},
    types.ACCOUNT: {},
    types.ACCOUNT_MEMBER: {
        "serviceAccountId": "projects/ci-project/serviceAccounts/1-compute@developer.gserviceaccount.com",
        "role": "roles/iam.serviceAccountUser",
        "member": "allUsers",
    },
    types.PROJECT_MEMBER: {"project": "ci-project", "role": "roles/viewer", "member": "allUsers"},
    types.SECRET: {"replication": {"auto": {}}},
    types.SECRET_VERSION: {"secretData": "x"},
    types.SECRET_MEMBER: {"role": "roles/secretmanager.secretAccessor", "member": "allUsers"},
}


def made(google: Google, token: str) -> dict[str, Any]:
    inputs = dict(ONE[token])
    if token == types.REGION_GROUP:
        inputs["versions"] = [{"instanceTemplate": google.template().id}]
    if token in (types.SECRET_VERSION, types.SECRET_MEMBER):
        secret = google.make(types.SECRET, "app-key", ONE[types.SECRET])
        inputs["secret" if token == types.SECRET_VERSION else "secretId"] = secret.id
    if token == "gcp:compute/routerNat:RouterNat":
        inputs["router"] = google.make(types.ROUTER, "router", ONE[types.ROUTER]).outputs["name"]
    if token == types.NODE_POOL:
        google.make(types.CLUSTER, "ci", {**ONE[types.CLUSTER], "name": "ci"})
    if token == types.POOL_PROVIDER:
        google.make(types.POOL, "github", ONE[types.POOL])
    if token == types.REPOSITORY_MEMBER:
        google.make(types.REPOSITORY, "images", ONE[types.REPOSITORY])
    return google.make(token, "it", inputs).outputs


@pytest.mark.parametrize("token", types.TARGETS)
def test_every_output_that_is_no_optional_input_is_filled(google: Google, token: str) -> None:
    shape = google.cloud.shapes.shape(token)
    outputs = made(google, token)
    assert set(shape.outputs) - set(outputs) - set(shape.inputs.properties) == set()
    assert set(outputs) - set(shape.outputs) == set()
    required = {name for name, declared in shape.inputs.properties.items() if declared.required}
    assert required - set(outputs) == set()


def test_a_regional_templates_outputs_look_like_googles(google: Google) -> None:
    outputs = google.template(labels={"team": "ci"}, tags=["runner"]).outputs
    link = "https://www.googleapis.com/compute/v1/projects/ci-project/regions/us-central1/instanceTemplates/"
    assert outputs["selfLink"] == link + outputs["name"]
    assert re.fullmatch(r"template-[0-9a-f]{7}", outputs["name"])
    assert re.fullmatch(r"[1-9]\d{18}", outputs["numericId"])
    assert outputs["pulumiLabels"] == outputs["effectiveLabels"] == {"team": "ci", "goog-pulumi-provisioned": "true"}
    assert (outputs["region"], outputs["project"]) == ("us-central1", "ci-project")


def test_what_upstream_plans_is_known_in_a_preview(google: Google) -> None:
    res = google.resource(types.ACCOUNT, "it", {"accountId": "runner"}, preview=True)
    assert google.cloud.preview_outputs(res) == {
        "project": "ci-project",
        "email": "runner@ci-project.iam.gserviceaccount.com",
        "member": "serviceAccount:runner@ci-project.iam.gserviceaccount.com",
    }


NAMES = {
    "short": (types.REGION_TEMPLATE, "L4-Template", "name", r"l4-template-[0-9a-f]{7}"),
    "cut to Google's 63": (types.REGION_TEMPLATE, "x" * 80, "name", r"x{55}-[0-9a-f]{7}"),
    "an account's 30": (types.ACCOUNT, "x" * 40, "accountId", r"x{22}-[0-9a-f]{7}"),
    "a secret": (types.SECRET, "app-key", "secretId", r"app-key-[0-9a-f]{7}"),
}


@pytest.mark.parametrize(("token", "name", "key", "pattern"), NAMES.values(), ids=NAMES)
def test_a_name_is_the_logical_name_and_seven_hex_digits(
    google: Google, token: str, name: str, key: str, pattern: str
) -> None:
    res = google.resource(token, name, ONE[token])
    google.lifecycle.check(res)
    assert re.fullmatch(pattern, res.inputs[key])
    again = google.resource(token, name, ONE[token], old_inputs=dict(res.inputs), seed=b"another")
    google.lifecycle.check(again)
    assert again.inputs[key] == res.inputs[key]


def test_a_project_that_is_nowhere_gets_the_providers_words(tmp_path: Path) -> None:
    google = Google(tmp_path, config={})
    assert google.problems(types.REGION_TEMPLATE, TEMPLATE) == [
        "project: project: required field is not set\n  hint: set gcp:project, or project on the resource",
        "region: region: required field is not set\n  hint: set gcp:region, or region on the resource",
    ]
    assert google.problems(types.REGION_TEMPLATE, {**TEMPLATE, "project": "mine", "region": "us-east1"}) == []


def test_the_region_comes_from_the_zone_as_the_provider_takes_it(tmp_path: Path) -> None:
    google = Google(tmp_path, config={"project": "ci-project", "zone": "us-east1-b"})
    assert google.template().outputs["region"] == "us-east1"


def test_a_resource_is_found_by_the_ids_that_import_takes(google: Google) -> None:
    template = google.template(name="one")
    path = "projects/ci-project/regions/us-central1/instanceTemplates/one"
    for given in (path, template.outputs["selfLink"], "ci-project/us-central1/one", "us-central1/one", "one"):
        record = google.cloud.locate(types.REGION_TEMPLATE, given)
        assert record is not None
        assert record.id == path
    assert google.cloud.locate(types.REGION_TEMPLATE, "us-east1/one") is None


def test_a_type_that_is_only_checked_by_shape_gets_googles_kind_of_id(google: Google) -> None:
    topic = google.make("gcp:pubsub/topic:Topic", "events", {"name": "events"})
    assert topic.id == "projects/ci-project/topics/events"
    assert topic.outputs["project"] == "ci-project"


def test_a_bucket_tells_its_addresses(google: Google) -> None:
    made = google.make("gcp:storage/bucket:Bucket", "logs", {"name": "my-logs", "location": "EU"})
    assert (made.outputs["url"], made.outputs["selfLink"]) == (
        "gs://my-logs",
        "https://www.googleapis.com/storage/v1/b/my-logs",
    )


def test_objects_of_other_folders_and_buckets_are_other_objects(google: Google) -> None:
    """A new version of a program creates its objects in a new folder before the old ones are deleted."""
    places = [("one", "program/1/requirements.lock"), ("one", "program/2/requirements.lock"), ("two", "bridge.json")]
    places.append(("one", "bridge.json"))
    made = [
        google.make("gcp:storage/bucketObject:BucketObject", f"object-{number}", {"bucket": bucket, "name": name})
        for number, (bucket, name) in enumerate(places)
    ]
    assert [each.id for each in made] == [f"{bucket}-{name}" for bucket, name in places]


# The id of a type without a table is the longest import id of its documentation.
DOCUMENTED_IDS = {
    "a path below another resource": (
        "gcp:cloudbuildv2/repository:Repository",
        {"parentConnection": "github", "location": "us-central1", "remoteUri": "https://github.com/acme/web.git"},
        r"projects/ci-project/locations/us-central1/connections/github/repositories/it-[0-9a-f]{7}",
    ),
    "a parent by its path": (
        "gcp:cloudbuildv2/repository:Repository",
        {"parentConnection": "projects/ci-project/locations/us-central1/connections/github", "name": "web",
         "location": "us-central1", "remoteUri": "https://github.com/acme/web.git"},
        r"projects/ci-project/locations/us-central1/connections/github/repositories/web",
    ),
    "the path of the parent as its beginning": (
        "gcp:kms/cryptoKey:CryptoKey",
        {"keyRing": "projects/ci-project/locations/us-central1/keyRings/pulumi", "name": "secrets"},
        r"projects/ci-project/locations/us-central1/keyRings/pulumi/cryptoKeys/secrets",
    ),
    "another plural": (
        "gcp:compute/resourcePolicy:ResourcePolicy",
        {"name": "daily"},
        r"projects/ci-project/regions/us-central1/resourcePolicies/daily",
    ),
    "several names": (
        "gcp:dns/recordSet:RecordSet",
        {"managedZone": "zone", "name": "www.example.com.", "type": "A"},
        r"projects/ci-project/managedZones/zone/rrsets/www\.example\.com\./A",
    ),
    "a member": (
        "gcp:cloudrunv2/serviceIamMember:ServiceIamMember",
        {"location": "us-central1", "name": "api", "role": "roles/run.invoker", "member": "allUsers"},
        r"projects/ci-project/locations/us-central1/services/api/roles/run\.invoker/allUsers",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("token", "inputs", "pattern"), DOCUMENTED_IDS.values(), ids=DOCUMENTED_IDS)
def test_an_id_without_a_table_is_the_documented_import_id(
    google: Google, token: str, inputs: dict[str, Any], pattern: str
) -> None:
    assert re.fullmatch(pattern, google.make(token, "it", inputs).id)
