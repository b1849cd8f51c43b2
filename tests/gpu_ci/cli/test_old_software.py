"""Warnings of `gpu-ci check` about old software, and edits of stack files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_ci.cli import edit
from gpu_ci.cli.output import InputError
from gpu_ci.stack.pools import POOLS

from tests.gpu_ci.cli.conftest import STACK, Ask

Write = Callable[..., str]
BRANCH = "      driver: {source: installer, branch: 610}  # keep\n"
A10G = "config:\n  gpu-ci:pools:\n    a10g: {kind: eks-runners, amiType: AMI}\n"


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        (STACK + BRANCH, "the driver branch 610"),
        (STACK + BRANCH.replace("610", "580"), ""),
        (STACK + BRANCH.replace("610", "999"), ""),
        (STACK + "      driver: text\n", ""),
        (A10G.replace("AMI", "AL2_x86_64_GPU"), "the AMI type AL2_x86_64_GPU"),
        (A10G.replace("AMI", "AL2024"), ""),
    ],
)
def test_old_drivers_and_ami_types_are_warnings(ask: Ask, stack: Write, text: str, subject: str) -> None:
    notes = ask("check", stack(text=text), "--json").json[0]["notes"]
    found = [each for each in notes if each.startswith(("the driver branch", "the AMI type"))]
    assert [each.startswith(subject) for each in found] == [True] * bool(subject)


def test_an_edit_keeps_line_ends_and_refuses_a_value_with_a_new_problem(tmp_path: Path) -> None:
    path, keys = tmp_path / "Pulumi.dev.yaml", (POOLS, "l4", "driver", "branch")
    path.write_bytes((STACK + BRANCH).replace("\n", "\r\n").encode())
    assert list(edit.write(path, {keys: "580"})) == [keys]
    written = path.read_bytes()
    assert written == (STACK + BRANCH.replace("610", "580")).replace("\n", "\r\n").encode()
    with pytest.raises(InputError, match="not changed"):
        edit.write(path, {keys: "lts"})
    assert path.read_bytes() == written
