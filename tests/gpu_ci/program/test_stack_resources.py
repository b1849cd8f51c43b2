"""The resources and outputs of whole stacks, and what each choice in the stack file or of a cluster changes in them.

A file of `stacks/` has the config of a stack, what the look-up of its GKE cluster finds, and choices of both: of the
config as a JSON merge patch (RFC 7396).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gpu_ci.program.test_program import ALL_CALLS, GET_CLUSTER, gke_cluster, run
from tests.gpu_ci.support import patched
from tests.gpu_ci.test_resources import lines, with_choices

STACKS = sorted((Path(__file__).parent / "stacks").glob("*.yaml"))
PROJECT = {"gcp:organizations/getProject:getProject": lambda _: {"number": "123456789012"}}


@pytest.mark.usefixtures("short_definitions")
@pytest.mark.parametrize("file", STACKS, ids=[file.stem for file in STACKS])
def test_a_stack_has_these_resources_and_outputs(file: Path, golden: Callable[[str, str], None]) -> None:
    stack = yaml.safe_load(file.read_text())

    def deployed(changes: dict[str, Any]) -> list[str]:
        found = stack.get("cluster", {}) | changes.get("cluster", {})
        calls = {**ALL_CALLS, **PROJECT, GET_CLUSTER: lambda asked: gke_cluster(asked, **found)}
        return lines(run(patched(stack["config"], changes.get("config", {})), calls=calls))

    golden(f"stacks/{file.stem}.txt", with_choices(deployed, stack["choices"]))
