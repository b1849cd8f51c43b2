"""The real engine previews today's program against the state of the staging stack that the last release deployed."""

from __future__ import annotations

import json
import lzma
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.engine import digest
from gpu_preview.model import Operation
from pulumi_sandbox.stacks import SALT

from tests.last_release import ADDED, PAYLOADS, REMOVED, SANDBOX_FILE, STACK_FILE, STATE
from tests.preview.repository import start
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# What the engine does where a template or a check is replaced, because its payload is another one.
_GATE = ("replace", ["template"])
_GROUP = ("update", ["versions[0].instanceTemplate"])
_REAPER = ("update", ["build.steps[0].args[2]", "build.steps[1].name", "build.steps[2].name"])
_JOB = (
    "replace",
    [
        'spec.template.metadata.annotations["gpu-ci-proves"]',
        "spec.template.spec.tolerations[1]",
        "spec.template.spec.volumes[0].configMap.name",
    ],
)
FOLLOWS = {
    "a10g-smoke-job": _JOB,
    "gpu-tests-builds": ("update", ["lifecycleRules[0].condition.matchesPrefixes[3]"]),
    "gpu-tests-ended-trigger": _REAPER,
    "gpu-tests-gate": _GATE,
    "gpu-tests-machine-reader": ("replace", ["condition.expression", "condition.title"]),
    "gpu-tests-machines": ("replace", ["condition"]),
    "gpu-tests-machines-role": ("update", ["permissions"]),
    "gpu-tests-reader": ("replace", ["condition"]),
    "gpu-tests-reaper-trigger": _REAPER,
    "gpu-tests-settings": ("update", ["source"]),
    "gpu-tests-writer": ("replace", ["condition.expression", "condition.title"]),
    **{f"{name}-release": ("update", ["chart"]) for name in ("example-ci-arc", "gke-ci-arc")},
    "example-ci-plugin-release": ("update", ["values.tolerations[1]"]),
    **{
        f"{name}-release": ("update", ["chart", "values.listenerMetrics"])
        for name in ("a10g-runners", "l4-gke-runners")
    },
    "l4-gate": _GATE,
    "l4-gke-smoke-job": _JOB,
    "l4-group": _GROUP,
    "t4-gate": _GATE,
    "t4-group": _GROUP,
}


def paths(change: Any) -> list[str]:
    """The changed properties. A role's sorted list of permissions is one property."""
    return list(dict.fromkeys(re.sub(r"^permissions\[\d+\]$", "permissions", one.path) for one in change.properties))


def test_nothing_changes_but_what_machines_run_and_what_follows_from_it(tmp_path: Path) -> None:
    folder = start(tmp_path / "repository")
    shutil.copy(SANDBOX_FILE, folder)
    shutil.copy(STACK_FILE, folder)
    state = json.loads(lzma.decompress(STATE.read_bytes()))
    state["deployment"]["secrets_providers"] = {"type": "passphrase", "state": {"salt": SALT}}
    exported = tmp_path / "state.json"
    exported.write_text(json.dumps(state))
    runner = SandboxRunner(folder, tmp_path / "sandbox")
    runner.run("stack", "init", "staging", "--no-select")
    runner.run("stack", "import", "--stack", "staging", "--file", str(exported))
    document = runner.json("preview", "--stack", "staging", "--json", "--show-sames")
    stack = digest.parse(json.dumps(document))
    assert stack.errors == []
    changed = {
        each.name: (each.operation.value, paths(each)) for each in stack.resources if each.operation != Operation.SAME
    }
    assert {name: changed.pop(name)[0] for name in ADDED} == dict.fromkeys(ADDED, "create")
    assert {name: changed.pop(name)[0] for name in REMOVED} == dict.fromkeys(REMOVED, "delete")
    assert changed == FOLLOWS | {name: ("replace", fields) for name, fields in PAYLOADS.items()}
    assert stack.counts.same == 94
    assert stack.counts.moved == 0
