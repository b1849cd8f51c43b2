"""`gpu-ci images outdated`: states, exit codes, edits of copies, and surprising files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import versions
from gpu_ci.cli.github_app import github_api
from gpu_ci.cli.verify.checklist import NotAskedError

from tests.gpu_ci.cli.conftest import STACK, Ask

Write = Callable[..., str]
OLD_SHA, NEW_SHA = "a" * 64, "b" * 64
IMAGES = "projects/ubuntu-os-accelerator-images/global/images"
OLD_IMAGE = f"{IMAGES}/ubuntu-accelerator-2204-amd64-with-nvidia-535-v20260101"
OLD_RUNNER = f'      runner:\n        version: "2.331.0"  # keep\n        sha256: {{x64: {OLD_SHA}}}\n'
LATEST = {
    "tag_name": "v2.339.0",
    "published_at": "2026-10-20T10:00:00Z",
    "assets": [{"name": "actions-runner-linux-x64-2.339.0.tar.gz", "digest": f"sha256:{NEW_SHA}"}],
}


def states(document: Any) -> dict[str, str]:
    return {pin["what"]: pin["state"] for pin in document[0]["pins"]}


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def answer(status: int, body: Any) -> None:
        monkeypatch.setattr(github_api, "get", lambda *_: (status, body))

    return answer


@pytest.mark.parametrize(
    ("extra", "what", "state", "code"),
    [
        ("", "image", "supported", 0),
        (OLD_RUNNER, "runner", "outdated", 1),
        (f"      image: {OLD_IMAGE}\n", "image", "outdated", 1),
        ("      image: projects/acme/global/images/own\n", "image", "unknown", 0),
        ("      driver: {source: installer, branch: 610}\n", "driver.branch", "outdated", 1),
        ("      driver: {source: installer}\n", "driver.branch", "supported", 0),
        ("      torch: 2.9.1\n", "torch", "behind", 0),
        ("      driver: {source: cos, checkImage: 'nvidia/cuda:12.2.0-base-ubuntu22.04'}\n", "driver.checkImage",
         "outdated", 1),
        ("      driver: {source: cos, checkImage: 'nvidia/cuda:13.0.1-base-ubuntu24.04'}\n", "driver.checkImage",
         "supported", 0),
        # Values that gpu-ci check refuses. This command still reports the rest of the pool.
        ("      runner: {version: newest}\n", "runner", "unknown", 0),
        ("      runner: {version: 2.100.0}\n", "runner", "outdated", 1),
        ("      runner: text\n", "runner", "unknown", 0),
        ("      runner: [1, 2]\n", "runner", "unknown", 0),
        ("      runner: {version: 2}\n", "runner", "unknown", 0),
        ("      driver: {source: installer, branch: lts}\n", "driver.branch", "unknown", 0),
        ("      driver: {source: installer, branch: 999}\n", "driver.branch", "unknown", 0),
        ("      driver: text\n", "image", "supported", 0),
        ("      torch: nightly\n", "torch", "unknown", 0),
        ("      image: [a]\n", "image", "supported", 0),
        ("      driver: {source: cos, checkImage: 'nvidia/cuda'}\n", "driver.checkImage", "unknown", 0),
        ("      driver: {source: cos, checkImage: 'nvidia/cuda:latest'}\n", "driver.checkImage", "unknown", 0),
        ("      driver: {source: cos, checkImage: '@@ @'}\n", "driver.checkImage", "unknown", 0),
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
    text = STACK + OLD_RUNNER + f"      image: '{OLD_IMAGE}'  # driver\n"
    name = stack(text=text)
    assert ask("images", "outdated", name).code == 1
    assert (tmp_path / name).read_text() == text
    assert ask("images", "outdated", name, "--write").code == 0
    expected = text.replace("2.331.0", versions.RUNNER).replace(OLD_SHA, versions.RUNNER_SHA256["x64"])
    assert (tmp_path / name).read_text() == expected.replace(OLD_IMAGE, versions.GCE_IMAGE)
    assert ask("images", "outdated", name).code == 0


def test_write_keeps_line_ends(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_bytes((STACK + OLD_RUNNER).replace("\n", "\r\n").encode())
    assert ask("images", "outdated", "Pulumi.dev.yaml", "--write").code == 0
    written = path.read_bytes()
    assert written.count(b"\r\n") == written.count(b"\n") == (STACK + OLD_RUNNER).count("\n")
    assert f'"{versions.RUNNER}"'.encode() in written


def test_write_leaves_a_value_with_an_anchor(ask: Ask, stack: Write, tmp_path: Path) -> None:
    text = STACK + f"      image: &image {OLD_IMAGE}\n"
    assert ask("images", "outdated", stack(text=text), "--write").code == 1
    assert (tmp_path / "Pulumi.dev.yaml").read_text() == text


def test_online_takes_the_latest_release_and_its_checksums(
    ask: Ask, stack: Write, tmp_path: Path, github: Callable[..., None]
) -> None:
    github(200, LATEST)
    name = stack(text=STACK + OLD_RUNNER)
    answer = ask("images", "outdated", name, "--online", "--write", "--json")
    [runner] = [pin for pin in answer.json[0]["pins"] if pin["what"] == "runner"]
    assert runner["edits"] == {"runner.version": "2.339.0", "runner.sha256.x64": NEW_SHA}
    assert (runner["written"], answer.code) == (True, 0)
    assert (tmp_path / name).read_text() == STACK + OLD_RUNNER.replace("2.331.0", "2.339.0").replace(OLD_SHA, NEW_SHA)


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, LATEST), (200, {}), (200, {"tag_name": "v3"}), (200, {"tag_name": "v2.339.0", "published_at": "soon"})],
)
def test_online_without_a_usable_answer_is_an_error(
    ask: Ask, stack: Write, github: Callable[..., None], status: int, body: Any
) -> None:
    github(status, body)
    answer = ask("images", "outdated", stack(), "--online")
    assert (answer.code, answer.out) == (2, "")
    assert "hint: " in answer.err


def test_online_without_a_network_is_an_error(ask: Ask, stack: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> None:
        raise NotAskedError("https://api.github.com could not be reached")

    monkeypatch.setattr(github_api, "get", fail)
    assert ask("images", "outdated", stack(), "--online").code == 2


def test_without_online_no_request_is_sent(ask: Ask, stack: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github_api, "get", lambda *_: pytest.fail("a request was sent"))
    assert ask("images", "outdated", stack()).code == 0


def test_write_refuses_values_with_which_check_finds_a_new_problem(
    ask: Ask, stack: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "GCE_IMAGE", "projects/acme/no image")
    text = STACK + f"      image: {OLD_IMAGE}\n"
    answer = ask("images", "outdated", stack(text=text), "--write")
    assert (answer.code, (tmp_path / "Pulumi.dev.yaml").read_text()) == (2, text)
    assert "not changed" in answer.err


def test_the_images_of_build_steps_are_pins_and_those_that_a_step_builds_are_not(ask: Ask, stack: Write) -> None:
    build = """\
config:
  gpu-ci:pools:
    builds:
      kind: cloud-build
      triggers:
        main:
          build:
            kind: steps
            steps:
              - {kind: docker, image: kernels}
              - {kind: run, image: "ghcr.io/actions/actions-runner:2.331.0"}
              - {kind: run, image: "python:3.13-slim"}
        file: {build: {kind: file, filename: cloudbuild.yaml}}
        wrong: [{build: 1}]
"""
    answer = ask("images", "outdated", stack(text=build), "--json")
    assert answer.code == 1
    assert states(answer.json) == {
        "triggers.main.build.steps[1].image": "outdated",
        "triggers.main.build.steps[2].image": "unknown",
    }


DOCKERFILE = """\
# syntax=docker/dockerfile:1
ARG BASE=python:3.13-slim
arg RUNNER="ghcr.io/actions/actions-runner:2.331.0"
FROM --platform=linux/amd64 ${BASE} AS build
FROM build
FROM scratch AS files
FROM $RUNNER as runner
COPY --from=build /x /x
FROM $MISSING
"""


@pytest.mark.parametrize("name", ["Dockerfile", "runner.Dockerfile", "Dockerfile.gpu", "Containerfile"])
def test_the_base_images_of_a_dockerfile_are_pins(ask: Ask, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(DOCKERFILE)
    answer = ask("images", "outdated", name, "--json", "--write")
    assert answer.code == 1
    assert [(pin["pool"], pin["what"], pin["in_use"], pin["state"]) for pin in answer.json[0]["pins"]] == [
        ("build", "FROM", "python:3.13-slim", "unknown"),
        ("runner", "FROM", "ghcr.io/actions/actions-runner:2.331.0", "outdated"),
        ("4", "FROM", "$MISSING", "unknown"),
    ]
    assert (tmp_path / name).read_text() == DOCKERFILE


def test_a_dockerfile_that_cannot_be_read_does_not_stop_the_others(ask: Ask, stack: Write, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_bytes(b"FROM \xff\n")
    answer = ask("images", "outdated", "Dockerfile", "no/Dockerfile", stack(), "--json")
    assert (answer.code, [each["file"] for each in answer.json]) == (
        2,
        ["Dockerfile", "no/Dockerfile", "Pulumi.dev.yaml"],
    )
    assert [len(each.get("pins", [])) for each in answer.json] == [0, 0, 3]
