"""Networks, subnetworks and accounts that a resource refers to: in the world, built in, listed, or looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

SUBNETWORK = "projects/ci-project/regions/us-central1/subnetworks/ci"


def with_subnetwork(path: str) -> dict[str, Any]:
    return {**TEMPLATE, "networkInterfaces": [{"subnetwork": path}]}


def missing(kind: str, path: str) -> str:
    return (
        f"Error creating RegionInstanceTemplate: googleapi: Error 400: Invalid value for field "
        f"'resource.properties.networkInterfaces[0].{kind}': '{path}'. The referenced {kind} resource cannot be "
        "found., "
        f"invalid\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{gcp: [{path}]}}"
    )


def refusal(google: Google, inputs: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        google.make(types.REGION_TEMPLATE, "template", inputs)
    return str(refused.value)


def test_every_project_has_the_default_network_and_its_subnetworks(google: Google) -> None:
    google.make(
        types.REGION_TEMPLATE, "one", {**TEMPLATE, "networkInterfaces": [{"network": "global/networks/default"}]}
    )
    google.make(types.REGION_TEMPLATE, "two", with_subnetwork("default"))


def test_a_subnetwork_that_is_nowhere_is_refused_in_googles_words(google: Google) -> None:
    assert refusal(google, with_subnetwork(SUBNETWORK)) == missing("subnetwork", SUBNETWORK)


def test_a_network_that_is_nowhere_is_refused_in_googles_words(google: Google) -> None:
    inputs = {**TEMPLATE, "networkInterfaces": [{"network": "ci"}]}
    assert refusal(google, inputs) == missing("network", "projects/ci-project/global/networks/ci")


def test_a_subnetwork_that_the_stack_made_is_there(google: Google) -> None:
    network = google.make(types.NETWORK, "ci", {"name": "ci", "autoCreateSubnetworks": False})
    subnetwork = google.make(
        types.SUBNETWORK, "ci", {"name": "ci", "network": network.id, "ipCidrRange": "10.1.0.0/24"}
    )
    assert subnetwork.id == SUBNETWORK
    assert subnetwork.outputs["gatewayAddress"] == "10.1.0.1"
    google.make(types.REGION_TEMPLATE, "template", with_subnetwork(subnetwork.outputs["selfLink"]))
    with pytest.raises(Refused) as refused:
        google.delete(network)
    assert str(refused.value) == (
        "Error deleting network: googleapi: Error 400: The network resource 'projects/ci-project/global/networks/ci' "
        "is "
        f"already being used by '{SUBNETWORK}', resourceInUseByAnotherResource"
    )


def test_a_subnetwork_that_the_settings_list_is_there(tmp_path: Path) -> None:
    google = Google(tmp_path, settings="exists:\n  gcp: ['projects/*/regions/*/subnetworks/c*']\n")
    google.make(types.REGION_TEMPLATE, "template", with_subnetwork(SUBNETWORK))


def test_a_service_account_that_the_settings_list_as_the_hint_says_is_there(tmp_path: Path) -> None:
    email = "runner@ci-project.iam.gserviceaccount.com"
    google = Google(tmp_path, settings=f"exists: {{gcp: [projects/ci-project/serviceAccounts/{email}]}}\n")
    account = {"email": email, "scopes": ["cloud-platform"]}
    google.make(types.REGION_TEMPLATE, "template", {**TEMPLATE, "serviceAccount": account})
    member = {"project": "ci-project", "role": "roles/logging.logWriter", "member": f"serviceAccount:{email}"}
    google.make(types.PROJECT_MEMBER, "member", member)


def test_a_subnetwork_that_a_lookup_answered_is_there(google: Google) -> None:
    token = "gcp:compute/getSubnetwork:getSubnetwork"
    found, _ = google.cloud.invoke(token, {"name": "ci", "region": "us-central1", "project": "ci-project"})
    google.make(types.REGION_TEMPLATE, "template", with_subnetwork(found["selfLink"]))


def test_a_subnetwork_of_another_region_is_refused(google: Google) -> None:
    path = "projects/ci-project/regions/us-east1/subnetworks/default"
    assert refusal(google, with_subnetwork(path)) == (
        "Error creating RegionInstanceTemplate: googleapi: Error 400: Invalid value for field "
        f"'resource.properties.networkInterfaces[0].subnetwork': '{path}'. The subnetwork is not in region "
        "us-central1., "
        "invalid"
    )


def test_a_template_needs_its_service_account(google: Google) -> None:
    inputs = {
        **TEMPLATE,
        "serviceAccount": {"email": "runner@ci-project.iam.gserviceaccount.com", "scopes": ["cloud-platform"]},
    }
    assert refusal(google, inputs) == (
        "Error creating RegionInstanceTemplate: googleapi: Error 404: The resource "
        "'projects/ci-project/serviceAccounts/"
        "runner@ci-project.iam.gserviceaccount.com' of type 'serviceAccount' was not found., notFound\n"
        "  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: "
        "[projects/ci-project/serviceAccounts/runner@ci-project.iam.gserviceaccount.com]}"
    )
    google.make(types.ACCOUNT, "one", {"accountId": "runner"})
    google.make(types.REGION_TEMPLATE, "template", inputs)


def test_the_default_service_account_is_always_there(google: Google) -> None:
    inputs = {
        **TEMPLATE,
        "serviceAccount": {"email": "123456789012-compute@developer.gserviceaccount.com", "scopes": []},
    }
    google.make(types.REGION_TEMPLATE, "template", inputs)


def test_a_name_that_is_taken_is_refused_in_googles_words(google: Google) -> None:
    google.template(name="one")
    assert refusal(google, {**TEMPLATE, "name": "one"}) == (
        "Error creating RegionInstanceTemplate: googleapi: Error 409: The resource "
        "'projects/ci-project/regions/us-central1/instanceTemplates/one' already exists, alreadyExists"
    )


def test_a_settings_file_that_is_no_yaml_is_reported_when_the_provider_starts(tmp_path: Path) -> None:
    google = Google(tmp_path, settings="guest: [")
    with pytest.raises(Refused) as refused:
        google.cloud.configure(google.config)
    assert str(refused.value).startswith("sandbox.yaml: line ")


def test_invalid_settings_are_reported_when_the_provider_starts(tmp_path: Path) -> None:
    google = Google(tmp_path, settings="exists:\n  gcp: everything\n")
    with pytest.raises(Refused) as refused:
        google.cloud.configure(google.config)
    assert str(refused.value) == (
        "sandbox.yaml: exists.gcp: wrong type\n  got: {'gcp': 'everything'}\n"
        "  expected: a list of paths such as projects/*/regions/us-central1/subnetworks/ci"
    )


ENTRIES = "guest, exists, github, lookups, values, restrictions"
CLOUDS = "aws, gcp, github, kubernetes"


@pytest.mark.parametrize(
    ("written", "name", "known", "meant"),
    [
        ("exist: {}", "exist", ENTRIES, "exists"),
        ("guests: {}", "guests", ENTRIES, "guest"),
        ("exists: {gpc: [projects/*]}", "exists.gpc", "aws, gcp, github", "gcp"),
        ("guest: {paths: [x]}", "guest.paths", "path, environment, scriptOutput", "path"),
        ("guest: {env: {}}", "guest.env", "path, environment, scriptOutput", ""),
        ("values: {kubernets: {namespaces: []}}", "values.kubernets", CLOUDS, "kubernetes"),
        ("values: {azure: {}}", "values.azure", CLOUDS, ""),
    ],
)
def test_an_entry_that_sandbox_yaml_has_not_is_refused_with_what_was_meant(
    tmp_path: Path, written: str, name: str, known: str, meant: str
) -> None:
    google = Google(tmp_path, settings=written)
    with pytest.raises(Refused) as refused:
        google.cloud.configure(google.config)
    hint = f"\n  hint: did you mean '{meant}'?" if meant else ""
    assert str(refused.value) == f"sandbox.yaml: {name}: no such entry\n  expected: {known}{hint}"
    google.world.close()
