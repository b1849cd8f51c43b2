"""`gpu-ci images candidates` and `promote`, with images in the form of Artifact Registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.images import containers
from gpu_ci.cli.programs import NotAskedError
from pulumi_sandbox.world.store import World

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.image_cloud import IMAGE, ImageCloud

UNKNOWN = "sha256:" + "0" * 64
FILE = f"""\
config:
  gcp:project: acme-ci
  gpu-ci:images:
    runner:
      kind: container
      region: us-central1
      source: {{repository: acme/images}}
      build: {{image: gpu-runner, dockerfile: images/runner/Dockerfile}}
  gpu-ci:pools:
    cos:
      kind: gce-runners
      machineType: g2-standard-8
      zones: [us-central1-a, us-central1-b]
      market: spot
      max: 4
      image: projects/cos-cloud/global/images/family/cos-stable
      driver:
        source: cos
        checkImage: "{IMAGE}@{UNKNOWN}"  # keep
"""


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> Iterator[ImageCloud]:
    world = World(tmp_path / "world.db")
    found = ImageCloud(world)
    monkeypatch.setattr(containers, "connect", found.connect)
    Path("Pulumi.stack.yaml").write_text(FILE)
    yield found
    world.close()


def checks(ask: Ask, *words: str) -> list[tuple[str, str]]:
    [document] = ask("images", "candidates", "Pulumi.stack.yaml", "--json", *words).json
    [pipeline] = document["pipelines"]
    return [(each["name"], each["check"]) for each in pipeline["candidates"]]


def pinned(file: str = "Pulumi.stack.yaml") -> str:
    [line] = [each for each in Path(file).read_text().splitlines() if "checkImage" in each]
    return line.partition("@")[2].partition('"')[0]


def test_a_build_whose_check_passed_is_a_candidate_and_promotion_changes_only_the_digest(
    ask: Ask, cloud: ImageCloud
) -> None:
    digest = cloud.build()
    [document] = ask("images", "candidates", "--json").json
    [pipeline] = document["pipelines"]
    [candidate] = pipeline["candidates"]
    assert candidate["name"] == digest
    assert (candidate["check"], candidate["madeFrom"]) == ("passed", f"commit {'c' * 40}")
    assert (candidate["reference"], candidate["pools"]) == (f"{IMAGE}@{digest}", [])
    answer = ask("images", "promote", "runner")
    assert answer.code == 0
    assert Path("Pulumi.stack.yaml").read_text() == FILE.replace(UNKNOWN, digest)
    again = ask("images", "promote", "--json")
    assert (again.code, again.json["changes"]) == (0, [])
    [document] = ask("images", "candidates", "--json").json
    assert document["pipelines"][0]["candidates"][0]["pools"] == ["Pulumi.stack.yaml: cos.driver.checkImage"]
    assert [row[0:1] + row[3:4] for row in ask("images", "candidates").rows] == [["runner", "passed"]]


def test_a_candidate_that_failed_its_check_is_never_promoted(ask: Ask, cloud: ImageCloud) -> None:
    good, bad = cloud.build(), cloud.build(commit="d" * 40, passes=False)
    assert checks(ask) == [(bad, "missing"), (good, "passed")]
    assert ask("images", "promote").code == 0
    assert pinned() == good


def test_after_a_rollback_a_skipped_candidate_is_not_proposed_again(ask: Ask, cloud: ImageCloud) -> None:
    old, new = cloud.build(), cloud.build(commit="d" * 40)
    file = Path("Pulumi.stack.yaml")
    rolled_back = FILE.replace(UNKNOWN, old)
    file.write_text(rolled_back.replace("dockerfile: images/runner/Dockerfile}", f"}}\n      skip: ['{new}']"))
    before = file.read_text()
    assert ask("images", "promote").code == 0
    assert file.read_text() == before


def test_a_pin_of_another_stack_is_promoted_and_must_be_listed_to_be_kept(ask: Ask, cloud: ImageCloud) -> None:
    other = Path("Pulumi.prod.yaml")
    lines = FILE.splitlines(keepends=True)
    other.write_text("".join([*lines[:2], *lines[8:]]))
    digest = cloud.build()
    answer = ask("images", "promote", "--json")
    assert (answer.code, pinned("Pulumi.prod.yaml"), pinned()) == (0, digest, digest)
    [note] = answer.json["notes"]
    assert f"add {digest} to keepDigests" in note
    listed = FILE.replace("dockerfile: images/runner/Dockerfile}", f"}}\n      keepDigests: ['{digest}']")
    Path("Pulumi.stack.yaml").write_text(listed.replace(UNKNOWN, digest))
    assert ask("images", "promote", "--json").json["notes"] == [
        "runner: no pool names an older image than the newest candidate that passed"
    ]


def test_a_value_with_an_anchor_is_reported_and_left(ask: Ask, cloud: ImageCloud) -> None:
    cloud.build()
    text = FILE.replace("checkImage: ", "checkImage: &image ")
    Path("Pulumi.stack.yaml").write_text(text)
    answer = ask("images", "promote")
    assert (answer.code, Path("Pulumi.stack.yaml").read_text()) == (1, text)
    assert "write it by hand" in answer.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("promote", "runer"), "did you mean runner"),
        (("promote", "runner", "--file", "Pulumi.other.yaml"), "no such file"),
    ],
)
def test_a_wrong_argument_is_one_error_and_changes_nothing(
    ask: Ask, cloud: ImageCloud, words: tuple[str, ...], text: str
) -> None:
    cloud.build()
    answer = ask("images", *words)
    assert (answer.code, Path("Pulumi.stack.yaml").read_text()) == (2, FILE)
    assert text in answer.err


def test_a_pipeline_that_cannot_be_read_does_not_hide_the_others(ask: Ask, cloud: ImageCloud) -> None:
    digest = cloud.build()
    entry = FILE.partition("    runner:\n")[2].partition("  gpu-ci:pools:")[0]
    Path("Pulumi.stack.yaml").write_text(FILE.replace("  gpu-ci:pools:", f"    absent:\n{entry}  gpu-ci:pools:"))
    error = "Pulumi.stack.yaml: gpu-ci:images.absent: Artifact Registry refused to list the images"
    found = ask("images", "candidates")
    assert (found.code, [row[0] for row in found.rows], found.err.count(error)) == (2, ["runner"], 1)
    [document] = ask("images", "candidates", "--json").json
    assert [(each["name"], "error" in each) for each in document["pipelines"]] == [("runner", False), ("absent", True)]
    promoted = ask("images", "promote", "--json")
    assert (promoted.code, len(promoted.json["problems"]), promoted.err.count(error)) == (1, 1, 1)
    assert pinned() == digest


@pytest.mark.parametrize("command", ["candidates", "promote"])
def test_without_credentials_the_command_names_the_login(
    ask: Ask, cloud: ImageCloud, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> Any:
        raise NotAskedError("no credentials", ("gcloud auth application-default login",))

    monkeypatch.setattr(containers, "connect", refused)
    answer = ask("images", command)
    assert (answer.code, "hint: gcloud auth application-default login" in answer.err) == (2, True)
