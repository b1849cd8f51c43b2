"""The resources and the build of a container image pipeline, and its fields in a stack file."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.gcp.build import image_names, image_steps
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline, ContainerImagePipelineArgs
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.templates import api_form

from tests.gpu_ci.cli.doctor.google_apis import compare
from tests.gpu_ci.gcp.image_choices import DIGEST, KEY_VERSION, pipeline, sign
from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

PROJECT = "example-ci"
REPOSITORY = "images-runner-stack"
REGISTRY = f"us-central1-docker.pkg.dev/example-ci/{REPOSITORY}"
ACCOUNT = "gcp:serviceaccount/account:Account"
RECORDED = {**COMPUTED, ACCOUNT: {"email": "one@p.iam.gserviceaccount.com", "name": "projects/p/serviceAccounts/one"}}
METADATA = '{\n  "buildx.build.ref": "x",\n  "containerimage.digest": "DIGEST",\n  "image.name": "y"\n}'


def build(**changes: Any) -> Deployment:
    choices = {**pipeline(), "project": PROJECT, **changes}
    del choices["kind"]
    return deploy(lambda: ContainerImagePipeline("runner", ContainerImagePipelineArgs(**choices)), computed=RECORDED)


def test_the_trigger_and_its_steps_have_the_form_of_the_discovery_document() -> None:
    changed = build(
        build={**pipeline()["build"], "target": "runtime", "buildArgs": {"CUDA": "cu130"}},
        sign=sign(attestor=ATTESTOR)["sign"],
    )
    compare(api_form(types.TRIGGER, changed.one(":Trigger").inputs), "cloudbuild", "BuildTrigger")


ATTESTOR = "projects/example-ci/attestors/images"


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


def test_images_that_pools_name_are_never_deleted() -> None:
    other, listed = "sha256:" + "b" * 64, "sha256:" + "c" * 64
    pinned = [f"{REGISTRY}/gpu-runner@{DIGEST}", f"{REGISTRY}/gpu-runner:v1@{DIGEST}", f"{REGISTRY}x/gpu@{other}",
              f"ghcr.io/acme/gpu@{other}", f"{REGISTRY}/gpu-runner:v1"]  # fmt: skip
    assert policies(pinned=pinned, keepDigests=[listed])["keep-pinned"] == {
        "action": "KEEP",
        "condition": {"tagState": "ANY", "versionNamePrefixes": [DIGEST, listed]},
    }


def test_a_tag_names_one_commit_and_one_build() -> None:
    commit, number = "c" * 40, "0c9e1d4e-0000-4000-8000-000000000000"
    tag = image_names.tag(image_names.BUILT, commit, number)
    assert image_names.parse_tag(tag) == ("build", commit, number)
    assert image_names.parse_tag("latest") is None
    # Docker's limit for a tag (github.com/distribution/reference).
    assert re.fullmatch(r"[\w][\w.-]{0,127}", image_names.tag(image_names.CANDIDATE, commit, number))
