"""The real engine previews today's program against the state of the staging stack that the last release deployed."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import pytest
from gpu_preview.compare.compare import Request, compare
from gpu_preview.git.repository import Repository

from tests.last_release import ADDED, PAYLOADS, SANDBOX_FILE, STACK_FILE, STATE, migrated
from tests.preview.repository import commit, start

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# What the engine does where a template or a check is replaced, because its payload is another one.
_CHECK = "spec.template.spec"
_RUNNER = "values.template.spec.containers[0]"
FOLLOWS = {
    "a10g-nodes-template": ("update", ["userData"]),
    # The GPU Operator's pods keep off these nodes, and pods may ask the node's cache of names.
    "a10g-nodes-nodes": ("update", ['labels["nvidia.com/gpu.deploy.operands"]', "launchTemplate.version"]),
    "example-ci-runners-dns": ("update", ["spec.egress[0].to[1]"]),
    # Jobs no longer reach ranges that networks may use and no public server has.
    "example-ci-runners-egress": (
        "update",
        [f"spec.egress[0].to[0].ipBlock.except[{at}]" for at in sorted(range(5, 12), key=str)],
    ),
    # The check runs as the runner image's own user, and what waits for GitHub is new.
    "a10g-smoke-job": (
        "replace",
        [
            'spec.template.metadata.annotations["gpu-ci-proves"]',
            f"{_CHECK}.containers[0].env[0].name",
            f"{_CHECK}.containers[0].env[0].value",
            *(f"{_CHECK}.containers[0].env[{at}]" for at in (1, 2, 3)),
            f'{_CHECK}.containers[0].resources.requests["ephemeral-storage"]',
            f"{_CHECK}.containers[0].securityContext.readOnlyRootFilesystem",
            # It also tries the API server, which network policies should block.
            *(f"{_CHECK}.containers[1].command[{at}]" for at in (8, 9)),
            f'{_CHECK}.nodeSelector["eks.amazonaws.com/nodegroup"]',
            f"{_CHECK}.securityContext.runAsGroup",
            f"{_CHECK}.securityContext.runAsUser",
            f"{_CHECK}.volumes[0].configMap.name",
        ],
    ),
    "a10g-runners-release": (
        "update",
        [f"{_RUNNER}.env[0]", f"{_RUNNER}.lifecycle", f'{_RUNNER}.resources.requests["ephemeral-storage"]'],
    ),
    "l4-gate": ("replace", ["template"]),
    "l4-group": ("update", ["versions[0].instanceTemplate"]),
    "t4-gate": ("replace", ["template"]),
    "t4-group": ("update", ["versions[0].instanceTemplate"]),
}


def test_nothing_changes_but_what_machines_run_and_what_follows_from_it(tmp_path: Path) -> None:
    folder = start(tmp_path / "repository")
    shutil.copy(SANDBOX_FILE, folder)
    (folder / STACK_FILE.name).write_text(migrated(STACK_FILE.read_text()))
    commit(folder, "the stack of the last release")
    state = tmp_path / "state.json"
    state.write_bytes(lzma.decompress(STATE.read_bytes()))
    request = Request(base="main", head="main", stacks=("staging",), states={"staging": state})
    [stack] = compare(request, Repository.find(folder), lambda _: None).stacks
    assert stack.error == ""
    changed = {each.name: (each.operation.value, [one.path for one in each.properties]) for each in stack.changed}
    assert {name: changed.pop(name)[0] for name in ADDED} == dict.fromkeys(ADDED, "create")
    assert changed == FOLLOWS | {name: ("replace", paths) for name, paths in PAYLOADS.items()}
    assert stack.counts.same == 55
    assert stack.counts.moved == 0
