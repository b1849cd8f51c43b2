"""The resources and the build of a pipeline for host images, and the mistakes in its fields in a stack file."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import versions
from gpu_ci.gcp import host_image_pipeline as resources
from gpu_ci.gcp.host_image.build import parse
from gpu_ci.gcp.host_image_pipeline import HostImagePipeline, HostImagePipelineArgs
from gpu_ci.stack.parse import Stack
from gpu_common import google_permissions

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

ROOT = Path(__file__).resolve().parents[3]

PROJECT = "example-ci"
WIRING = {"project": PROJECT, "subnetwork": "projects/example-ci/regions/us-central1/subnetworks/ci"}
EXAMPLE = HostImagePipeline.EXAMPLE
RECORDED = {**COMPUTED, "gcp:serviceaccount/account:Account": {"email": "one@p.iam.gserviceaccount.com", "name": "one"}}
MEMBER = "serviceAccount:one@p.iam.gserviceaccount.com"


def args(**changes: Any) -> HostImagePipelineArgs:
    return HostImagePipelineArgs(**{**EXAMPLE, **WIRING, **changes})


def build(**changes: Any) -> Deployment:
    return deploy(lambda: HostImagePipeline("gpu-host", args(**changes)), computed=RECORDED)


def settings_of(deployment: Deployment) -> Any:
    """The settings that the two steps of the program get, which are equal."""
    _, first, second = deployment.one(":Trigger").inputs["build"]["steps"]
    assert first["args"][-1] == second["args"][-1]
    return json.loads(first["args"][-1])


def test_builds_may_make_the_calls_of_the_program_write_logs_and_read_their_source() -> None:
    deployment = build()
    permissions = [each for row in deployment.of(":IAMCustomRole") for each in row.inputs["permissions"]]
    assert sorted(permissions) == google_permissions.of_calls(resources.CALLS)
    assert not [each for each in permissions if "setIamPolicy" in each or "actAs" in each]
    granted = [row.inputs["role"] for row in deployment.of(":IAMMember") if row.inputs["role"].startswith("roles/")]
    assert granted == ["roles/logging.logWriter"]
    reader = deployment.one(":BucketIAMMember").inputs
    assert (reader["role"], reader["member"]) == ("roles/storage.objectViewer", MEMBER)
    assert {row.inputs["member"] for row in deployment.of(":IAMMember")} == {MEMBER}
    # A message can start a build as soon as the trigger exists.
    trigger = deployment.one(":Trigger")
    assert trigger.inputs["serviceAccount"] == "one"
    waits_for = {urn.rpartition("::")[2] for urn in trigger.request.dependencies}
    assert {"gpu-host-machines", "gpu-host-project", "gpu-host-log-writer", "gpu-host-source-reader"} <= waits_for


def test_the_program_reads_the_settings_of_its_steps() -> None:
    pinned = ["projects/example-ci/global/images/one"]
    found = parse(json.dumps(settings_of(build(pinned=pinned, keepImages=["projects/b/global/images/two"]))))
    assert found.pipeline == "gpu-host-stack"
    assert (found.keep, found.refresh_days) == (3, 7)
    assert found.in_use == ["projects/b/global/images/two", *pinned]
    assert (found.builder.deadline_sec, found.check.deadline_sec) == (3600, 1200)
    assert found.storage_location == "us-central1"
    script, lock = (
        hashlib.sha256(text.encode()).hexdigest()[:12]
        for text in (resources.script(), (ROOT / "agent/gpu_agent/torch.lock").read_text())
    )
    assert found.made_from == {
        "base": versions.GCE_IMAGE,
        "driver": "image",
        "runner": versions.RUNNER,
        "architecture": "x64",
        "torch": versions.TORCH,
        "docker": "rootless",
        "script": script,
        "lock": lock,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"torch": "2.14.1"},
        {"image": "projects/deeplearning-platform-release/global/images/common-cu129-ubuntu-2404-nvidia-580-v1"},
        {"runner": {"docker": "none"}},
    ],
)
def test_another_input_gives_another_name(changes: dict[str, Any]) -> None:
    day, same = 86_400.0, parse(json.dumps(settings_of(build())))
    assert parse(json.dumps(settings_of(build(**changes)))).image_name(day) != same.image_name(day)
    assert same.image_name(day) == same.image_name(6 * day)
    assert same.image_name(day) != same.image_name(7 * day)
    assert len(same.image_name(day)) <= 63


def test_the_archive_of_the_program_has_no_other_imports_than_its_libraries() -> None:
    text = "\n".join(resources.PROGRAM.files().values())
    assert "import pulumi\n" not in text
    assert "gpu_ci/gcp/host_image_pipeline.py" not in resources.PROGRAM.files()


SHORT = {"kind": "host", **EXAMPLE}
COS = {"source": "cos", "checkImage": f"registry.example/torch@sha256:{'a' * 64}"}
WEEKLY = "such as 0 4 * * 1, which is Monday"
WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    ({"schedule": "weekly"}, ".schedule", "is not a schedule of Cloud Scheduler", WEEKLY),
    ({"pinned": []}, ".pinned", "is set by gpu-ci, not in a stack file", "remove it"),
    (
        {"driver": COS, "image": "projects/cos-cloud/global/images/family/cos-stable"},
        ".driver",
        "installs its driver at every boot, so an image cannot contain the driver",
        "remove driver, to use Google's image with a driver as the base image",
    ),
    ({"driver": {"source": "installer", "sha256": "e" * 64}}, ".image", "the default image contains a driver", ""),
    (
        {"runner": {"docker": "rootful"}},
        ".runner",
        "has docker: rootful, for which gpu-ci has no packages in host images",
        "use docker: rootless",
    ),
]


@pytest.mark.parametrize(("changes", "path", "text", "hint"), WRONG)
def test_a_mistake_is_one_problem_with_one_hint(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    choices = {key: value for key, value in {**copy.deepcopy(SHORT), **changes}.items() if value is not None}
    problems = Stack("", "dev", {"gpu-ci:images": {"gpu-host": choices}}).problems_of_pipelines
    assert [each.path for each in problems] == [f"gpu-ci:images.gpu-host{path}"]
    [problem] = problems
    assert problem.text.startswith(text), problem
    assert problem.hint, problem
    assert problem.hint.startswith(hint), problem


def test_the_example_and_an_installed_driver_are_valid() -> None:
    base = "projects/debian-cloud/global/images/family/debian-12"
    installed = {**SHORT, "image": base, "driver": {"source": "installer", "branch": 595, "sha256": "e" * 64}}
    assert Stack("", "dev", {"gpu-ci:images": {"one": SHORT, "two": installed}}).problems_of_pipelines == []
