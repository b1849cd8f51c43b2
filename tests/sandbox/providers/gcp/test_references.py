"""Resources that another one refers to: in the world, built in, listed, or looked up; and those that are in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google
from tests.sandbox.providers.gcp.test_rules import PROVIDER, TRIGGER

SUBNETWORK = "projects/ci-project/regions/us-central1/subnetworks/ci"
EMAIL = "runner@ci-project.iam.gserviceaccount.com"
ACCOUNT = f"projects/ci-project/serviceAccounts/{EMAIL}"
WORKERS = "projects/ci-project/locations/us-central1/workerPools/ci"
REPOSITORY: dict[str, Any] = {"format": "DOCKER", "repositoryId": "images", "location": "us-central1"}
READER = {"repository": "images", "location": "us-central1", "role": "roles/artifactregistry.reader"}
SECRET = {"secretId": "app-key", "replication": {"auto": {}}}
SECRET_READER = {"secretId": "app-key", "role": "roles/secretmanager.secretAccessor"}
RUN_POOL: dict[str, Any] = {
    "name": "manager",
    "location": "us-central1",
    "template": {
        "containers": [{"image": "us-docker.pkg.dev/ci-project/builds/manager@sha256:12"}],
        "volumes": [{"name": "key", "secret": {"secret": "app-key"}}],
        "serviceAccount": EMAIL,
    },
}
POLICY: dict[str, Any] = {"displayName": "stalled", "combiner": "OR"}
QUERY = {"query": "absent_over_time(logging_googleapis_com:user_gpu_ci_passes[5m])"}


def with_subnetwork(path: str) -> dict[str, Any]:
    return {**TEMPLATE, "networkInterfaces": [{"subnetwork": path}]}


def build(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**TRIGGER, **changes}.items() if value is not None}


def refusal(google: Google, token: str, inputs: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        google.make(token, "it", inputs)
    return str(refused.value)


# The type and inputs, and the path that the error names.
MISSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "the subnetwork of a template": (types.REGION_TEMPLATE, with_subnetwork(SUBNETWORK), SUBNETWORK),
    "the network of a template": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "networkInterfaces": [{"network": "ci"}]},
        "projects/ci-project/global/networks/ci",
    ),
    "the account of a template": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "serviceAccount": {"email": EMAIL, "scopes": []}},
        ACCOUNT,
    ),
    "the network of a router": (types.ROUTER, {"network": "ci"}, "projects/ci-project/global/networks/ci"),
    "the account of a trigger": (types.TRIGGER, build(serviceAccount=ACCOUNT), ACCOUNT),
    "the workers of a trigger": (
        types.TRIGGER,
        build(serviceAccount=None, build={**TRIGGER["build"], "options": {"workerPool": WORKERS}}),
        WORKERS,
    ),
    "the repository of a role": (
        types.REPOSITORY_MEMBER,
        {**READER, "member": "allUsers"},
        "projects/ci-project/locations/us-central1/repositories/images",
    ),
    "the account of a role": (
        types.PROJECT_MEMBER,
        {"project": "ci-project", "role": "roles/viewer", "member": f"serviceAccount:{EMAIL}"},
        ACCOUNT,
    ),
    "the account that a role is on": (
        types.ACCOUNT_MEMBER,
        {"serviceAccountId": ACCOUNT, "role": "roles/iam.serviceAccountUser", "member": "allUsers"},
        ACCOUNT,
    ),
    "the secret of a role": (
        types.SECRET_MEMBER,
        {**SECRET_READER, "member": "allUsers"},
        "projects/ci-project/secrets/app-key",
    ),
    "the account of a worker pool": (types.RUN_POOL, RUN_POOL, ACCOUNT),
}


@pytest.mark.parametrize(("token", "inputs", "path"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_refused_until_sandbox_yaml_lists_it(
    tmp_path: Path, token: str, inputs: dict[str, Any], path: str
) -> None:
    google = Google(tmp_path / "one")
    text = refusal(google, token, inputs)
    assert text.startswith(f"Error creating {token.rpartition(':')[2]}: ")
    assert f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{gcp: [{path}]}}" in text
    listed = Google(tmp_path / "two", settings=f"exists: {{gcp: ['{path}', 'projects/ci-project/secrets/app-key']}}\n")
    if token == types.RUN_POOL:
        reader = {**SECRET_READER, "member": f"serviceAccount:{EMAIL}"}
        listed.make(types.SECRET_MEMBER, "reader", reader)
    listed.make(token, "it", inputs)


def test_a_subnetwork_of_the_stack_or_of_a_lookup_exists(google: Google) -> None:
    network = google.make(types.NETWORK, "ci", {"name": "ci", "autoCreateSubnetworks": False})
    inputs = {"name": "ci", "network": network.id, "ipCidrRange": "10.1.0.0/24"}
    subnetwork = google.make(types.SUBNETWORK, "ci", inputs)
    assert subnetwork.id == SUBNETWORK
    google.make(types.REGION_TEMPLATE, "template", with_subnetwork(subnetwork.outputs["selfLink"]))
    token = "gcp:compute/getSubnetwork:getSubnetwork"
    found, _ = google.cloud.invoke(token, {"name": "other", "region": "us-central1", "project": "ci-project"})
    google.make(types.REGION_TEMPLATE, "two", with_subnetwork(found["selfLink"]))


def test_a_subnetwork_of_another_region_is_refused(google: Google) -> None:
    path = "projects/ci-project/regions/us-east1/subnetworks/default"
    assert "The subnetwork is not in region us-central1." in refusal(
        google, types.REGION_TEMPLATE, with_subnetwork(path)
    )


# -- groups of machines -----------------------------------------------------------------------------------------------


def test_a_group_takes_a_template_by_id_and_link_and_holds_it(google: Google) -> None:
    template = google.template()
    link = template.outputs["selfLink"]
    for index, given in enumerate([template.id, f"{link}?uniqueId=1", link]):
        group = google.group(given, name=f"group-{index}")
        assert group.id == f"projects/ci-project/regions/us-central1/instanceGroupManagers/group-{index}"
    with pytest.raises(Refused, match="resourceInUseByAnotherResource"):
        google.delete(template)
    for record in google.world.find(types.REGION_GROUP):
        google.world.delete(types.REGION_GROUP, record.id)
    google.delete(template)


def test_names_are_taken_once(google: Google) -> None:
    for token, inputs in ((types.ACCOUNT, {"accountId": "runner"}), (types.REPOSITORY, REPOSITORY)):
        made = google.make(token, "one", inputs)
        assert f"Error 409: The resource '{made.id}' already exists, alreadyExists" in refusal(google, token, inputs)
    grant = {"project": "ci-project", "role": "roles/viewer", "member": "user:ada@example.com"}
    for name in ("one", "the same grant"):
        google.make(types.PROJECT_MEMBER, name, grant)


def test_an_identity_pool_has_the_number_of_the_project_and_its_id_stays_in_use(google: Google) -> None:
    pool = google.make(types.POOL, "pool", {"workloadIdentityPoolId": "github"})
    provider = google.make(types.POOL_PROVIDER, "provider", PROVIDER)
    assert pool.outputs["name"] == "projects/123456789012/locations/global/workloadIdentityPools/github"
    assert provider.outputs["name"] == f"{pool.outputs['name']}/providers/actions"
    member = {"project": "ci-project", "role": "roles/viewer"}
    principals = f"principalSet://iam.googleapis.com/{pool.outputs['name']}/attribute.ref/main"
    google.make(types.PROJECT_MEMBER, "member", {**member, "member": principals})
    other = principals.replace("/github/", "/gitlab/")
    missing = refusal(google, types.PROJECT_MEMBER, {**member, "member": other})
    assert "workloadIdentityPools/gitlab' was not found" in missing
    google.delete(provider)
    google.delete(pool)
    assert "Error 409: Requested entity already exists" in refusal(
        google, types.POOL, {"workloadIdentityPoolId": "github"}
    )


def test_a_secrets_versions_are_counted_up(google: Google) -> None:
    secret = google.make(types.SECRET, "key", SECRET)
    ids = [google.make(types.SECRET_VERSION, f"v{i}", {"secret": secret.id, "secretData": "x"}).id for i in (1, 2)]
    assert ids == [
        "projects/123456789012/secrets/app-key/versions/1",
        "projects/123456789012/secrets/app-key/versions/2",
    ]


def test_a_worker_pool_starts_only_once_its_account_may_read_its_secret(google: Google) -> None:
    google.make(types.ACCOUNT, "runner", {"accountId": "runner"})
    google.make(types.SECRET, "app-key", SECRET)
    assert "Permission denied on secret: projects/123456789012/secrets/app-key" in refusal(
        google, types.RUN_POOL, RUN_POOL
    )
    google.make(types.SECRET_MEMBER, "reader", {**SECRET_READER, "member": f"serviceAccount:{EMAIL}"})
    pool = google.make(types.RUN_POOL, "it", RUN_POOL)
    assert pool.id == "projects/ci-project/locations/us-central1/workerPools/manager"


@pytest.mark.parametrize(
    "condition",
    [
        {"conditionPrometheusQueryLanguage": QUERY},
        {"conditionAbsent": {"duration": "600s", "filter": 'metric.type="logging.googleapis.com/user/gpu-ci/passes"'}},
    ],
)
def test_a_metric_without_points_is_unknown_to_a_policy_that_is_checked(
    google: Google, condition: dict[str, Any]
) -> None:
    checked = {**POLICY, "conditions": [{"displayName": "x", **condition}]}
    assert "Error 404: Cannot find metric(s) that match type" in refusal(google, types.ALERT_POLICY, checked)
    unchecked = {"conditionPrometheusQueryLanguage": {**QUERY, "disableMetricValidation": True}}
    made = google.make(types.ALERT_POLICY, "it", {**POLICY, "conditions": [{"displayName": "x", **unchecked}]})
    assert made.id.startswith("projects/ci-project/alertPolicies/")


# -- sandbox.yaml -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("guest: [", "sandbox.yaml: line "),
        ("exists:\n  gcp: everything\n", 'sandbox.yaml: exists.gcp: wrong form\n  got: "everything"\n'),
        ("exist: {}", "sandbox.yaml: exist: no such entry\n"),
        ("exists: {gpc: [projects/*]}", "sandbox.yaml: exists.gpc: no such entry\n  expected: aws, gcp, github\n"),
        ("guest: {paths: [x]}", "sandbox.yaml: guest.paths: no such entry\n"),
        ("values: {azure: {}}", "sandbox.yaml: values.azure: no such entry\n"),
    ],
)
def test_invalid_settings_are_reported_when_the_provider_starts(tmp_path: Path, written: str, text: str) -> None:
    google = Google(tmp_path, settings=written)
    with pytest.raises(Refused) as refused:
        google.cloud.configure(google.config)
    assert str(refused.value).startswith(text)
    google.world.close()
