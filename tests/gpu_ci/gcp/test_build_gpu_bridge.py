"""The resources of a bridge between Cloud Build and GPU machines, its program, and the mistakes in its fields."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci import versions
from gpu_ci.gcp.build.image_steps import DIGEST
from gpu_ci.gcp.build_program import BuildProgram
from gpu_ci.gcp.gpu_bridge import steps
from gpu_ci.gcp.gpu_bridge.arguments import parse
from gpu_ci.gcp.gpu_bridge.steps import PROGRAM
from gpu_ci.gcp.host_image_pipeline import PROGRAM as HOST_IMAGES
from gpu_ci.kinds.cloud_build_gpu.args import BuildGpuBridgeArgs
from gpu_ci.kinds.cloud_build_gpu.component import BuildGpuBridge
from gpu_ci.stack.parse import Stack
from gpu_common import google_permissions
from pulumi_sandbox.providers.gcp.discovery import document
from pulumi_sandbox.providers.gcp.permissions import Asked, holds

from tests.conftest import ROOT
from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

PROJECT = "example-ci"
WIRING = {"project": PROJECT, "subnetwork": "projects/example-ci/regions/us-central1/subnetworks/ci"}
EXAMPLE = BuildGpuBridge.EXAMPLE
BUCKET = "gpu-tests-builds-1"
MACHINES = "machines@example-ci.iam.gserviceaccount.com"
TOPIC = "projects/example-ci/topics/gpu-tests-build-events-1"
RECORDED = {
    **COMPUTED,
    "gcp:serviceaccount/account:Account": {
        "email": MACHINES,
        "name": f"projects/example-ci/serviceAccounts/{MACHINES}",
    },
    "gcp:storage/bucket:Bucket": {"name": BUCKET},
    "gcp:pubsub/topic:Topic": {"name": TOPIC.rpartition("/")[2]},
    "gcp:projects/iAMCustomRole:IAMCustomRole": {"name": "projects/example-ci/roles/one"},
}
ACCOUNT = f"projects/example-ci/serviceAccounts/{MACHINES}"
BUILD = "7f2c1d3e-0000-4000-8000-000000000001"


def args(**changes: Any) -> BuildGpuBridgeArgs:
    return BuildGpuBridgeArgs(**{**EXAMPLE, **WIRING, **changes})


def build(**changes: Any) -> Deployment:
    made: list[BuildGpuBridge] = []
    return deploy(lambda: made.append(BuildGpuBridge("gpu-tests", args(**changes))), computed=RECORDED)


def named(deployment: Deployment, name: str) -> dict[str, Any]:
    [row] = [row for row in deployment.rows if row.name == name]
    return row.inputs


def example() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(steps.example(BUCKET, ACCOUNT, TOPIC, 1800, 7200))
    return found


def test_builds_may_start_machines_but_change_neither_settings_nor_program() -> None:
    deployment = build()
    roles = [named(deployment, f"gpu-tests-{role}-role") for role in ("machines", "project")]
    permissions = sorted(each for role in roles for each in role["permissions"])
    assert permissions == google_permissions.of_calls(steps.CALLS)
    all_permissions = {each for row in deployment.of(":IAMCustomRole") for each in row.inputs["permissions"]}
    assert not [each for each in all_permissions if "setIamPolicy" in each or "actAs" in each]
    assert named(deployment, "gpu-tests-reader-role")["permissions"] == ["storage.objects.get", "storage.objects.list"]
    reads = named(deployment, "gpu-tests-reader")["condition"]["expression"]
    below = f"projects/_/buckets/{BUCKET}/objects"
    names = ("bridge.json", "program/a", "slots/a", "builds/a", "sources/a", "requests/a")
    assert [each for each in names if not holds(reads, Asked(f"{below}/{each}"))] == ["requests/a"]
    bucket = f"projects/_/buckets/{BUCKET}"
    lists = {each: holds(reads, Asked(bucket, list_prefix=each)) for each in ("", "builds/", "program/one/")}
    assert lists == {"": False, "builds/": False, "program/one/": True}
    assert named(deployment, "gpu-tests-writer-role")["permissions"] == [
        "storage.objects.create",
        "storage.objects.delete",
    ]
    writes = named(deployment, "gpu-tests-writer")["condition"]["expression"]
    assert [each for each in names if holds(writes, Asked(f"{below}/{each}"))] == [
        "slots/a", "builds/a", "sources/a", "requests/a"
    ]  # fmt: skip
    user = named(deployment, "gpu-tests-machine-account-user")
    assert user["role"] == "roles/iam.serviceAccountUser"
    assert user["serviceAccountId"] == f"projects/example-ci/serviceAccounts/{MACHINES}"


def test_machines_read_workspaces_create_output_and_write_logs_and_nothing_else() -> None:
    deployment = build()
    below = f"projects/_/buckets/{BUCKET}/objects"
    found = {
        row.name: (row.inputs["role"], row.inputs.get("condition", {}).get("expression"))
        for row in deployment.rows
        if row.name.startswith("gpu-tests-machine-") and "member" in row.inputs and ":IAM" not in row.type[-10:]
    }
    assert found["gpu-tests-machine-reader"] == (
        "roles/storage.objectViewer",
        " || ".join(f'resource.name.startsWith("{below}/{prefix}/")' for prefix in ("sources", "builds", "requests")),
    )  # fmt: skip
    assert found["gpu-tests-machine-writer"] == (
        "roles/storage.objectCreator", f'resource.name.startsWith("{below}/builds/")'
    )  # fmt: skip
    assert named(deployment, "gpu-tests-machine-log-writer")["role"] == "roles/logging.logWriter"
    in_project = [row.inputs["role"] for row in deployment.of("projects/iAMMember:IAMMember")]
    assert sorted(in_project) == [
        "projects/example-ci/roles/one",
        "projects/example-ci/roles/one",
        "roles/logging.logWriter",
        "roles/logging.logWriter",
    ]
    assert not deployment.of(":RepositoryIamMember")


def test_a_step_accepts_the_settings_of_the_component(tmp_path: Path) -> None:
    text = named(build(max=2, artifactMib=10), "gpu-tests-settings")["source"]["text"]
    settings, options = parse(
        ["run", "--settings", f"gs://{BUCKET}/bridge.json", "--", "pytest"],
        {"BUILD_ID": BUILD},
        lambda bucket, name: text if (bucket, name) == (BUCKET, "bridge.json") else "",
    )
    assert (settings.project, settings.name, settings.bucket) == (PROJECT, "gpu-tests-stack", BUCKET)
    assert [each.zone for each in settings.places()] == EXAMPLE["zones"]
    assert (settings.max, settings.artifact_mib) == (2, 10)
    # 14,400 s, less the check, the start and the end of the command.
    assert settings.longest_timeout_sec == 14_400 - 1200 - 900 - 1200
    assert "?" not in settings.template
    assert options.command == ["pytest"]


def test_the_program_in_the_bucket_runs_without_this_package(tmp_path: Path) -> None:
    archive = tmp_path / steps.ARCHIVE
    with zipfile.ZipFile(archive, "w") as file:
        for path, text in steps.code().items():
            file.writestr(path, text)
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    code = "import gpu_ci.gcp.gpu_bridge.__main__ as m; print(m.__file__); m.main(['run', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(f"{archive}/gpu_ci/gcp/gpu_bridge/__main__.py"), done.stderr
    assert "--retry-preempted" in done.stdout


@pytest.mark.parametrize("each", [PROGRAM, HOST_IMAGES])
def test_no_file_of_a_program_is_empty_because_the_engine_drops_the_text_of_such_an_asset(each: BuildProgram) -> None:
    assert [path for path, text in each.files().items() if not text] == []


def test_the_steps_of_the_output_are_a_build_of_cloud_builds_api() -> None:
    compare(example(), "cloudbuild", "Build")
    fetch, install, test = example()["steps"]
    assert fetch["args"] == ["storage", "cp", f"gs://{BUCKET}/program/{PROGRAM.digest()}/*", "/gpu-ci/"]
    assert "--require-hashes" in install["args"]
    assert test["name"] == versions.PYTHON_IMAGE
    assert test["args"][:5] == ["-m", "gpu_ci.gcp.gpu_bridge", "run", "--settings", f"gs://{BUCKET}/bridge.json"]
    assert test["args"][-2:] == ["--", "nvidia-smi"]


def test_the_example_of_a_build_has_the_steps_and_versions_of_this_release() -> None:
    build = yaml.safe_load((ROOT / "examples/cloud-build-gpu/cloudbuild.yaml").read_text())
    compare(build, "cloudbuild", "Build")
    *prepare, builder, image, test, tag = build["steps"]
    assert prepare == steps.prepare_steps("${_BUCKET}", "${_PROGRAM}")
    assert {each["name"] for each in (builder, image, tag)} == {versions.DOCKER_IMAGE}
    assert builder["args"][-1] == f"image={versions.BUILDKIT_IMAGE}"
    own = steps.step("gpu-test", [])
    assert {name: test[name] for name in ("id", "name", "volumes")} == {
        name: own[name] for name in ("id", "name", "volumes")
    }
    assert test["env"][: len(own["env"])] == own["env"]
    assert all(f"\n{DIGEST}" in each["script"] for each in (test, tag))
    assert f'--settings "gs://$BUCKET/{steps.SETTINGS_OBJECT}"' in test["script"]


def output(**changes: Any) -> dict[str, Any]:
    """Return the output cloudbuild of a pool."""
    found: dict[str, Any] = {}

    def program() -> None:
        made = BuildGpuBridge("gpu-tests", args(**changes))
        made.cloudbuild.apply(lambda text: found.update(yaml.safe_load(text)))

    deploy(program, computed=RECORDED)
    return found


def test_the_guide_shows_the_step_as_the_component_writes_it() -> None:
    guide = (ROOT / "docs/guides/cloud-build-gpu.md").read_text(encoding="utf-8")
    _, _, after = guide.partition("After, ")
    [step] = yaml.safe_load(after.partition("```yaml\n")[2].partition("```")[0])
    assert step == steps.run_step("BUCKET", "gpu-test", ["--timeout", "1800"], ["pytest", "-m", "gpu"])


def test_the_reaper_also_runs_after_each_build_of_the_topic_that_did_not_succeed() -> None:
    deployment = build(reapSchedule=None)
    assert not [row for row in deployment.rows if "reaper" in row.name]
    trigger = deployment.one(":Trigger").inputs
    topic = deployment.one("pubsub/topic:Topic")
    assert trigger["pubsubConfig"] == {"topic": f"{topic.name}-id"}
    assert trigger["substitutions"] == {"_STATUS": "$(body.message.attributes.status)"}
    # The states of Cloud Build (discovery document cloudbuild v1, Build.status).
    schema = document("cloudbuild.v1")["schemas"]["Build"]["properties"]["status"]
    expression = re.fullmatch(r'_STATUS\.matches\("(.*)"\)', trigger["filter"])
    assert expression
    assert {each for each in schema["enum"] if re.search(expression[1], each)} == {
        *("FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"),
    }
    assert trigger["build"]["steps"][-1]["args"][2:] == [
        *("reap", "--project", "$PROJECT_ID", "--bridge", "gpu-tests-stack"),
    ]
    # A message changes no argument of the reaper, which asks Cloud Build for the state of each build.
    assert "_STATUS" not in json.dumps(trigger["build"])
    # Builds of the reaper publish to another topic, so the reaper does not start itself.
    assert "pubsubTopic" not in trigger["build"]["options"]


LADDER = [{"region": "us-east1"}, {"zones": ["us-central1-a"], "market": "standard"}]
EAST = {"us-east1": "projects/example-ci/regions/us-east1/subnetworks/ci"}


def test_the_settings_have_each_place_of_the_ladder_and_a_step_accepts_them(tmp_path: Path) -> None:
    content = json.loads(named(build(ladder=LADDER, ladderSubnetworks=EAST), "gpu-tests-settings")["source"]["text"])
    # The template of the pool is in the settings once, and that of another region in each of its places.
    assert ["template" in each for each in content["rungs"]] == [False] * 3 + [True] * 3 + [False]
    link = content["template"].replace("us-central1", "us-east1")
    for each in content["rungs"][3:6]:
        each["template"] = link
    given = ["run", "--settings", f"gs://{BUCKET}/bridge.json"]
    settings, _ = parse([*given, "--", "pytest"], {"BUILD_ID": BUILD}, lambda *_: json.dumps(content))
    machine = ("spot", "g2-standard-8")
    assert settings.places() == [
        *((zone, content["template"], *machine) for zone in EXAMPLE["zones"]),
        *((f"us-east1-{zone}", link, *machine) for zone in "bcd"),
        ("us-central1-a", content["template"], "standard", "g2-standard-8"),
    ]


TIMES = "the start of the command has 900 s, and its artifacts and output have 1200 s"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "flex-start": (
        {"market": "flex-start", "maxRunDurationSec": 7200},
        "market: is not supported: a step cannot wait for a flex-start machine",
    ),
    "no time for the command": (
        {"maxRunDurationSec": 3300},
        f"smoke.deadlineSec: leaves no time for a command: maxRunDurationSec is 3300, {TIMES}",
    ),
    "an operating system without Python": (
        {
            "image": "projects/cos-cloud/global/images/family/cos-stable",
            "driver": {"source": "cos", "checkImage": f"docker.io/pytorch/pytorch:2@sha256:{'0' * 64}"},
        },
        "driver: is Container-Optimized OS, on which commands of builds cannot be isolated",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_reported_at_its_field(case: str) -> None:
    changes, expected = BAD[case]
    given = {"kind": "cloud-build-gpu", **copy.deepcopy(EXAMPLE), **changes}
    problems = Stack("", "dev", {"gpu-ci:pools": {"gpu-tests": given}}).problems_of_pools
    assert [f"{each.path}: {each.text}" for each in problems] == [f"gpu-ci:pools.gpu-tests.{expected}"]
