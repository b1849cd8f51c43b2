"""One GPU machine as a template: every machine of the catalog, and what Google is asked for each way to have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gpu_catalog import Machine, machines
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.gpu_instance_template import GpuInstanceTemplate, GpuInstanceTemplateArgs
from gpu_ci.gcp.machine.boot import METADATA_LIMIT, script
from gpu_ci.payload import agent_archive, smoke_archive
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE

from tests.gpu_ci.gcp.as_pool import as_pool
from tests.gpu_ci.gcp.machine.test_boot import CONTAINER, COS, PLAIN
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED, MORE_WIRING, WIRING
from tests.sandbox.providers.gcp.conftest import Google

ROCKY = "projects/rocky-linux-accelerator-cloud/global/images/family/rocky-linux-9-optimized-gcp-nvidia-580"
GCP = [machine for machine in machines(cloud="gcp") if not machine.legacy]


def template(**choices: Any) -> dict[str, Any]:
    """Return the inputs of the template."""
    given = {**GpuInstanceTemplate.EXAMPLE, **WIRING, **MORE_WIRING, **choices}
    found = deploy(lambda: GpuInstanceTemplate("gpu", GpuInstanceTemplateArgs(**given)), computed=COMPUTED)
    return found.one("RegionInstanceTemplate").inputs


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Google:
    return Google(tmp_path_factory.mktemp("world"))


def one_of_each() -> list[Machine]:
    """The smallest and the largest machine of each family and card, and each part of a GPU."""
    groups: dict[tuple[str, str, float], list[Machine]] = {}
    for machine in sorted(GCP, key=lambda each: (each.vcpus, each.memory_gib)):
        group = (machine.machine_type.partition("-")[0], machine.gpu.key, min(machine.gpu_count, 1))
        groups.setdefault(group, []).append(machine)
    return [
        machine for group in groups.values() for machine in {group[0].key: group[0], group[-1].key: group[-1]}.values()
    ]


@pytest.mark.parametrize("chosen", [one_of_each(), pytest.param(GCP, marks=pytest.mark.slow)], ids=["some", "all"])
def test_machines_of_the_catalog_make_templates_the_sandbox_takes(google: Google, chosen: list[Machine]) -> None:
    """Each in the first way it is sold, with the software that fits; what the sandbox says against one is shown."""
    refused = {}
    for machine, inputs in built(chosen):
        problems = google.problems(REGION_TEMPLATE, inputs)
        if problems:
            refused[machine.key] = problems
        assert inputs["machineType"] == machine.machine_type
    assert refused == {}


def built(chosen: list[Machine]) -> Iterator[tuple[Machine, dict[str, Any]]]:
    """All of them in one stack."""
    pools = [(machine, as_pool({"machine": machine, **driver_of(machine)})) for machine in chosen]
    given = [{key: value for key, value in pool.items() if key != "max"} for _, pool in pools if pool]
    assert len(given) == len(chosen)

    def program() -> None:
        for number, choices in enumerate(given):
            args = GpuInstanceTemplateArgs(**choices, **WIRING, **MORE_WIRING)
            GpuInstanceTemplate(f"gpu-{number}", args)

    rows = {row.name: row.inputs for row in deploy(program, computed=COMPUTED).of("RegionInstanceTemplate")}
    for number, machine in enumerate(chosen):
        yield machine, rows[f"gpu-{number}-template"]


def driver_of(machine: Machine) -> dict[str, Any]:
    if machine.gpu_count < 1:
        return {"driver_source": "installer", "driver_branch": 580}
    return {"driver_source": "accelerator-image"}


@pytest.mark.parametrize(
    ("choices", "scheduling", "affinity"),
    [
        (
            {"market": "spot"},
            {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False},
            None,
        ),
        (
            {"market": "standard"},
            {"provisioningModel": "STANDARD", "preemptible": False, "automaticRestart": True},
            None,
        ),
        (
            {"market": "standard", "reservation": "l4s"},
            {"provisioningModel": "STANDARD", "preemptible": False, "automaticRestart": True},
            {
                "type": "SPECIFIC_RESERVATION",
                "specificReservation": {"key": "compute.googleapis.com/reservation-name", "values": ["l4s"]},
            },
        ),
        (
            {"market": "flex-start", "maxRunDurationSec": 3600},
            {"provisioningModel": "FLEX_START", "preemptible": False, "automaticRestart": False},
            {"type": "NO_RESERVATION"},
        ),
        (
            {
                "market": "reservation",
                "reservation": "projects/gpus/reservations/h200",
                "machineType": "a3-ultragpu-8g",
                "zones": ["us-central1-b"],
            },
            {"provisioningModel": "RESERVATION_BOUND", "preemptible": False, "automaticRestart": False},
            {
                "type": "SPECIFIC_RESERVATION",
                "specificReservation": {
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["projects/gpus/reservations/h200"],
                },
            },
        ),
    ],
    ids=["spot", "standard", "standard in a reservation", "flex-start", "reservation"],
)
def test_each_way_to_buy_is_what_google_calls_it(
    google: Google, choices: dict[str, Any], scheduling: dict[str, Any], affinity: Any
) -> None:
    found = template(**choices)
    limit = choices.get("maxRunDurationSec", 14400)
    assert found["scheduling"] == {
        **scheduling,
        "onHostMaintenance": "TERMINATE",
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": limit},
    }
    assert found.get("reservationAffinity") == affinity
    assert google.problems(REGION_TEMPLATE, found) == []


@pytest.mark.parametrize(
    ("choices", "secure_boot"),
    [
        ({}, True),
        ({"driver": {"source": "cos", "checkImage": CONTAINER}, "image": COS}, True),
        ({"driver": {"source": "installer", "sha256": "e" * 64}, "image": PLAIN}, False),
        ({"image": ROCKY}, False),
        ({"image": "projects/acme-ci/global/images/gpu"}, False),
    ],
    ids=["Google's own image", "COS", "the installer", "Rocky Linux with a driver", "an image of one's own"],
)
def test_secure_boot_is_on_where_the_drivers_modules_are_signed(choices: dict[str, Any], secure_boot: bool) -> None:
    assert template(**choices)["shieldedInstanceConfig"] == {
        "enableVtpm": True,
        "enableIntegrityMonitoring": True,
        "enableSecureBoot": secure_boot,
    }


def test_local_disks_come_beside_the_boot_disk_and_go_with_the_machine(google: Google) -> None:
    found = template(machineType="g2-standard-24", localSsdCount=2)
    boot, *local = found["disks"]
    assert (boot["boot"], boot["diskType"], boot["diskSizeGb"]) == (True, "pd-balanced", 100)
    assert boot["labels"] == {"gpu-ci-pool": "gpu", "team": "ml"}
    local_ssd = {"type": "SCRATCH", "diskType": "local-ssd", "interface": "NVME", "diskSizeGb": 375, "autoDelete": True}
    assert local == [local_ssd] * 2
    assert google.problems(REGION_TEMPLATE, found) == []


def test_a_network_interface_may_be_chosen_where_there_is_a_choice() -> None:
    [interface] = template(nicType="GVNIC")["networkInterfaces"]
    assert interface == {"nicType": "GVNIC", "subnetwork": WIRING["subnetwork"]}


def test_the_network_is_named_where_it_is_chosen() -> None:
    network = "projects/example-ci/global/networks/ci"
    [interface] = template(network=network)["networkInterfaces"]
    assert interface == {"network": network, "subnetwork": WIRING["subnetwork"]}


def test_a_machine_may_do_what_its_account_may() -> None:
    """No scopes are no rights at all; what they leave open, the account's own roles decide."""
    assert template()["serviceAccount"] == {
        "email": MORE_WIRING["service_account_email"],
        "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
    }


def test_metadata_of_ones_own_comes_beside_the_checks() -> None:
    found = template(metadata={"agent-config": "a"})["metadata"]
    assert (found["agent-config"], found["enable-oslogin"]) == ("a", "TRUE")
    assert "gpu-smoke-pyz" in found


def test_metadata_that_does_not_fit_beside_the_check_is_refused_and_the_most_that_fits_is_taken(google: Google) -> None:
    """Google takes less than 524,288 bytes of all metadata together."""
    most = METADATA_LIMIT - len(script()) - len(agent_archive()) - len(smoke_archive()) - 16_384
    half = most // 2
    first = {"a": "x" * half}
    rest = most - half - 2
    assert (
        google.problems(REGION_TEMPLATE, template(metadata={**first, "b": "ä" * (rest // 2) + "x" * (rest % 2)})) == []
    )
    with pytest.raises(ArgsError) as refused:
        template(metadata={**first, "b": "x" * (rest + 1)})
    [problem] = refused.value.problems
    assert (problem.path, problem.text, problem.hint) == (
        "metadata",
        f"is {most + 1} bytes, but the agent and the check leave {most} bytes",
        "store the largest value in a bucket, and give the name of the object here",
    )
