"""The resources and the build of a container image pipeline, and its fields in a stack file."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import versions
from gpu_ci.gcp.build import image_names, image_steps
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline, ContainerImagePipelineArgs
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.instances_api import api_form

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.gcp.image_choices import DIGEST, KEY, KEY_VERSION, pipeline, sign, source
from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

PROJECT = "example-ci"
REPOSITORY = "images-runner-stack"
REGISTRY = f"us-central1-docker.pkg.dev/example-ci/{REPOSITORY}"
ACCOUNT = "gcp:serviceaccount/account:Account"
RECORDED = {**COMPUTED, ACCOUNT: {"email": "one@p.iam.gserviceaccount.com", "name": "projects/p/serviceAccounts/one"}}
METADATA = '{\n  "buildx.build.ref": "x",\n  "containerimage.digest": "DIGEST",\n  "image.name": "y"\n}'
DAY_SEC = 86400


def build(**changes: Any) -> Deployment:
    choices = {**pipeline(), "project": PROJECT, **changes}
    del choices["kind"]
    return deploy(lambda: ContainerImagePipeline("runner", ContainerImagePipelineArgs(**choices)), computed=RECORDED)


def test_a_pipeline_makes_these_resources_and_no_others() -> None:
    assert [(row.name, row.type) for row in build().rows] == [
        ("runner", "gpu-ci:gcp:ContainerImagePipeline"),
        ("runner-registry", "gcp:artifactregistry/repository:Repository"),
        ("runner-account", ACCOUNT),
        ("runner-log-writer", "gcp:projects/iAMMember:IAMMember"),
        ("runner-registry-writer", "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"),
        ("runner-trigger", "gcp:cloudbuild/trigger:Trigger"),
    ]


def test_builds_may_write_logs_and_their_own_registry() -> None:
    deployment, member = build(), "serviceAccount:one@p.iam.gserviceaccount.com"
    assert [row.inputs for row in deployment.of(":IAMMember")] == [
        {"member": member, "project": PROJECT, "role": "roles/logging.logWriter"}
    ]
    registry = deployment.one(":RepositoryIamMember").inputs
    assert (registry["member"], registry["role"]) == (member, "roles/artifactregistry.writer")
    assert registry["repository"] == COMPUTED["gcp:artifactregistry/repository:Repository"]["name"]
    trigger = deployment.one(":Trigger")
    assert trigger.inputs["serviceAccount"] == "projects/p/serviceAccounts/one"
    waits_for = {urn.rpartition("::")[2] for urn in trigger.request.dependencies}
    assert {"runner-log-writer", "runner-registry-writer"} <= waits_for


def test_the_trigger_builds_pushes_to_main_on_a_machine_of_the_default_pool() -> None:
    inputs = build(timeoutSec=7200, diskGib=200).one(":Trigger").inputs
    assert inputs["github"] == {"owner": "acme", "name": "images", "push": {"branch": "^main$"}}
    assert (inputs["location"], inputs["name"]) == ("us-central1", "images-runner-stack")
    assert inputs["includedFiles"] == ["images/**"]
    assert inputs["build"]["timeout"] == "7200s"
    assert inputs["build"]["options"] == {
        "logging": "CLOUD_LOGGING_ONLY",
        "machineType": "E2_HIGHCPU_8",
        "diskSizeGb": 200,
    }


def test_the_image_has_an_sbom_provenance_and_a_tag_of_the_build_and_is_checked_before_it_is_a_candidate() -> None:
    builder, docker, check, candidate = build().one(":Trigger").inputs["build"]["steps"]
    assert builder["args"][:2] == ["buildx", "create"]
    assert docker["args"] == [
        "buildx", "build", "--file", "images/runner/Dockerfile",
        "--cache-from", f"type=registry,ref={REGISTRY}/cache/gpu-runner",
        "--cache-to", f"type=registry,ref={REGISTRY}/cache/gpu-runner,mode=max",
        "--sbom=true", "--provenance=mode=max", "--metadata-file", "/workspace/.gpu-ci-image.json",
        "--tag", f"{REGISTRY}/gpu-runner:build-$COMMIT_SHA-$BUILD_ID", "--push", ".",
    ]  # fmt: skip
    assert [step["id"] for step in (check, candidate)] == ["check", "candidate"]
    for step in (check, candidate):
        assert step["name"] == versions.DOCKER_IMAGE
        assert step["envs"] == [
            f"IMAGE={REGISTRY}/gpu-runner",
            "METADATA=/workspace/.gpu-ci-image.json",
            "COMMIT_SHA=$COMMIT_SHA",
            "BUILD_ID=$BUILD_ID",
        ]
        assert not {"args", "entrypoint"} & set(step)
    assert check["script"] == image_steps.check_script(["gpu-smoke", "--device", "cpu"])
    assert candidate["script"] == image_steps.candidate_script()


def test_the_trigger_and_its_steps_have_the_form_of_the_discovery_document() -> None:
    changed = build(
        build={**pipeline()["build"], "target": "runtime", "buildArgs": {"CUDA": "cu130"}},
        sign=sign(attestor=ATTESTOR)["sign"],
    )
    compare(api_form(types.TRIGGER, changed.one(":Trigger").inputs), "cloudbuild", "BuildTrigger")


def test_the_signature_is_made_after_the_check_and_before_the_image_is_a_candidate() -> None:
    steps = build(**sign(cosignImage="example.com/cosign:v3")).one(":Trigger").inputs["build"]["steps"]
    assert [step.get("id") for step in steps] == [None, None, "check", "sign", "candidate"]
    assert steps[3]["script"] == image_steps.sign_script()
    assert steps[3]["name"] == versions.DOCKER_IMAGE
    assert steps[3]["envs"] == [*steps[2]["envs"], "COSIGN=example.com/cosign:v3", f"KEY={KEY_VERSION}"]
    plain = build().one(":Trigger").inputs["build"]["steps"]
    assert [steps[0], steps[1], steps[2], steps[4]] == plain


ATTESTOR = "projects/example-ci/attestors/images"


def test_the_attestation_is_made_by_the_key_that_signs_before_the_image_is_a_candidate() -> None:
    deployment, member = build(**sign(attestor=ATTESTOR)), "serviceAccount:one@p.iam.gserviceaccount.com"
    steps = deployment.one(":Trigger").inputs["build"]["steps"]
    assert [step.get("id") for step in steps] == [None, None, "check", "sign", "attest", "candidate"]
    assert (steps[4]["name"], steps[4]["script"]) == (versions.GCLOUD_BUILDER, image_steps.attest_script())
    assert steps[4]["envs"] == [
        *steps[2]["envs"], f"KEY={KEY_VERSION}", f"ATTESTOR={ATTESTOR}", "PROJECT=$PROJECT_ID"
    ]  # fmt: skip
    signed = build(**sign()).one(":Trigger").inputs["build"]["steps"]
    assert [*steps[:4], steps[5]] == signed
    # What sign-and-create --validate needs, and not the change of other attestations.
    role = deployment.one(":IAMCustomRole").inputs
    assert role["permissions"] == [
        "binaryauthorization.attestors.get", "binaryauthorization.attestors.verifyImageAttested",
        "containeranalysis.notes.attachOccurrence", "containeranalysis.occurrences.create",
    ]  # fmt: skip
    assert role["roleId"] == "gpu_ci_runner_attest_stack"
    [grant] = [row for row in deployment.of(":IAMMember") if row.name == "runner-attest"]
    assert (grant.inputs["member"], grant.inputs["project"]) == (member, PROJECT)
    assert "runner-attest" in {urn.rpartition("::")[2] for urn in deployment.one(":Trigger").request.dependencies}


def test_builds_may_use_and_view_the_key_that_signs_and_no_other() -> None:
    deployment, member = build(**sign()), "serviceAccount:one@p.iam.gserviceaccount.com"
    assert [(row.name, row.inputs) for row in deployment.of(":CryptoKeyIAMMember")] == [
        ("runner-key-signer", {"cryptoKeyId": KEY, "member": member, "role": "roles/cloudkms.signerVerifier"}),
        ("runner-key-viewer", {"cryptoKeyId": KEY, "member": member, "role": "roles/cloudkms.viewer"}),
    ]
    waits_for = {urn.rpartition("::")[2] for urn in deployment.one(":Trigger").request.dependencies}
    assert {"runner-key-signer", "runner-key-viewer"} <= waits_for
    assert build().of(":CryptoKeyIAMMember") == []


def test_the_schedule_starts_a_second_trigger_that_builds_the_branch_without_the_cache() -> None:
    deployment = build(**source(branch=r"^release/1\.x$"), schedule="0 4 * * 1")
    job, topic = deployment.one(":Job").inputs, deployment.one(":Topic")
    assert (job["schedule"], job["timeZone"], job["region"]) == ("0 4 * * 1", "Etc/UTC", "us-central1")
    assert topic.inputs["labels"] == {"gpu-ci-pool": "runner"}
    pushed, scheduled = (row.inputs for row in deployment.of(":Trigger"))
    assert job["pubsubTarget"] == {"topicName": scheduled["pubsubConfig"]["topic"], "data": "YnVpbGQ="}
    assert scheduled["sourceToBuild"] == {
        "ref": "refs/heads/release/1.x", "repoType": "GITHUB", "uri": "https://github.com/acme/images"
    }  # fmt: skip
    assert not {"github", "repositoryEventConfig", "includedFiles"} & set(scheduled)
    assert (scheduled["name"], pushed["name"]) == ("rebuild-runner-stack", "images-runner-stack")
    steps = scheduled["build"]["steps"]
    assert "--no-cache" in steps[1]["args"]
    steps[1]["args"].remove("--no-cache")
    assert scheduled["build"] == pushed["build"]
    compare(api_form(types.TRIGGER, scheduled), "cloudbuild", "BuildTrigger")


def test_a_scheduled_build_reads_a_repository_of_the_second_generation_and_waits_for_approval() -> None:
    resource = "projects/example-ci/locations/us-central1/connections/github/repositories/images"
    deployment = build(**source(repositoryResource=resource, approval=True), schedule="0 4 * * 1")
    [scheduled] = [row.inputs for row in deployment.of(":Trigger") if "pubsubConfig" in row.inputs]
    assert scheduled["sourceToBuild"] == {"ref": "refs/heads/main", "repoType": "GITHUB", "repository": resource}
    assert scheduled["approvalConfig"] == {"approvalRequired": True}


def run(tmp_path: Path, script: str, metadata: str | None, code: int = 0) -> tuple[int, list[str], str]:
    """Run a step's script with a fake docker and gcloud. Return the exit code, their arguments, and the errors."""
    file, called = tmp_path / "image.json", tmp_path / "called"
    if metadata is not None:
        file.write_text(metadata)
    for program in (tmp_path / "docker", tmp_path / "gcloud"):
        program.write_text(f'#!/bin/sh\nfor each; do echo "$each" >> {called}; done\nexit {code}\n')
        program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "IMAGE": "r/gpu", "METADATA": str(file),
        "COMMIT_SHA": "c" * 40, "BUILD_ID": "b1", "COSIGN": "r/cosign:v3", "KEY": KEY_VERSION,
        "ATTESTOR": ATTESTOR, "PROJECT": PROJECT,
    }  # fmt: skip
    assert script.startswith("#!/bin/sh\n")
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, called.read_text().splitlines() if called.exists() else [], done.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_the_check_runs_in_the_pushed_digest_without_a_network_and_its_exit_code_is_the_steps(
    tmp_path: Path, code: int
) -> None:
    script = image_steps.check_script(["gpu-smoke", "--label", "two words; exit 0"])
    assert run(tmp_path, script, METADATA.replace("DIGEST", DIGEST), code) == (
        code,
        ["run", "--rm", "--network", "none", "--entrypoint", "gpu-smoke", f"r/gpu@{DIGEST}",
         "--label", "two words; exit 0"],
        "",
    )  # fmt: skip


def test_the_candidate_tag_is_added_to_the_same_digest(tmp_path: Path) -> None:
    code, called, _ = run(tmp_path, image_steps.candidate_script(), METADATA.replace("DIGEST", DIGEST))
    tag = f"r/gpu:candidate-{'c' * 40}-b1"
    assert (code, called) == (0, ["buildx", "imagetools", "create", "--tag", tag, f"r/gpu@{DIGEST}"])


def test_cosign_signs_the_same_digest_with_the_key_and_without_the_public_log(tmp_path: Path) -> None:
    assert run(tmp_path, image_steps.sign_script(), METADATA.replace("DIGEST", DIGEST)) == (
        0,
        ["run", "--rm", "--network", "cloudbuild", "r/cosign:v3", "sign", "--yes", "--k8s-keychain",
         "--use-signing-config=false", "--tlog-upload=false", "--new-bundle-format=false",
         "--key", f"gcpkms://{KEY_VERSION}", f"r/gpu@{DIGEST}"],
        "",
    )  # fmt: skip


def test_the_attestation_is_of_the_same_digest_and_fails_if_the_attestor_does_not_know_the_key(tmp_path: Path) -> None:
    assert run(tmp_path, image_steps.attest_script(), METADATA.replace("DIGEST", DIGEST)) == (
        0,
        ["beta", "container", "binauthz", "attestations", "sign-and-create", "--quiet", "--validate",
         "--project", PROJECT, "--attestor", ATTESTOR, "--keyversion", KEY_VERSION,
         "--artifact-url", f"r/gpu@{DIGEST}"],
        "",
    )  # fmt: skip


SCRIPTS = [
    image_steps.check_script(["true"]),
    image_steps.sign_script(),
    image_steps.attest_script(),
    image_steps.candidate_script(),
]


@pytest.mark.parametrize("metadata", [None, "{}", METADATA.replace("DIGEST", "sha256:abc")])
@pytest.mark.parametrize("script", SCRIPTS)
def test_without_a_digest_a_step_fails_and_calls_no_program(tmp_path: Path, script: str, metadata: str | None) -> None:
    code, called, errors = run(tmp_path, script, metadata)
    assert (code, called) == (1 if metadata else code or 1, [])
    assert errors


def policies(**changes: Any) -> dict[str, Any]:
    rows = build(**changes).one(":Repository").inputs["cleanupPolicies"]
    return {row["id"]: {key: value for key, value in row.items() if key != "id"} for row in rows}


def test_old_images_are_deleted_but_not_those_of_the_newest_builds() -> None:
    assert policies(registry={"keepMostRecent": 4, "deleteAfterDays": 30}) == {
        # Each build pushes an index, an image and an attestation.
        "keep-most-recent": {
            "action": "KEEP",
            "mostRecentVersions": {"keepCount": 12, "packageNamePrefixes": ["gpu-runner"]},
        },
        "delete-old": {"action": "DELETE", "condition": {"tagState": "ANY", "olderThan": f"{30 * DAY_SEC}s"}},
    }


def test_signatures_are_never_deleted_and_do_not_displace_images_of_the_newest_builds() -> None:
    found = policies(registry={"keepMostRecent": 4}, sign=sign()["sign"])
    assert found["keep-signatures"] == {
        "action": "KEEP", "condition": {"tagState": "TAGGED", "tagPrefixes": ["sha256-"]}
    }  # fmt: skip
    assert found["keep-most-recent"]["mostRecentVersions"]["keepCount"] == 16
    assert "keep-signatures" not in policies()


def test_images_that_pools_name_are_never_deleted() -> None:
    other, listed = "sha256:" + "b" * 64, "sha256:" + "c" * 64
    pinned = [f"{REGISTRY}/gpu-runner@{DIGEST}", f"{REGISTRY}/gpu-runner:v1@{DIGEST}", f"{REGISTRY}x/gpu@{other}",
              f"ghcr.io/acme/gpu@{other}", f"{REGISTRY}/gpu-runner:v1"]  # fmt: skip
    assert policies(pinned=pinned, keepDigests=[listed])["keep-pinned"] == {
        "action": "KEEP",
        "condition": {"tagState": "ANY", "versionNamePrefixes": [DIGEST, listed]},
    }


@pytest.mark.parametrize(("scanning", "setting"), [(True, "INHERITED"), (False, "DISABLED")])
def test_scanning_is_off_by_default(scanning: bool, setting: str) -> None:
    inputs = build(registry={"scanning": scanning}).one(":Repository").inputs
    assert inputs["vulnerabilityScanningConfig"] == {"enablementConfig": setting}
    assert inputs["labels"] == {"gpu-ci-pool": "runner"}
    assert inputs["repositoryId"] == REPOSITORY


def test_a_tag_names_one_commit_and_one_build() -> None:
    commit, number = "c" * 40, "0c9e1d4e-0000-4000-8000-000000000000"
    tag = image_names.tag(image_names.BUILT, commit, number)
    assert image_names.parse_tag(tag) == ("build", commit, number)
    assert image_names.parse_tag("latest") is None
    # Docker's limit for a tag (github.com/distribution/reference).
    assert re.fullmatch(r"[\w][\w.-]{0,127}", image_names.tag(image_names.CANDIDATE, commit, number))
