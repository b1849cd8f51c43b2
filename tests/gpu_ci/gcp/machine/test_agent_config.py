"""The configuration of the boot agent: readable, for every machine of the catalog, and below Google's size limit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_agent.config import Config, parse
from gpu_catalog import attachable, attached, machines, n1_shapes
from gpu_ci.gcp.gpu_instance_template import GpuInstanceTemplateArgs
from gpu_ci.gcp.machine import boot
from gpu_ci.gcp.machine.boot import agent_config
from gpu_ci.machines.runner import Registration, RunnerGithub, RunnerSettings

from tests.gpu_ci.gcp.as_pool import SHA256, as_pool
from tests.gpu_ci.gcp.machine.test_boot import PLAIN, args
from tests.gpu_ci.support import WIRING

KEY = "projects/acme-ci/secrets/github-app-key"
GITHUB: dict[str, Any] = {"owner": "acme", "appId": "17", "installationId": 18, "privateKey": KEY, "runnerGroup": "gpu"}


def registration(labels: list[str] | None = None, github: dict[str, Any] | None = None, **runner: Any) -> Registration:
    return Registration(RunnerGithub(**{**GITHUB, **(github or {})}), RunnerSettings(**runner), labels or ["gpu", "l4"])


def told(registered: Registration | None = None, deadline_sec: int = 300, **choices: Any) -> Config:
    """The configuration as the agent reads it."""
    text = agent_config("l4", args(**choices), deadline_sec, registered)
    assert isinstance(text, str)
    return parse(text)


def test_a_fraction_of_a_gpu_is_one_device_of_an_unknown_name() -> None:
    part = {
        "machineType": "g4-standard-6",
        "zones": ["us-central1-b"],
        "driver": {"source": "installer", "sha256": SHA256},
    }
    assert told(**part, image=PLAIN).check_args == [
        "--pool", "l4", "--expect-gpus", "1", "--min-compute-capability", "12.0",
    ]  # fmt: skip


def everything() -> list[Any]:
    own = list(machines(cloud="gcp", n1=False))
    n1 = [attached(n1_shapes()[0].machine_type, name) for name in attachable()]
    return [*own, *n1]


@pytest.mark.parametrize("machine", everything(), ids=lambda machine: str(machine.key))
def test_the_agent_reads_the_configuration_of_every_machine_type(machine: Any) -> None:
    choices = as_pool({"machine": machine})
    if choices is None:
        pytest.skip("a pool has no words for it")
    del choices["max"]
    given = {**WIRING, "service_account_email": "gpu@acme-ci.iam.gserviceaccount.com", **choices}
    text = agent_config("pool", GpuInstanceTemplateArgs(**given), 1200, registration())
    found = parse(str(text))
    assert found.check_args[:4] == ["--pool", "pool", "--expect-gpus", str(machine.api_gpu_count)]
    assert found.runner is not None
    assert {"x86_64": "x64", "arm64": "arm64"}[machine.architecture] in found.runner.sha256


def test_the_largest_configuration_fits_beside_everything_else_a_machine_boots_with() -> None:
    """Google's limits are on each value and, less than 512 KB, on all of them together."""
    labels = [f"{number:03}{'x' * 97}" for number in range(100)]
    largest = registration(labels, {"owner": "o" * 39, "runnerGroup": "g" * 100, "repository": "r" * 100})
    found = boot.metadata("p" * 40, args(), 300, largest)
    sizes = {key: len(str(value).encode()) for key, value in found.items()}
    assert max(sizes.values()) < boot.METADATA_VALUE_LIMIT
    assert sizes["gpu-agent-config"] < boot._SMALL_ENTRIES - 2048
    assert sum(len(key) + size for key, size in sizes.items()) < boot.METADATA_LIMIT - boot.METADATA_VALUE_LIMIT / 4


def test_the_configuration_has_no_secret_value() -> None:
    text = str(agent_config("l4", args(), 300, registration()))
    assert json.loads(text)["github"]["private_key"] == KEY
    assert "PRIVATE KEY-----" not in text
