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
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
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


def test_a_pipeline_makes_these_resources_and_no_others() -> None:
    # Pulumi registers resources that wait for others in any order.
    assert {(row.name, row.type) for row in build().rows} == {
        ("gpu-host", "gpu-ci:gcp:HostImagePipeline"),
        ("gpu-host-account", "gcp:serviceaccount/account:Account"),
        ("gpu-host-source", "gcp:storage/bucket:Bucket"),
        ("gpu-host-program", "gcp:storage/bucketObject:BucketObject"),
        ("gpu-host-role", "gcp:projects/iAMCustomRole:IAMCustomRole"),
        ("gpu-host-project-role", "gcp:projects/iAMCustomRole:IAMCustomRole"),
        ("gpu-host-project", "gcp:projects/iAMMember:IAMMember"),
        ("gpu-host-builds", "gcp:pubsub/topic:Topic"),
        ("gpu-host-builder", TEMPLATE),
        ("gpu-host-check", TEMPLATE),
        ("gpu-host-machines", "gcp:projects/iAMMember:IAMMember"),
        ("gpu-host-log-writer", "gcp:projects/iAMMember:IAMMember"),
        ("gpu-host-source-reader", "gcp:storage/bucketIAMMember:BucketIAMMember"),
        ("gpu-host-trigger", "gcp:cloudbuild/trigger:Trigger"),
        ("gpu-host-schedule", "gcp:cloudscheduler/job:Job"),
    }


def test_the_schedule_publishes_to_the_topic_of_the_trigger() -> None:
    deployment = build()
    job = deployment.one(":Job").inputs
    assert (job["schedule"], job["timeZone"], job["region"]) == ("0 4 * * 1", "Etc/UTC", "us-central1")
    assert job["pubsubTarget"]["topicName"] == deployment.one(":Trigger").inputs["pubsubConfig"]["topic"]


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


def test_the_bucket_is_private_and_is_deleted_with_its_content() -> None:
    bucket = build().one(":Bucket").inputs
    assert (bucket["uniformBucketLevelAccess"], bucket["publicAccessPrevention"]) == (True, "enforced")
    assert bucket["forceDestroy"] is True


def test_every_resource_and_image_has_the_labels_of_the_stack() -> None:
    deployment, labels = build(labels={"team": "ml"}), {"team": "ml", "gpu-ci-pool": "gpu-host"}
    rows = [*deployment.of(":Bucket"), *deployment.of(":Topic"), *deployment.of(":RegionInstanceTemplate")]
    assert [row.inputs["labels"] for row in rows] == [labels] * 4
    disks = [row.inputs["disks"][0] for row in deployment.of(":RegionInstanceTemplate")]
    assert [disk["labels"] for disk in disks] == [labels] * 2
    assert settings_of(deployment)["labels"] == labels


def test_both_machines_have_no_public_address_no_service_account_and_an_end() -> None:
    for row in build().of(":RegionInstanceTemplate"):
        assert "serviceAccount" not in row.inputs
        [interface] = row.inputs["networkInterfaces"]
        assert "accessConfigs" not in interface
        assert row.inputs["scheduling"]["instanceTerminationAction"] == "DELETE"
        assert row.inputs["scheduling"]["maxRunDuration"]["seconds"] > 0
        [disk] = row.inputs["disks"]
        assert (disk["autoDelete"], disk["sourceImage"]) == (True, versions.GCE_IMAGE)
        assert row.inputs["shieldedInstanceConfig"]["enableSecureBoot"] is False


def test_the_check_machine_is_one_that_installs_nothing_and_tries_the_runner() -> None:
    [builder, check] = build().of(":RegionInstanceTemplate")
    config = json.loads(check.inputs["metadata"]["gpu-agent-config"])
    assert (config["installs"], config["runner"]["installs"]) == (False, False)
    assert (config["registered_by"], config["runner"]["docker"]) == ("manager", "rootless")
    assert config["driver"] == {"source": "image"}
    assert check.inputs["machineType"] == "g2-standard-8"
    assert builder.inputs["machineType"] == "e2-standard-8"
    assert builder.inputs["metadata"]["startup-script"] == resources.script()


def test_the_check_machine_takes_the_driver_from_the_image_that_an_installer_made() -> None:
    base = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
    [builder, check] = build(image=base, driver={"source": "installer", "branch": 580, "sha256": "e" * 64}).of(
        ":RegionInstanceTemplate"
    )
    assert json.loads(check.inputs["metadata"]["gpu-agent-config"])["driver"] == {"source": "image"}
    lines = builder.inputs["metadata"][resources.SETTINGS_KEY].splitlines()
    assert lines[:4] == [
        "DRIVER=installer",
        "BRANCH=lts",
        f"INSTALLER={versions.CUDA_INSTALLER}",
        f"INSTALLER_SHA256={'e' * 64}",
    ]


def test_the_steps_install_hashed_libraries_and_then_build_and_check() -> None:
    deployment = build()
    trigger = deployment.one(":Trigger").inputs
    install, first, second = trigger["build"]["steps"]
    assert {step["name"] for step in trigger["build"]["steps"]} == {versions.PYTHON_IMAGE}
    assert "--require-hashes" in install["args"]
    assert install["args"][-1] == "/workspace/gpu_ci/gcp/build_program.lock"
    assert [step["args"][:3] for step in (first, second)] == [
        ["-m", "gpu_ci.gcp.host_image", "build"],
        ["-m", "gpu_ci.gcp.host_image", "check"],
    ]
    # Two zones, an hour for the builder, 20 minutes for the check, and two hours around them.
    assert trigger["build"]["timeout"] == "16800s"
    assert deployment.one(":BucketObject").inputs["name"] == f"program-{resources.PROGRAM.digest()}.zip"


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
    ("runner", "docker"),
    [
        ({"version": "9.8.7", "sha256": {"x64": "a" * 64}}, "rootless"),
        ({"docker": "none"}, "none"),
    ],
)
def test_another_runner_keeps_the_docker_of_the_image(runner: dict[str, Any], docker: str) -> None:
    assert settings_of(build(runner=runner))["made_from"]["docker"] == docker


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


def test_builds_can_run_in_another_region_than_the_machines() -> None:
    made = build(zones=["us-east4-a"], subnetwork="projects/example-ci/regions/us-east4/subnetworks/ci",
                 buildRegion="us-central1", schedule="0 4 * * 1")  # fmt: skip
    assert made.one(":Trigger").inputs["location"] == made.one(":Job").inputs["region"] == "us-central1"
    assert {row.inputs["region"] for row in made.of(TEMPLATE.partition(":")[2])} == {"us-east4"}
    assert made.outputs[made.rows[0].urn]["region"] == "us-central1"
