"""The real engine previews today's program against the state of the staging stack that the last release deployed."""

from __future__ import annotations

import lzma
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.compare.compare import Request, compare
from gpu_preview.git.repository import Repository

from tests.last_release import ADDED, PAYLOADS, REMOVED, SANDBOX_FILE, STACK_FILE, STATE
from tests.preview.repository import commit, start

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# What the engine does where a template or a check is replaced, because its payload is another one.
_GATE = ("replace", ["template"])
_GROUP = ("update", ["versions[0].instanceTemplate"])
_REAPER = ("update", ["build.steps[0].args[2]", "build.steps[1].name", "build.steps[2].name"])
_JOB = (
    "replace",
    ['spec.template.metadata.annotations["gpu-ci-proves"]', "spec.template.spec.volumes[0].configMap.name"],
)
FOLLOWS = {
    "a10g-smoke-job": _JOB,
    "gpu-tests-builds": ("update", ["lifecycleRules[0].condition.matchesPrefixes[3]"]),
    "gpu-tests-ended-trigger": _REAPER,
    "gpu-tests-gate": _GATE,
    # The real provider replaces these three.
    "gpu-tests-machine-reader": ("update", ["condition.expression", "condition.title"]),
    "gpu-tests-machines": ("replace", ["condition"]),
    "gpu-tests-machines-role": ("update", ["permissions"]),
    # The real provider replaces it.
    "gpu-tests-reader": ("update", ["condition"]),
    "gpu-tests-reaper-trigger": _REAPER,
    "gpu-tests-settings": ("update", ["source"]),
    "gpu-tests-writer": ("update", ["condition.expression", "condition.title"]),
    **{
        f"{name}-release": ("update", ["chart"])
        for name in ("a10g-runners", "l4-gke-runners", "example-ci-arc", "gke-ci-arc")
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
    commit(folder, "the stack of the last release")
    state = tmp_path / "state.json"
    state.write_bytes(lzma.decompress(STATE.read_bytes()))
    request = Request(base="main", head="main", stacks=("staging",), states={"staging": state})
    [stack] = compare(request, Repository.find(folder), lambda _: None).stacks
    assert stack.error == ""
    changed = {each.name: (each.operation.value, paths(each)) for each in stack.changed}
    assert {name: changed.pop(name)[0] for name in ADDED} == dict.fromkeys(ADDED, "create")
    assert {name: changed.pop(name)[0] for name in REMOVED} == dict.fromkeys(REMOVED, "delete")
    assert changed == FOLLOWS | {name: ("replace", fields) for name, fields in PAYLOADS.items()}
    assert stack.counts.same == 95
    assert stack.counts.moved == 0
