"""The output of the real CLI for a mistake in a stack file."""

from __future__ import annotations

import pytest
import yaml

from tests.gpu_ci.program.stack import config, config_of
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

STACK = "pulumi:pulumi:Stack"
UP = ("up", "--stack", "staging", "--yes", "--skip-preview")


def written(sandbox: SandboxRunner, document: dict[str, object]) -> str:
    """A stack file with this config."""
    sandbox.folder.mkdir(parents=True, exist_ok=True)
    file = sandbox.folder / "Pulumi.staging.yaml"
    file.write_text(yaml.safe_dump({"config": document}))
    return str(file)


@pytest.mark.slow
def test_of_a_stack_with_a_mistake_nothing_is_created(sandbox: SandboxRunner) -> None:
    sandbox.run(*UP, "--config-file", written(sandbox, config({"l4": {"kind": "gce-runners"}})), ok=False)
    assert sandbox.world() == []
    assert [resource["type"] for resource in sandbox.state("staging")] in ([], [STACK])


@pytest.mark.slow
def test_an_encrypted_value_is_refused_and_never_shown(sandbox: SandboxRunner) -> None:
    file = written(sandbox, config_of("Pulumi.staging.yaml"))
    path = ("--path", "gpu-ci:pools.l4.machineType", "hunter2")
    sandbox.run("config", "set", "--stack", "staging", "--config-file", file, "--secret", *path)
    failed = sandbox.run("preview", "--stack", "staging", "--config-file", file, ok=False)
    assert failed.has("gpu-ci:pools: is a secret, but resources and stack outputs show it in plain text")
    assert "hunter2" not in failed.output
