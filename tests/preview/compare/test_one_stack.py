"""Tests of errors in the comparison of one stack."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gpu_preview.compare.compare import Comparison, Request
from gpu_preview.isolation.limits import Finished
from gpu_preview.model import Stack, Status


def side(tmp_path: Path, stacks: list[str], **more: Any) -> Any:
    return SimpleNamespace(
        root=tmp_path,
        files={name: tmp_path / f"Pulumi.{name}.yaml" for name in stacks},
        file=lambda name: f"Pulumi.{name}.yaml",
        context=SimpleNamespace(say=lambda _: None),
        **more,
    )


def compared(before: Any, after: Any, policies: Any = None, **more: Any) -> Comparison:
    return Comparison(Request(base="main"), before, after, policies, cast(Any, None), **more)


def test_a_fault_of_ours_is_reported_in_the_report_and_the_next_stack_is_compared(tmp_path: Path) -> None:
    def breaks(name: str) -> None:
        raise RecursionError(f"too deep in {name}\x1b[2J")

    head = side(tmp_path, ["dev", "prod"], set_placeholders=breaks)
    comparison = compared(side(tmp_path, ["dev"]), head, base_failed={"prod": "the base is broken"})
    found = [comparison.stack(name) for name in ("dev", "prod")]
    assert [(each.status, each.error) for each in found] == [
        (Status.FAILED, "the report on this stack failed, which is a bug in gpu-ci: RecursionError: too deep in dev"),
        (Status.BASE_FAILED, "the base is broken"),
    ]


def test_a_head_that_cannot_run_is_reported_of_each_stack_that_it_has(tmp_path: Path) -> None:
    before = side(tmp_path, ["dev", "old"], exported=lambda _: "")
    after = side(tmp_path, ["dev"])
    comparison = compared(before, after, head_failed="its packages cannot be installed")
    assert [(comparison.stack(name).status, comparison.stack(name).error) for name in ("dev", "old")] == [
        (Status.FAILED, "its packages cannot be installed"),
        (Status.REMOVED, ""),
    ]


def previewed(tmp_path: Path, code: int = 0) -> Stack:
    """Return the report on a new stack whose preview exits with this code and without an error message."""
    out, error, events = (tmp_path / name for name in ("out", "error", "events"))
    out.write_text('{"steps": []}')
    error.write_text("it ended in the middle\n")
    events.touch()
    head = side(
        tmp_path,
        ["dev"],
        project=tmp_path,
        set_placeholders=lambda _: None,
        preview=lambda *_: (Finished(code, out, error, 1.0), events),
    )
    selection = SimpleNamespace(options=(), sentence=lambda asked: asked)
    return compared(side(tmp_path, []), head, policies=selection).stack("dev")


def test_a_preview_that_fails_without_an_error_in_its_digest_is_a_failure(tmp_path: Path) -> None:
    assert (previewed(tmp_path).status, previewed(tmp_path).error) == (Status.NEW, "")
    failed = previewed(tmp_path, code=1)
    assert (failed.status, failed.error) == (Status.FAILED, "it ended in the middle")
