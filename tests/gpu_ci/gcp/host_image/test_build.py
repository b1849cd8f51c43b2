"""The build of a host image against the sandbox's Compute Engine API: its machines boot there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from googleapiclient.http import HttpRequest
from gpu_ci.gcp import host_image_pipeline as resources
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.host_image.api import GoogleImages
from gpu_ci.gcp.host_image_pipeline import PROGRAM
from pulumi_sandbox.providers.gcp.compute.vm_store import VirtualMachines

from tests.gpu_ci.gcp.host_image.project import BASE, Project, says
from tests.sandbox.providers.gcp.conftest import PROJECT, TEMPLATE


def test_a_build_and_its_check_make_a_candidate_and_leave_no_machine(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.run("build") == 0
    [(name, result)] = project.images().items()
    assert (name.startswith("gpu-host-prod-"), result) == (True, "")
    assert project.run("check") == 0
    assert project.images() == {name: "passed"}
    assert project.machines() == []
    image = project.api.ok("GET", f"global/images/{name}")
    assert json.loads(image["description"]) == {"base": BASE, "torch": "2.15.0"}
    out = capsys.readouterr().out.splitlines()
    path = f"projects/{PROJECT}/global/images/{name}"
    assert out[0] == f"gpu-ci: building {path}"
    assert out[-1] == f"gpu-ci: candidate: {path} passed its check in us-central1-a: fine"


def test_a_provisioning_that_fails_creates_no_image_and_leaves_no_machine(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.templates(says("fail", "wrong-checksum", "step runner: the archive has another SHA-256"), "exit 1")
    assert project.run("build") == 1
    assert (project.images(), project.machines()) == ({}, [])
    assert capsys.readouterr().err == (
        "gpu-ci: the builder machine failed in us-central1-a: step runner: the archive has another SHA-256\n"
        "  hint: correct runner.sha256 or driver.sha256: the summary names the file and its checksum\n"
    )


def test_an_image_that_fails_its_check_never_becomes_a_candidate(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.templates(says("pass"), says("fail", "check-failed", "GPU 0: wrong numbers"))
    assert (project.run("build"), project.run("check")) == (0, 1)
    [name] = project.images()
    assert project.images() == {name: "failed"}
    assert project.machines() == []
    assert capsys.readouterr().err == (
        f"gpu-ci: projects/{PROJECT}/global/images/{name} is no candidate in us-central1-a: GPU 0: wrong numbers\n"
    )
    # The same image may pass later, because a GPU can be broken, too.
    project.templates(says("pass"), says("pass"))
    assert project.run("check") == 0
    assert project.images() == {name: "passed"}


def test_old_images_are_deleted_but_never_one_that_a_template_or_a_stack_file_names(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(1, 7):
        project.add_image(f"old-{day}", f"2026-01-0{day}T00:00:00Z", "failed" if day == 5 else "passed")
    named = f"projects/{PROJECT}/global/images/old-2"
    disks = [{**TEMPLATE["disks"][0], "sourceImage": named}]
    project.google.make(
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate", "pool", {**TEMPLATE, "disks": disks}
    )
    project.settings["in_use"] = [f"projects/{PROJECT}/global/images/old-1"]
    assert project.run("check") == 0  # the newest image, old-6, has passed
    assert sorted(project.images()) == ["old-1", "old-2", "old-4", "old-6"]
    out = capsys.readouterr().out
    assert f"{named} stays, because a template or the stack file names it" in out


def test_an_image_and_its_machines_have_the_labels_of_the_stack_and_the_features_of_the_disk(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"team": "ml"}
    project.settings |= {"labels": labels, "storage_location": "us-central1"}
    bodies: list[dict[str, Any]] = []
    boot = VirtualMachines.boot

    def recorded(*args: Any) -> Any:
        bodies.append(args[-1]["body"])
        return boot(*args)

    disk = {"boot": True, "guestOsFeatures": [{"type": "GVNIC"}]}
    monkeypatch.setattr(VirtualMachines, "boot", recorded)
    found = GoogleImages.instance
    with_disk = {"disks": [{"source": "scratch"}, disk]}
    monkeypatch.setattr(GoogleImages, "instance", lambda *place: {**found(*place), **with_disk})
    assert (project.run("build"), project.run("check")) == (0, 0)
    assert [{**body["labels"], **labels} for body in bodies] == [body["labels"] for body in bodies]
    [name] = project.images()
    image = project.api.ok("GET", f"global/images/{name}")
    assert image["labels"] == {**labels, "gpu-ci-image": "gpu-host-prod", "gpu-ci-check": "passed"}
    assert image["guestOsFeatures"] == [{"type": "GVNIC"}]
    assert image["storageLocations"] == ["us-central1"]


@pytest.mark.parametrize("call", [1, 2])
def test_a_builder_machine_that_another_account_replaced_makes_no_image(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: int
) -> None:
    """The account of a bridge may create machines. The disk of another machine would become the image of all pools."""
    found, calls = GoogleImages.instance, []

    def instance(*place: Any) -> Any:
        calls.append(place)
        return {**found(*place), **({"id": "9"} if len(calls) == call else {})}

    monkeypatch.setattr(GoogleImages, "instance", instance)
    assert project.run("build") == 1
    assert (project.images(), project.machines()) == ({}, [])
    assert "another machine took the name" in capsys.readouterr().err


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_stopped_build_deletes_its_machine(project: Project, tmp_path: Path) -> None:
    project.templates("exec sleep 300", "exit 1")
    with start(project, tmp_path, "build") as process:
        _until(lambda: len(project.machines()) == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1
    assert (project.machines(), project.images()) == ([], {})


def start(project: Project, folder: Path, step: str) -> subprocess.Popen[str]:
    """Start a step as Cloud Build does: with the files of the archive, and without pydantic and pulumi."""
    for path, text in PROGRAM.files().items():
        file = folder / "workspace" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    blocker = folder / "workspace" / "sitecustomize.py"
    blocker.write_text("import sys\nsys.modules['pydantic'] = sys.modules['pulumi'] = None\n")
    environ = {**os.environ, **project.environ, "PYTHONPATH": str(folder / "workspace")}
    return subprocess.Popen(
        [sys.executable, "-m", "gpu_ci.gcp.host_image", step, "--settings", json.dumps(project.settings)],
        cwd=folder,
        env=environ,
        text=True,
    )


def test_every_call_of_the_build_is_in_the_table_of_its_permissions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: set[str] = set()
    execute = HttpRequest.execute

    def recorded(self: Any, *args: Any, **options: Any) -> Any:
        called.add(str(self.methodId))
        return execute(self, *args, **options)

    monkeypatch.setattr(HttpRequest, "execute", recorded)
    for day in range(1, 5):
        project.add_image(f"old-{day}", f"2026-01-0{day}T00:00:00Z")
    assert (project.run("build"), project.run("check")) == (0, 0)
    # Guest attributes are read only if the verdict is not on the serial port yet.
    assert sorted(called | {"compute.instances.getGuestAttributes"}) == sorted(resources.CALLS)


def test_a_refused_list_of_templates_deletes_nothing_and_fails_the_step(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(1, 5):
        project.add_image(f"old-{day}", f"2026-01-0{day}T00:00:00Z")

    def refused(*_: object) -> None:
        raise ApiError("unreachable", "the list of instance templates lacks regions/us-east1")

    monkeypatch.setattr(GoogleImages, "images_of_templates", refused)
    assert project.run("check") == 1
    assert len(project.images()) == 4
    assert "lacks regions/us-east1" in capsys.readouterr().err
