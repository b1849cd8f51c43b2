"""Tests of reading an untrusted Pulumi.yaml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_preview import pulumi_files
from gpu_preview.errors import PreviewError
from gpu_preview.git import repository
from gpu_preview.report.analysis import cost
from gpu_preview.report.danger_rules import secrecy

POOLS = (
    "gpu-ci:pools: {l4: {kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a], market: spot, max: 2}}"
)


def project(folder: Path, more: str = "", name: str = "shop") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pulumi.yaml").write_text(f"name: {name}\nruntime: python\n{more}")
    return folder


@pytest.mark.parametrize("key", ["stackConfigDir", "config"])
def test_stack_files_are_where_the_project_says(tmp_path: Path, key: str) -> None:
    folder = project(tmp_path, f"{key}: conf/all\n")
    (folder / "conf" / "all").mkdir(parents=True)
    (folder / "Pulumi.dev.yaml").touch()
    (folder / "conf" / "all" / "Pulumi.prod.yaml").touch()
    assert repository.stack_files(folder) == {"prod": folder / "conf" / "all" / "Pulumi.prod.yaml"}


@pytest.mark.parametrize(
    "expected", ["..", "/etc", "conf/../..", "linked", "linked/deeper", "loop", "loop/a", "a" * 300]
)
def test_a_folder_outside_of_the_project_is_refused(tmp_path: Path, expected: str) -> None:
    (tmp_path / "outside" / "deeper").mkdir(parents=True)
    folder = project(tmp_path / "in", f"stackConfigDir: {expected}\n")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to("loop")
    with pytest.raises(PreviewError, match=r"stackConfigDir of Pulumi\.yaml is not a folder in the project"):
        repository.stack_files(folder)


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "stackConfigDir: [a]\n",
        'stackConfigDir: "a\\0b"\n',
        'stackConfigDir: "\\ud800"\n',
        "config: {a: b}\n",
        "3",
        "",
        "a: &a [*a]\n",
    ],
)
def test_without_an_option_the_stack_files_are_next_to_the_project_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(text)
    (tmp_path / "Pulumi.dev.yaml").touch()
    assert list(repository.stack_files(tmp_path)) == ["dev"]


def test_a_project_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    project(tmp_path / "other", "stackConfigDir: conf\n")
    (tmp_path / "Pulumi.yaml").symlink_to(tmp_path / "other" / "Pulumi.yaml")
    assert pulumi_files.settings(tmp_path) == {}


def test_pools_that_move_into_the_project_leave_the_cost_unknown_and_not_at_nothing(tmp_path: Path) -> None:
    before, after = (
        project(tmp_path / "a"),
        project(tmp_path / "b", f"config: {{{POOLS.replace(': {l4', ': {value: {l4')}}}}}\n"),
    )
    for folder, text in (
        (before, f"config:\n  gcp:project: acme-ci\n  {POOLS}\n"),
        (after, "config:\n  gcp:project: p\n"),
    ):
        (folder / "Pulumi.dev.yaml").write_text(text)
    found, [finding] = cost(before / "Pulumi.dev.yaml", after / "Pulumi.dev.yaml")
    assert found is None
    assert finding.text == "the cost is not known: the pools in the stack file of the head cannot be read"


def test_a_secret_that_moves_into_the_project_in_plain_text_is_reported(tmp_path: Path) -> None:
    before, after = project(tmp_path / "a"), project(tmp_path / "b", "config: {token: hunter2}\n")
    (before / "Pulumi.dev.yaml").write_text("config: {shop:token: {secure: v1:abc}}\n")
    (after / "Pulumi.dev.yaml").write_text("config: {}\n")
    [finding] = secrecy.in_stack_files(before / "Pulumi.dev.yaml", after / "Pulumi.dev.yaml", "")
    assert finding.rule == "secret-exposed"
    assert "hunter2" not in finding.model_dump_json()


def test_a_projects_file_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Pulumi.yaml")
    assert pulumi_files.project_name(tmp_path) == ""


@pytest.mark.parametrize(
    ("runtime", "options"),
    [
        ("python", {"toolchain": "pip"}),
        ("{name: python}", {"toolchain": "pip"}),
        ("{name: python, options: {toolchain: uv, typechecker: mypy}}", {"toolchain": "pip", "typechecker": "mypy"}),
        ("{name: python, options: 3}", {"toolchain": "pip"}),
    ],
)
def test_options_of_the_runtime_are_set_and_the_rest_of_the_file_stays(
    tmp_path: Path, runtime: str, options: dict[str, str]
) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"name: shop\nruntime: {runtime}\nmain: code\n")
    pulumi_files.set_runtime_options(tmp_path, toolchain="pip")
    assert pulumi_files.settings(tmp_path) == {
        "name": "shop", "runtime": {"name": "python", "options": options}, "main": "code"
    }  # fmt: skip


def test_a_project_with_another_name_is_another_one(tmp_path: Path) -> None:
    base, head = project(tmp_path / "base"), project(tmp_path / "head", name="store")
    why = pulumi_files.why_not_comparable(base, head)
    assert why.startswith("the head renames the project, so the engine treats its stacks as new ones")
    assert "got: store\n  expected: shop\n" in why
    assert pulumi_files.why_not_comparable(base, project(tmp_path / "head")) == ""
