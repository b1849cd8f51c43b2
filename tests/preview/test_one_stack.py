"""The comparison of one stack, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gpu_preview.one_stack import Comparison
from gpu_preview.report import Status


def side(tmp_path: Path, stacks: list[str], **more: Any) -> Any:
    return SimpleNamespace(
        files={name: tmp_path / f"Pulumi.{name}.yaml" for name in stacks},
        file=lambda name: f"Pulumi.{name}.yaml",
        **more,
    )


def test_a_fault_of_ours_is_told_in_the_report_and_the_next_stack_is_compared(tmp_path: Path) -> None:
    def breaks(name: str) -> None:
        raise RecursionError(f"too deep in {name}\x1b[2J")

    head = side(tmp_path, ["dev", "prod"], open_secrets=breaks)
    comparison = Comparison(side(tmp_path, ["dev"]), head, [], cast(Any, print), {"prod": "the base is broken"})
    found = [comparison.stack(name) for name in ("dev", "prod")]
    assert [(each.status, each.error) for each in found] == [
        (Status.FAILED, "the report on it broke off, which is a fault of gpu-ci's: RecursionError: too deep in dev"),
        (Status.BASE_FAILED, "the base is broken"),
    ]


def test_a_head_that_cannot_run_is_told_of_each_stack_that_it_has(tmp_path: Path) -> None:
    before = side(tmp_path, ["dev", "old"], exported=lambda _: "")
    after = side(tmp_path, ["dev"])
    comparison = Comparison(before, after, [], cast(Any, print), head_failed="its packages cannot be installed")
    assert [(comparison.stack(name).status, comparison.stack(name).error) for name in ("dev", "old")] == [
        (Status.FAILED, "its packages cannot be installed"),
        (Status.REMOVED, ""),
    ]
