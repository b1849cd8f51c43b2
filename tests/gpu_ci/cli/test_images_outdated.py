"""`gpu-ci images outdated`: states, exit codes, edits of copies, and surprising files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import versions

from tests.gpu_ci.cli.conftest import STACK, Ask

Write = Callable[..., str]
IMAGES = "projects/ubuntu-os-accelerator-images/global/images"
OLD_IMAGE = f"{IMAGES}/ubuntu-accelerator-2204-amd64-with-nvidia-535-v20260101"
OLD_BRANCH = "      driver: {source: installer, branch: 610}  # keep\n"


def states(document: Any) -> dict[str, str]:
    return {pin["what"]: pin["state"] for pin in document[0]["pins"]}


@pytest.mark.parametrize(
    ("extra", "what", "state", "code"),
    [
        ("", "image", "supported", 0),
        (f"      image: {OLD_IMAGE}\n", "image", "outdated", 1),
        ("      image: projects/acme/global/images/own\n", "image", "unknown", 0),
        (OLD_BRANCH, "driver.branch", "outdated", 1),
        ("      driver: {source: installer}\n", "driver.branch", "supported", 0),
        # Values that gpu-ci check refuses. This command still reports the rest of the pool.
        ("      runner: {version: 2.100.0}\n", "image", "supported", 0),
        ("      runner: text\n", "image", "supported", 0),
        ("      driver: {source: installer, branch: lts}\n", "driver.branch", "unknown", 0),
        ("      driver: {source: installer, branch: 999}\n", "driver.branch", "unknown", 0),
        ("      driver: text\n", "image", "supported", 0),
        ("      image: [a]\n", "image", "supported", 0),
    ],
)  # fmt: skip
def test_each_pin_has_its_state(ask: Ask, stack: Write, extra: str, what: str, state: str, code: int) -> None:
    answer = ask("images", "outdated", stack(text=STACK + extra), "--json")
    assert (states(answer.json)[what], answer.code) == (state, code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("config: {}\n", 0),
        ("config: {'gpu-ci:pools': [1]}\n", 0),
        ("config: {'gpu-ci:pools': {l4: text, 5: {kind: 7}}}\n", 0),
        ("a: [\n", 1),
        ("- a\n", 2),
        ("config: {'gpu-ci:pools': {secure: abc}}\n", 0),
    ],
)
def test_a_file_without_pools_has_no_pins_and_an_invalid_file_is_an_error(
    ask: Ask, stack: Write, text: str, code: int
) -> None:
    answer = ask("images", "outdated", stack(text=text), "--json")
    assert (answer.code, answer.json[0].get("pins", [])) == (code, [])


def test_write_replaces_only_the_values_and_a_second_call_finds_nothing(ask: Ask, stack: Write, tmp_path: Path) -> None:
    pool = STACK.partition("gpu-ci:pools:\n")[2].replace("l4:", "second:")
    text = STACK + OLD_BRANCH + pool + f"      image: '{OLD_IMAGE}'  # driver\n"
    name = stack(text=text)
    assert ask("images", "outdated", name).code == 1
    assert (tmp_path / name).read_text() == text
    assert ask("images", "outdated", name, "--write").code == 0
    expected = text.replace("610", "580").replace(OLD_IMAGE, versions.GCE_IMAGE)
    assert (tmp_path / name).read_text() == expected
    assert ask("images", "outdated", name).code == 0


def test_write_keeps_line_ends(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_bytes((STACK + OLD_BRANCH).replace("\n", "\r\n").encode())
    assert ask("images", "outdated", "Pulumi.dev.yaml", "--write").code == 0
    written = path.read_bytes()
    assert written.count(b"\r\n") == written.count(b"\n") == (STACK + OLD_BRANCH).count("\n")
    assert b"branch: 580}" in written


def test_write_refuses_values_with_which_check_finds_a_new_problem(
    ask: Ask, stack: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "GCE_IMAGE", "projects/acme/no image")
    text = STACK + f"      image: {OLD_IMAGE}\n"
    answer = ask("images", "outdated", stack(text=text), "--write")
    assert (answer.code, (tmp_path / "Pulumi.dev.yaml").read_text()) == (2, text)
    assert "not changed" in answer.err


@pytest.mark.parametrize(
    ("ami_type", "state", "new"),
    [
        ("AL2_x86_64_GPU", "outdated", "AL2023_x86_64_NVIDIA"),
        ("AL2023_x86_64_NVIDIA", "supported", ""),
        ("AL2024", "unknown", ""),
    ],
)
def test_an_ami_type_without_new_images_is_replaced(
    ask: Ask, stack: Write, ami_type: str, state: str, new: str
) -> None:
    text = f"config:\n  gpu-ci:pools:\n    a10g: {{kind: eks-runners, amiType: {ami_type}}}\n"
    [pin] = ask("images", "outdated", stack(text=text), "--json").json[0]["pins"]
    assert (pin["what"], pin["state"], pin["new"]) == ("amiType", state, new)


def test_the_text_names_the_finding_its_source_and_the_new_value(ask: Ask, stack: Write) -> None:
    answer = ask("images", "outdated", stack(text=STACK + f"      image: {OLD_IMAGE}\n"), "--write")
    lines = answer.out.splitlines()
    assert answer.rows[0][:2] == ["l4", "image"]
    [finding] = [line for line in lines if line.startswith("l4: image ")]
    assert "; hint: " in finding
    assert "; source: " in finding
    assert lines[-1] == f"Pulumi.dev.yaml: l4.image is now {versions.GCE_IMAGE}"
