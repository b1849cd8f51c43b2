"""Services that are not enabled and policies of an organization, as sandbox.yaml plants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.kms import KEY_RING
from pulumi_sandbox.providers.gcp.restrictions import Restrictions
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.compute.test_compute_errors import refused
from tests.sandbox.providers.gcp.conftest import PROJECT, Google

SHIELDED = {"enableSecureBoot": True, "enableVtpm": True, "enableIntegrityMonitoring": True}


@pytest.fixture
def restricted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Api]]:
    """The Compute Engine API of a project with these restrictions; its machines boot nothing."""
    monkeypatch.setenv("PULUMI_SANDBOX_ASSUME", '{"gpu-smoke/verdict": "pass"}')
    made: list[Google] = []

    def of(entries: str) -> Api:
        settings = f"guest: {{}}\nrestrictions: {{gcp: {{{entries}}}}}\n"
        google = Google(tmp_path / str(len(made)), settings=settings)
        made.append(google)
        google.cloud.configure(google.config)
        return Api(google)

    yield of
    for google in made:
        google.cloud.stop()
        google.world.close()


def test_a_resource_of_a_service_that_is_not_enabled_is_refused_in_googles_words(
    restricted: Callable[[str], Api],
) -> None:
    google = restricted("disabledServices: [cloudbuild.googleapis.com]").google
    with pytest.raises(Refused) as raised:
        google.make(types.WORKER_POOL, "one", {"location": "us-central1"})
    assert "Error 403: Cloud Build API has not been used in project 123456789012 before or it is disabled." in str(
        raised.value
    )
    google.make(types.NETWORK, "two", {})


def test_an_api_is_disabled_until_a_stack_enables_it_in_the_project(restricted: Callable[[str], Api]) -> None:
    google = restricted("disabledServices: [all]").google
    made = {types.NETWORK: {}, types.BUCKET: {"location": "US", "name": "b"}, KEY_RING: {"location": "us", "name": "k"}}
    google.make("gcp:projects/service:Service", "elsewhere", {"project": "p", "service": "storage.googleapis.com"})
    for token, inputs in made.items():
        with pytest.raises(Refused) as raised:
            google.make(token, "early", inputs)
        assert "has not been used in project 123456789012 before or it is disabled." in str(raised.value)
    for name in ("compute", "storage", "cloudkms"):
        service = f"{name}.googleapis.com"
        google.make("gcp:projects/service:Service", name, {"project": PROJECT, "service": service})
    for token, inputs in made.items():
        google.make(token, "late", inputs)


@pytest.mark.parametrize(
    ("token", "location", "error"),
    [
        (KEY_RING, "eu", "Error 404: The request concerns location 'eu'"),
        (KEY_RING, "europe", ""),
        (KEY_RING, "us-central1", ""),
        (types.BUCKET, "europe", "Error 400: The specified location constraint is not valid."),
        (types.BUCKET, "EU", ""),
    ],
)
def test_a_service_has_locations_of_its_own(google: Google, token: str, location: str, error: str) -> None:
    if not error:
        google.make(token, "one", {"name": "one", "location": location})
        return
    with pytest.raises(Refused) as raised:
        google.make(token, "one", {"name": "one", "location": location})
    assert error in str(raised.value)


def test_the_compute_api_answers_that_it_is_not_enabled(restricted: Callable[[str], Api]) -> None:
    status, answer = restricted("disabledServices: [compute.googleapis.com]").call(
        "GET", "zones/us-central1-a/instances"
    )
    assert (status, answer["error"]["errors"][0]["reason"]) == (403, "accessNotConfigured")


POLICIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "secure boot that is off": (
        "compute.requireShieldedVm: true",
        {"shieldedInstanceConfig": {**SHIELDED, "enableSecureBoot": False}},
        (
            "Constraint constraints/compute.requireShieldedVm violated for project projects/ci-project. Secure Boot is "
            "not enabled in the 'shielded_instance_config' field. See https://cloud.google.com/resource-manager/docs/"
            "organization-policy/org-policy-constraints for more information."
        ),
    ),
    "an image of another project": (
        "compute.trustedImageProjects: [projects/cos-cloud]",
        {},
        (
            "Constraint constraints/compute.trustedImageProjects violated for project ci-project. Use of images from "
            "project images is prohibited."
        ),
    ),
    "another place": (
        'gcp.resourceLocations: ["in:europe-locations", us-central1-b]',
        {},
        (
            "Location ZONE:us-central1-a violates constraint constraints/gcp.resourceLocations on the resource "
            "projects/ci-project/zones/us-central1-a/instances/check."
        ),
    ),
}


@pytest.mark.parametrize(("policy", "template", "text"), POLICIES.values(), ids=POLICIES)
def test_an_instance_that_breaks_a_policy_is_refused_at_insert(
    restricted: Callable[[str], Api], policy: str, template: dict[str, Any], text: str
) -> None:
    api = restricted(f"organizationPolicies: {{{policy}}}")
    assert refused(api, template=api.google.template(**template).id) == (412, "conditionNotMet", text)


@pytest.mark.parametrize(
    ("value", "zone", "status"),
    [
        ("in:us-central1-locations", "us-central1-a", 200),
        ("in:us-central1-locations", "us-central10-a", 412),
        ("in:us-locations", "us-central1-a", 200),
        ("us-central1", "us-central1-a", 200),
        ("us-central1", "us-central10-a", 412),
        ("is:us-central1-a", "us-central1-a", 200),
        ("us", "us-central1-a", 412),
    ],
)
def test_a_location_of_a_policy_holds_for_its_own_zones_alone(
    value: str, zone: str, status: int, tmp_path: Path
) -> None:
    file = tmp_path / "sandbox.yaml"
    file.write_text(f'restrictions: {{gcp: {{organizationPolicies: {{gcp.resourceLocations: ["{value}"]}}}}}}\n')
    refused = list(Restrictions.read(file, "1").instance(PROJECT, f"projects/{PROJECT}/zones/{zone}/instances/a", {}))
    assert [error.status for error in refused] == [412] * (status == 412)


def test_guest_attributes_that_a_policy_disables_are_refused_and_not_missing(restricted: Callable[[str], Api]) -> None:
    api = restricted("organizationPolicies: {compute.disableGuestAttributesAccess: true}")
    api.insert(api.google.template().id)
    status, answer = api.call("GET", "zones/us-central1-a/instances/check/getGuestAttributes", queryPath="gpu-smoke/")
    assert (status, answer["error"]["errors"][0]["reason"], answer["error"]["message"]) == (
        412,
        "conditionNotMet",
        "Constraint constraints/compute.disableGuestAttributesAccess violated for project 123456789012.",
    )


def test_a_private_pool_beyond_the_quota_is_refused_in_googles_words(google: Google) -> None:
    google.world.add_fault(Fault("quota"))
    with pytest.raises(Refused) as raised:
        google.make(types.WORKER_POOL, "one", {"location": "us-central1"})
    assert str(raised.value) == (
        'Error creating WorkerPool: operation received error: error code "8", message: generic::resource_exhausted: '
        "project 123456789012 has insufficient quota to create a new worker pool; see "
        "https://cloud.google.com/build/quotas, details: []\n details: map[]"
    )
    google.make(types.WORKER_POOL, "one", {"location": "us-central1"})


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            "disabledService: []",
            (
                "restrictions.gcp.disabledService: no such entry\n  expected: disabledServices, organizationPolicies\n"
                "  hint: did you mean 'disabledServices'?"
            ),
        ),
        (
            "organizationPolicies: {compute.requireShieldedVm: [a]}",
            (
                'restrictions.gcp.organizationPolicies.compute.requireShieldedVm: wrong type\n  got: ["a"]\n'
                "  expected: true or false"
            ),
        ),
        (
            "organizationPolicies: {gcp.resourceLocations: us}",
            (
                'restrictions.gcp.organizationPolicies.gcp.resourceLocations: wrong type\n  got: "us"\n'
                "  expected: a list of texts"
            ),
        ),
        ("organizationPolicies: 3", "restrictions.gcp.organizationPolicies: wrong type\n  got: 3\n  expected: a map"),
    ],
)
def test_an_invalid_entry_is_reported_with_its_place(entry: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.yaml"
    file.write_text(f"restrictions: {{gcp: {{{entry}}}}}\n")
    with pytest.raises(SettingsError) as raised:
        Restrictions.read(file, "1")
    assert str(raised.value) == f"sandbox.yaml: {text}"
