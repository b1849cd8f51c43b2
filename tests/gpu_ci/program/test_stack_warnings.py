"""The warnings of a stack in the preview, on fixed days."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from gpu_ci.program import stack_warnings

from tests.gpu_ci.program.stack import L4, config, config_of, load

OLD_IMAGE = "projects/example-ci/global/images/ubuntu-2004-with-nvidia-580"


def told(day: date, **pools: object) -> list[str]:
    return stack_warnings.warnings(load(config(pools or None)), day)


def test_old_prices_are_no_warning_of_a_deployment() -> None:
    assert told(date(2026, 12, 31), l4=L4 | {"market": "spot"}) == []
    assert stack_warnings.warnings(load(config_of("Pulumi.prod.yaml")), date(2026, 12, 31)) == []


@pytest.mark.parametrize("value", [None, ""])
def test_an_identity_that_only_the_provider_has_is_warned_of_once_its_variable_is_missing_or_empty(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"gcp:impersonateServiceAccount": "ci@example-ci.iam.gserviceaccount.com"}
    if value is None:
        monkeypatch.delenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", raising=False)
    else:
        monkeypatch.setenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", value)
    [warning] = stack_warnings.warnings(load(config(**given)), date(2026, 11, 21))
    assert warning == (
        "gcp:impersonateServiceAccount: applies to pulumi-gcp only, so the smoke gates use another identity or "
        "have no credentials; hint: set GOOGLE_IMPERSONATE_SERVICE_ACCOUNT in the environment instead "
        "(docs/how-it-works/check.md)"
    )
    monkeypatch.setenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "ci@example-ci.iam.gserviceaccount.com")
    assert stack_warnings.warnings(load(config(**given)), date(2026, 11, 21)) == []


def test_a_zone_that_googles_page_lacks_is_a_warning() -> None:
    h100 = {"kind": "gce-runners", "machineType": "a3-highgpu-1g", "market": "spot", "max": 1}
    [warning] = told(date(2026, 8, 3), h100=h100 | {"zones": ["us-central1-a", "us-central1-b"]})
    assert warning.startswith("gpu-ci:pools.h100.zones: Google's page of GPU zones has no H100")
    assert "us-central1-b" in warning


def test_an_image_out_of_support_is_reported_once_for_several_pools() -> None:
    pools = {name: L4 | {"image": OLD_IMAGE, "runnerLabels": [name]} for name in ("a", "b")}
    [warning] = told(date(2026, 11, 21), **pools)
    assert warning.startswith("the image ubuntu-2004-with-nvidia-580 is out of support: Ubuntu 20.04 ended in 2025-05")
    assert warning.endswith("hint: take an image of Ubuntu 24.04")


def test_missing_limits_are_unknown() -> None:
    given = {"gpu-ci:quotas": {"us-central1": {"PREEMPTIBLE_NVIDIA_L4_GPUS": 5}}}
    assert stack_warnings.warnings(load(config(**given)), date(2026, 11, 21)) == [
        ("gpu-ci:quotas: lacks GPUS_ALL_REGIONS (global), SSD_TOTAL_GB (us-central1), so these limits are unknown")
    ]


def test_a_shortage_no_vendors_text_confirms_is_a_warning() -> None:
    h100 = {"kind": "gce-runners", "machineType": "a3-highgpu-1g", "zones": ["us-central1-a"], "max": 1}
    here = {"PREEMPTIBLE_NVIDIA_H100_GPUS": 2, "PREEMPTIBLE_LOCAL_SSD_GB": 700, "SSD_TOTAL_GB": 500}
    quotas = {"us-central1": here, "global": {"GPUS_ALL_REGIONS": 2}}
    found = load(config({"h100": h100}, **{"gpu-ci:quotas": quotas}))
    [warning] = [text for text in stack_warnings.warnings(found, date(2026, 8, 3)) if "quotas" in text]
    assert warning.startswith(
        "gpu-ci:quotas.us-central1.PREEMPTIBLE_LOCAL_SSD_GB: may be less than the pools need: got 700, "
        "expected 1500 GB or more (h100 1500); hint: "
    )


AGENT = "<project number>@cloudservices.gserviceaccount.com"


def test_a_resource_of_another_project_is_reported_with_the_needed_grant() -> None:
    host = "projects/host-ci/regions/us-central1/subnetworks/ci"
    choices = {
        "image": "projects/images-ci/global/images/gpu",
        "market": "standard",
        "reservation": "projects/shared-ci/reservations/l4",
    }
    values = config({"l4": L4 | choices}) | {"gpu-ci:site": {"subnetworks": {"us-central1": host}}}
    told_of = {"subnetwork": "host-ci", "image": "images-ci", "reservation": "shared-ci"}
    hints = {
        "subnetwork": "grant both roles/compute.networkUser on the subnetwork",
        "image": "grant both roles/compute.imageUser in its project",
        "reservation": "share the reservation with this project",
    }
    assert stack_warnings.warnings(load(values), date(2026, 9, 1)) == [
        f"gpu-ci:pools.l4.{field}: is of another project, {project}: the check of a template uses the deployer's "
        f"rights there, and the group the rights of {AGENT}; hint: {hints[field]} (docs/start/bootstrap.md)"
        for field, project in told_of.items()
    ]


def test_the_machines_of_a_build_step_need_the_grant_for_the_account_of_builds() -> None:
    host = "projects/host-ci/regions/us-central1/subnetworks/ci"
    bridge = {**L4, "kind": "cloud-build-gpu"}
    values = config({"gpu-tests": bridge}) | {"gpu-ci:site": {"subnetworks": {"us-central1": host}}}
    assert stack_warnings.warnings(load(values), date(2026, 9, 1)) == [
        (
            "gpu-ci:pools.gpu-tests.subnetwork: is of another project, host-ci: the check of a template uses the "
            "deployer's rights there, and a build the rights of the pool's output serviceAccountEmail; hint: grant "
            "both roles/compute.networkUser on the subnetwork (docs/start/bootstrap.md)"
        )
    ]


def test_a_build_pool_warns_about_quota_regions_and_repositories() -> None:
    trigger = {"repository": "acme/kernels", "event": {"kind": "push", "branch": "^main$"}, "build": {"kind": "file"}}
    second = {"repositoryResource": "projects/p/locations/europe-west4/connections/c/repositories/web"}
    triggers = {"a": trigger, "b": trigger, "c": {**trigger, "repository": "acme/web", **second}}
    builds = {"kind": "cloud-build", "region": "europe-west4", "triggers": triggers}
    settings = load(config({"builds": builds, "l4": L4, "own": {"kind": "cloud-build", "region": "us-central1"}}))
    assert stack_warnings.prerequisites_of_builds(settings) == [
        (
            "gpu-ci:pools.builds: a new project may have no quota for private pools or their CPUs in europe-west4, and "
            "a project that is restricted to some regions builds in us-central1, us-west2, europe-west1, asia-east1, "
            "australia-southeast1, southamerica-east1 only; hint: see cloud.google.com/build/quotas before the first up"
        ),
        (
            "gpu-ci:pools.builds.triggers: acme/kernels must be connected to Cloud Build as 1st gen in europe-west4; "
            "hint: Cloud Build, Repositories, 1st gen, Connect repository, as an owner of the organization on GitHub; "
            "or name a 2nd-gen repository in repositoryResource"
        ),
        (
            "gpu-ci:pools.own: a new project may have no quota for private pools or their CPUs in us-central1; hint: "
            "see cloud.google.com/build/quotas before the first up"
        ),
    ]


def test_a_pool_for_builds_warns_about_a_region_in_which_a_restricted_project_cannot_build() -> None:
    bridge = {**L4, "kind": "cloud-build-gpu", "zones": ["us-east4-a"], "max": 1}
    values = config({"gpu": bridge, "moved": {**bridge, "buildRegion": "us-central1"}})
    values["gpu-ci:site"]["subnetworks"]["us-east4"] = "projects/example-ci/regions/us-east4/subnetworks/ci"
    [warning] = stack_warnings.prerequisites_of_builds(load(values))
    assert warning.startswith("gpu-ci:pools.gpu: builds in us-east4, and a project that is restricted to some regions ")
    assert warning.endswith("hint: set buildRegion")


MISSING = "gpu-ci:site.github.managerApp, gpu-ci:github.runnerGroup"


def test_what_only_the_runner_manager_reads_is_told_where_the_stack_has_none() -> None:
    climbing = L4 | {
        "ladder": [{"zones": ["us-central1-b"]}],
        "queueTimeoutSec": 900,
        "priorities": {"order": ["push"]},
    }
    flex = {
        "kind": "gce-runners", "machineType": "a3-highgpu-1g", "zones": ["us-central1-a"], "market": "flex-start",
        "maxRunDurationSec": 3600, "max": 1,
    }  # fmt: skip
    manager, starts = "only the runner manager", "starts machines there"
    given = f"hint: give {MISSING}"
    assert [each for each in told(date(2026, 10, 5), l4=climbing, h100=flex) if each.startswith("gpu-ci:pools")] == [
        f"gpu-ci:pools.h100.market: a new size of the group gets no flex-start machine, {manager} does; {given}",
        f"gpu-ci:pools.l4.ladder: its templates are checked, but {manager} {starts}; {given}, or leave ladder out",
        f"gpu-ci:pools.l4.queueTimeoutSec: {manager} reads this field; {given}, or remove queueTimeoutSec",
        f"gpu-ci:pools.l4.priorities: {manager} reads this field; {given}, or remove priorities",
    ]


def test_a_stack_with_a_runner_manager_gets_no_such_warning() -> None:
    app = {"id": 37, "installationId": 38, "privateKey": "projects/example-ci/secrets/manager-key"}
    values = with_runners(l4=L4 | {"ladder": [{"zones": ["us-central1-b"]}]})
    owner = values["gpu-ci:site"]["github"]
    told_without = stack_warnings.warnings(load(values), date(2026, 10, 5))
    assert [each.rpartition("hint: ")[2] for each in told_without if each.startswith("gpu-ci:pools")] == [
        "give gpu-ci:site.github.managerApp, or leave ladder out"
    ]
    owner["managerApp"] = app
    assert [
        each for each in stack_warnings.warnings(load(values), date(2026, 10, 5)) if each.startswith("gpu-ci:pools")
    ] == []


def with_runners(**pools: object) -> dict[str, Any]:
    """A stack whose machines register runners."""
    runner_app = {"id": 27, "installationId": 28, "privateKey": "projects/example-ci/secrets/runner-key"}
    values = config(pools) | {"gpu-ci:github": {"runnerGroup": {"repositories": ["kernels"]}}}
    values["gpu-ci:site"]["github"] = {"owner": "acme", "runnerApp": runner_app}
    return values
