"""Services that are not enabled, as sandbox.yaml plants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.kms import KEY_RING
from pulumi_sandbox.providers.gcp.restrictions import Restrictions
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.sandbox_file import SettingsError
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.conftest import PROJECT, Google


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


def test_the_compute_api_answers_that_it_is_not_enabled(restricted: Callable[[str], Api]) -> None:
    status, answer = restricted("disabledServices: [compute.googleapis.com]").call(
        "GET", "zones/us-central1-a/instances"
    )
    assert (status, answer["error"]["errors"][0]["reason"]) == (403, "accessNotConfigured")


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
                "restrictions.gcp.disabledService: no such entry\n  expected: disabledServices\n"
                "  hint: did you mean 'disabledServices'?"
            ),
        ),
        (
            'disabledServices: "all"',
            'restrictions.gcp.disabledServices: wrong type\n  got: "all"\n  expected: a list of texts',
        ),
    ],
)
def test_an_invalid_entry_is_reported_with_its_place(entry: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.yaml"
    file.write_text(f"restrictions: {{gcp: {{{entry}}}}}\n")
    with pytest.raises(SettingsError) as raised:
        Restrictions.read(file, "1")
    assert str(raised.value) == f"sandbox.yaml: {text}"
