"""Tests of dangers in two stack files: quotas that are too small, and values that are no longer encrypted."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.model import Place, Severity
from gpu_preview.report.danger_rules import stack_file

FILE = "Pulumi.dev.yaml"
TEXT = """\
config:
  gcp:project: demo
  a:token: {secure: v1:x}
  gpu-ci:quotas:
    us-central1:
      NVIDIA_L4_GPUS: 9
      PREEMPTIBLE_NVIDIA_L4_GPUS: 3
  gpu-ci:pools:
    l4: {kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a], market: spot, max: 2}
"""


def write(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text)
    return path


def test_more_machines_than_the_quota_holds_are_reported_at_the_quota(tmp_path: Path) -> None:
    before, after = write(tmp_path, "a"), write(tmp_path, "b", ("max: 2", "max: 4"))
    [finding] = stack_file.find(before, after, FILE)
    assert finding.text == (
        "PREEMPTIBLE_NVIDIA_L4_GPUS: the stack file grants 3, and the pools need 5 GPUs or more (l4 5)"
    )
    assert (finding.rule, finding.severity, finding.component) == ("beyond-quota", Severity.DANGER, "l4")
    assert finding.place == Place(file=FILE, line=7, end_line=7)
    assert "project=demo" in finding.hint
    assert stack_file.find(None, after, FILE) == [finding]


def test_a_shortage_that_did_not_grow_is_not_reported_again(tmp_path: Path) -> None:
    before = write(tmp_path, "a", ("max: 2", "max: 4"))
    assert stack_file.find(before, before, FILE) == []
    assert stack_file.find(before, write(tmp_path, "b", ("max: 2", "max: 3")), FILE) == []
    worse = write(tmp_path, "c", ("max: 2", "max: 4"), ("GPUS: 3", "GPUS: 2"))
    assert [each.rule for each in stack_file.find(before, worse, FILE)] == ["beyond-quota"]


@pytest.mark.parametrize("value", ["hunter2", "{b: hunter2}"])
def test_a_value_that_was_encrypted_and_is_plain_text_is_reported_without_it(tmp_path: Path, value: str) -> None:
    before, after = write(tmp_path, "a"), write(tmp_path, "b", ("{secure: v1:x}", value))
    [finding] = stack_file.find(before, after, FILE)
    assert finding.text == "Pulumi.dev.yaml: a:token was encrypted and is plain text now"
    assert finding.place == Place(file=FILE, line=3, end_line=3)
    assert "hunter2" not in finding.model_dump_json()
    assert stack_file.find(after, after, FILE) == stack_file.find(after, before, FILE) == []


def test_a_file_that_cannot_be_read_has_no_dangers(tmp_path: Path) -> None:
    good, broken = write(tmp_path, "a"), tmp_path / "b"
    broken.write_text("config: [")
    assert stack_file.find(good, broken, FILE) == []
    assert stack_file.find(broken, good, FILE) == []
    assert stack_file.find(good, tmp_path / "none", FILE) == []
    assert stack_file.find(good, None, FILE) == []
    broken.write_text("config: {gpu-ci:pools: {l4: {kind: x}}}")
    assert stack_file.find(good, broken, FILE) == []
