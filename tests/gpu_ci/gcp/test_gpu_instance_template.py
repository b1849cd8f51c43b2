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
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED, MORE_WIRING, WIRING
from tests.gpu_ci.test_resources import choices
from tests.sandbox.providers.gcp.conftest import Google

GCP = [machine for machine in machines(cloud="gcp") if not machine.legacy]


CHOICES = choices("GpuInstanceTemplate")


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
        for number, each in enumerate(given):
            args = GpuInstanceTemplateArgs(**each, **WIRING, **MORE_WIRING)
            GpuInstanceTemplate(f"gpu-{number}", args)

    rows = {row.name: row.inputs for row in deploy(program, computed=COMPUTED).of("RegionInstanceTemplate")}
    for number, machine in enumerate(chosen):
        yield machine, rows[f"gpu-{number}-template"]


def driver_of(machine: Machine) -> dict[str, Any]:
    if machine.gpu_count < 1:
        return {"driver_source": "installer", "driver_branch": 580}
    return {"driver_source": "accelerator-image"}


@pytest.mark.parametrize("sentence", CHOICES)
def test_the_sandbox_takes_each_choice(google: Google, sentence: str) -> None:
    assert google.problems(REGION_TEMPLATE, template(**CHOICES[sentence])) == []


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
