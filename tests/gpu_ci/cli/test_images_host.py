"""`gpu-ci images candidates` and `promote` with images that the real build made in the sandbox's Compute Engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.cli.images import hosts
from gpu_ci.cli.images.pipelines import pins_of, pipelines
from gpu_ci.cli.stack_files import read

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.gcp.host_image.project import Project, project_in_sandbox, says
from tests.sandbox.providers.gcp.conftest import PROJECT

IMAGES = f"projects/{PROJECT}/global/images"
OLD = f"{IMAGES}/gpu-host-prod-000000000000"
FILE = f"""\
config:
  gcp:project: {PROJECT}
  gpu-ci:site:
    subnetworks: {{us-central1: projects/{PROJECT}/regions/us-central1/subnetworks/ci}}
  gpu-ci:images:
    gpu-host:
      kind: host
      machineType: g2-standard-8
      zones: [us-central1-a, us-central1-b]
  gpu-ci:pools:
    l4:
      kind: gce-runners
      machineType: g2-standard-8
      zones: [us-central1-a]
      image: {OLD}  # a host image
      max: 4
    t4:
      kind: gce-runners
      machineType: n1-standard-8
      guestAccelerator: {{type: nvidia-tesla-t4}}
      zones: [us-central1-a]
      max: 4
"""
STACK = "Pulumi.prod.yaml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> Iterator[Project]:
    Path(STACK).write_text(FILE)
    yield from project_in_sandbox(tmp_path, monkeypatch)


def built(project: Project, number: int, *, passes: bool = True) -> str:
    """Build and check one more image, and return its name."""
    project.templates(says("pass"), says("pass" if passes else "fail"))
    project.settings["made_from"] = {"driver": "image", "runner": f"2.{number}.0", "torch": "2.15.0"}
    before = project.images()
    assert project.run("build") == 0
    assert project.run("check") == (0 if passes else 1)
    [name] = set(project.images()) - set(before)
    return name


@pytest.mark.slow
def test_promotion_writes_the_newest_image_that_passed_and_a_revert_of_the_file_rolls_back(
    project: Project, ask: Ask
) -> None:
    passed, failed = built(project, 1), built(project, 2, passes=False)
    [document] = ask("images", "candidates", STACK, "--json").json
    [pipeline] = document["pipelines"]
    rows = [(each["name"], each["check"], each["madeFrom"]) for each in pipeline["candidates"]]
    assert rows == [
        (failed, "failed", "runner 2.2.0, torch 2.15.0, driver image"),
        (passed, "passed", "runner 2.1.0, torch 2.15.0, driver image"),
    ]
    answer = ask("images", "promote", "gpu-host")
    assert answer.code == 0, answer
    assert Path(STACK).read_text() == FILE.replace(OLD, f"{IMAGES}/{passed}")
    assert ask("images", "promote", "--json").json["changes"] == []
    newest = built(project, 3)
    assert ask("images", "promote").code == 0
    assert Path(STACK).read_text() == FILE.replace(OLD, f"{IMAGES}/{newest}")
    # The revert of the commit, with the bad candidate under `skip`, stays as it is.
    rolled_back = FILE.replace(OLD, f"{IMAGES}/{passed}").replace(
        "kind: host\n", f"kind: host\n      skip: [{newest}]\n"
    )
    Path(STACK).write_text(rolled_back)
    assert ask("images", "promote", "--json").json["changes"] == []
    assert Path(STACK).read_text() == rolled_back


@pytest.mark.parametrize(
    ("image", "owned"),
    [
        (OLD, True),
        (f"https://www.googleapis.com/compute/v1/{OLD}", True),
        (f"{OLD}0", False),
        (OLD.replace(PROJECT, "other"), False),
        (f"{IMAGES}/family/gpu-host-prod", False),
        (f"{IMAGES}/gpu-host-prod-two-000000000000", False),
        (f"{IMAGES}/gpu-host-dev-000000000000", False),
    ],
)
def test_an_image_belongs_to_the_pipeline_by_project_stack_and_hash(project: Project, image: str, owned: bool) -> None:
    [pipeline] = pipelines(read(Path(STACK)))
    assert hosts.owns(pipeline, image) is owned


@pytest.mark.parametrize(
    ("other_project", "keep_images", "kept"),
    [(PROJECT, [], True), ("other", [], False), ("other", [OLD], True)],
)
def test_an_image_of_a_pool_in_another_project_is_kept_only_by_keep_images(
    project: Project, other_project: str, keep_images: list[str], kept: bool
) -> None:
    Path(STACK).write_text(FILE.replace("kind: host\n", f"kind: host\n      keepImages: {keep_images}\n"))
    Path("Pulumi.dev.yaml").write_text(FILE.replace(f"gcp:project: {PROJECT}", f"gcp:project: {other_project}"))
    [pipeline] = pipelines(read(Path(STACK)))
    [own, other] = pins_of(pipeline, [read(Path(STACK)), read(Path("Pulumi.dev.yaml"))])
    hint = f"add {OLD} to keepImages of gpu-ci:images.gpu-host in {STACK}"
    assert hosts.keep_hint(pipeline, own) == ""
    assert hosts.keep_hint(pipeline, other) == ("" if kept else hint)
