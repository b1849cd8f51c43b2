"""The output `manager` of a stack: what the runner manager reads as its configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_manager.config import read
from gpu_manager.model import Rung

from tests.infra.stack import L4, config, site, told
from tests.infra.test_github_apps import GROUP, RUNNERS
from tests.infra.test_program import STACK, run

MANAGER = {"id": 37, "installationId": 38, "privateKey": "projects/example-ci/secrets/manager-key"}


def stack(**github: Any) -> dict[str, Any]:
    pools = {"l4": {**L4, "market": "spot", "zones": ["us-central1-a", "us-central1-b"]}}
    owner = {"owner": "acme", "runnerApp": RUNNERS, **github}
    return config(pools, **site(github=owner)) | {"gpu-ci:github": GROUP}


def test_the_output_is_a_configuration_that_the_manager_takes(tmp_path: Path) -> None:
    found = run(stack(managerApp=MANAGER)).outputs[STACK]["manager"]
    file = tmp_path / "manager.json"
    file.write_text(json.dumps(found))
    config = read(file)
    assert (config.name, config.github.owner) == ("stack", "acme")
    assert (config.github.app_id, config.github.installation_id) == (37, 38)
    [pool] = [each.plain() for each in config.pools]
    assert (pool.name, pool.max, pool.labels) == ("l4", 4, frozenset({"self-hosted", "gpu", "l4"}))
    assert [(rung.zone, rung.machine_type, rung.market, rung.gpu) for rung in pool.rungs] == [
        ("us-central1-a", "g2-standard-8", "spot", "nvidia-l4"),
        ("us-central1-b", "g2-standard-8", "spot", "nvidia-l4"),
    ]
    assert all(isinstance(rung, Rung) and (rung.usd_per_hour or 0) > 0 for rung in pool.rungs)
    assert pool.boot_sec == 1200 + 300
    assert pool.template


def test_a_stack_without_the_managers_app_has_no_such_output() -> None:
    assert "manager" not in run(stack()).outputs[STACK]


def test_the_managers_app_is_none_of_the_others() -> None:
    assert told(stack(managerApp={**MANAGER, "id": 27})) == (
        "Pulumi.staging.yaml: gpu-ci:site.github.managerApp.id: is the App of runnerApp too\n"
        "  got: a value that is not shown, as it may be a secret\n"
        "  expected: a GitHub App of its own, with a key of its own\n"
        "  hint: make another GitHub App (docs/github.md, Apps and their permissions)"
    )


def test_no_machine_may_read_the_managers_key() -> None:
    found = run(stack(managerApp=MANAGER))
    assert [row.inputs["secretId"] for row in found.of(":SecretIamMember")] == [RUNNERS["privateKey"]]
