"""The resources of a Cloud Build pool."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci import versions
from gpu_ci.kinds.cloud_build.args import BuildPoolArgs
from gpu_ci.kinds.cloud_build.component import BuildPool

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED

PROJECT = "example-ci"
REGISTRY = "us-central1-docker.pkg.dev/example-ci/build-builds-stack"
POOL = "builds-workers-id"
ACCOUNT = "gcp:serviceaccount/account:Account"
RECORDED = {**COMPUTED, ACCOUNT: {"email": "one@p.iam.gserviceaccount.com", "name": "projects/p/serviceAccounts/one"}}
FILE = {"kind": "file"}
PULL = {"kind": "pull-request", "branch": "^main$"}


def build(**changes: Any) -> Deployment:
    choices = {"region": "us-central1", "project": PROJECT, **changes}
    return deploy(lambda: BuildPool("builds", BuildPoolArgs(**choices)), computed=RECORDED)


def triggered(event: Any, build_: Any, **changes: Any) -> dict[str, Any]:
    """Return the inputs of a trigger."""
    main = {"repository": "acme/kernels", "event": event, "build": build_, **changes}
    return build(triggers={"main": main}).one(":Trigger").inputs


def docker(event: Any, **choices: Any) -> list[dict[str, Any]]:
    step = {"kind": "docker", "image": "kernels", **choices}
    return list(triggered(event, {"kind": "steps", "steps": [step]})["build"]["steps"])


MAIN = {"kind": "push", "branch": "^main$"}


def test_a_pool_without_triggers_makes_these_resources_and_no_others() -> None:
    assert [(row.name, row.type) for row in build().rows] == [
        ("builds", "gpu-ci:gcp:BuildPool"),
        ("builds-workers", "gcp:cloudbuild/workerPool:WorkerPool"),
        ("builds-registry", "gcp:artifactregistry/repository:Repository"),
        ("builds-account", ACCOUNT),
        ("builds-account-log-writer", "gcp:projects/iAMMember:IAMMember"),
        ("builds-account-pool-user", "gcp:projects/iAMMember:IAMMember"),
        ("builds-account-registry-writer", "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"),
    ]


def test_builds_have_three_rights_and_the_one_to_write_is_on_the_registry_alone() -> None:
    deployment = build()
    member = "serviceAccount:one@p.iam.gserviceaccount.com"
    assert [row.inputs for row in deployment.of(":IAMMember")] == [
        {"member": member, "project": PROJECT, "role": "roles/logging.logWriter"},
        {"member": member, "project": PROJECT, "role": "roles/cloudbuild.workerPoolUser"},
    ]
    assert deployment.one(":RepositoryIamMember").inputs == {
        "member": member,
        "project": PROJECT,
        "location": "us-central1",
        "repository": "build-pool-stack",
        "role": "roles/artifactregistry.writer",
    }


def test_builds_of_pull_requests_run_as_an_account_that_cannot_write() -> None:
    main = {"repository": "acme/kernels", "event": MAIN, "build": FILE}
    deployment = build(triggers={"main": main, "pull": {**main, "event": PULL}})
    accounts = [(row.name, row.inputs["accountId"]) for row in deployment.of(":Account")]
    assert accounts == [("builds-account", "build-builds-stack"), ("builds-pull-account", "pull-builds-stack")]
    roles = {row.name: row.inputs["role"] for row in deployment.of(":RepositoryIamMember")}
    assert roles == {
        "builds-account-registry-writer": "roles/artifactregistry.writer",
        "builds-pull-account-registry-reader": "roles/artifactregistry.reader",
    }
    dependencies = {
        row.name: [urn.rpartition("::")[2] for urn in row.request.propertyDependencies["serviceAccount"].urns]
        for row in deployment.of(":Trigger")
    }
    assert dependencies == {
        "builds-trigger-main": ["builds-account"],
        "builds-trigger-pull": ["builds-pull-account"],
    }


def test_a_trigger_exists_only_once_its_account_may_log_use_the_pool_and_reach_the_registry() -> None:
    main = {"repository": "acme/kernels", "event": MAIN, "build": FILE}
    rows = build(triggers={"main": main, "pull": {**main, "event": PULL}}).of(":Trigger")
    grants = {
        row.name: sorted(
            name
            for name in (urn.rpartition("::")[2] for urn in row.request.dependencies)
            if name.endswith(("-log-writer", "-pool-user", "-registry-writer", "-registry-reader"))
        )
        for row in rows
    }
    assert grants == {
        "builds-trigger-main": [
            "builds-account-log-writer",
            "builds-account-pool-user",
            "builds-account-registry-writer",
        ],
        "builds-trigger-pull": [
            "builds-pull-account-log-writer",
            "builds-pull-account-pool-user",
            "builds-pull-account-registry-reader",
        ],
    }


def test_by_default_workers_have_no_public_address_and_are_in_googles_network() -> None:
    assert build().one(":WorkerPool").inputs == {
        "location": "us-central1",
        "project": PROJECT,
        "workerConfig": {"machineType": "e2-standard-2", "diskSizeGb": 100, "noExternalIp": True},
    }
    assert build(public_egress=True).one(":WorkerPool").inputs["workerConfig"]["noExternalIp"] is False


def test_workers_are_in_a_peered_network() -> None:
    link = "projects/123456789012/global/networks/ci"
    peered = build(network={"kind": "peered", "network": link, "ip_range": "/26"}).one(":WorkerPool").inputs
    assert peered["networkConfig"] == {"peeredNetwork": link, "peeredNetworkIpRange": "/26"}
    assert "privateServiceConnect" not in peered


def test_the_registry_keeps_the_newest_images_and_drops_old_untagged_ones() -> None:
    inputs = build(registry={"keep_most_recent": 3, "delete_untagged_after_days": 2}).one(":Repository").inputs
    assert (inputs["format"], inputs["repositoryId"], inputs["location"]) == (
        "DOCKER",
        "build-builds-stack",
        "us-central1",
    )
    assert inputs["cleanupPolicies"] == [
        {"id": "keep-most-recent", "action": "KEEP", "mostRecentVersions": {"keepCount": 3}},
        {"id": "delete-untagged", "action": "DELETE", "condition": {"tagState": "UNTAGGED", "olderThan": "172800s"}},
    ]
    assert inputs["vulnerabilityScanningConfig"] == {"enablementConfig": "DISABLED"}


def test_a_build_file_gets_its_pool_registry_and_cache() -> None:
    inputs = triggered(MAIN, FILE, substitutions={"_PYTHON": "3.13"}, ignored_files=["docs/**"], approval=True)
    assert inputs == {
        "name": "builds-main-stack",
        "project": PROJECT,
        "location": "us-central1",
        "description": "push of acme/kernels",
        "github": {"owner": "acme", "name": "kernels", "push": {"branch": "^main$"}},
        "includedFiles": [],
        "ignoredFiles": ["docs/**"],
        "approvalConfig": {"approvalRequired": True},
        "serviceAccount": "projects/p/serviceAccounts/one",
        "substitutions": {"_PYTHON": "3.13", "_POOL": POOL, "_REGISTRY": REGISTRY, "_CACHE": f"{REGISTRY}/cache"},
        "filename": "cloudbuild.yaml",
    }


@pytest.mark.parametrize(
    ("event", "asked"),
    [
        (MAIN, {"push": {"branch": "^main$"}}),
        ({"kind": "tag", "tag": "^v"}, {"push": {"tag": "^v"}}),
        (
            PULL,
            {
                "pullRequest": {
                    "branch": "^main$",
                    "commentControl": "COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY",
                }
            },
        ),
    ],
)
def test_an_event_is_asked_for_in_googles_form(event: dict[str, str], asked: dict[str, Any]) -> None:
    assert triggered(event, FILE)["github"] == {"owner": "acme", "name": "kernels", **asked}
    name = "projects/acme-ci/locations/us-central1/connections/github/repositories/acme-kernels"
    second = triggered(event, FILE, repository_resource=name)
    assert (second["repositoryEventConfig"], "github" in second) == ({"repository": name, **asked}, False)


def test_steps_that_stand_in_the_stack_file_run_in_the_pool_with_a_log_mode() -> None:
    run = {"kind": "run", "image": "python:3.13-slim", "args": ["-m", "build"], "env": {"B": "2", "A": "1"}}
    inputs = triggered(MAIN, {"kind": "steps", "steps": [run], "timeout_sec": 600})
    assert inputs["build"] == {
        "steps": [{"name": "python:3.13-slim", "args": ["-m", "build"], "envs": ["A=1", "B=2"]}],
        "timeout": "600s",
        "options": {"logging": "CLOUD_LOGGING_ONLY", "workerPool": POOL},
    }
    assert "filename" not in inputs


def test_an_image_is_built_with_the_cache_in_the_registry_and_pushed() -> None:
    builder, step = docker(MAIN, target="test", build_args={"CUDA": "13.2"})
    assert builder["args"] == [
        "buildx", "create", "--name", "gpu-ci", "--use", "--driver", "docker-container",
        "--driver-opt", f"image={versions.BUILDKIT_IMAGE}",
    ]  # fmt: skip
    assert (step["name"], step["entrypoint"]) == (versions.DOCKER_IMAGE, "docker")
    assert step["args"] == [
        "buildx", "build", "--file", "Dockerfile", "--target", "test", "--build-arg", "CUDA=13.2",
        "--cache-from", f"type=registry,ref={REGISTRY}/cache/kernels",
        "--cache-to", f"type=registry,ref={REGISTRY}/cache/kernels,mode=max",
        "--tag", f"{REGISTRY}/kernels:$COMMIT_SHA", "--push", ".",
    ]  # fmt: skip


def test_an_image_of_a_git_tag_carries_its_name() -> None:
    args = docker({"kind": "tag", "tag": "^v"}, cache=False)[1]["args"]
    assert args[4:] == [
        "--tag", f"{REGISTRY}/kernels:$COMMIT_SHA", "--tag", f"{REGISTRY}/kernels:$TAG_NAME", "--push", ".",
    ]  # fmt: skip


def test_a_pull_request_reads_the_cache_and_leaves_nothing_in_the_registry() -> None:
    args = docker(PULL)[1]["args"]
    assert "--cache-from" in args
    assert [word for word in args if word in ("--cache-to", "--push")] == []
    assert args[-3:] == ["--output", "type=cacheonly", "."]


def test_its_outputs_are_what_builds_and_grants_need() -> None:
    deployment = build()
    assert deployment.outputs[deployment.rows[0].urn] == {
        "pool": POOL,
        "registry": REGISTRY,
        "serviceAccountEmail": "one@p.iam.gserviceaccount.com",
    }


def test_where_its_registry_is_is_known_in_a_preview() -> None:
    args = {"region": "us-central1", "project": PROJECT}
    preview = deploy(lambda: BuildPool("builds", BuildPoolArgs(**args)), computed=RECORDED, preview=True)
    assert preview.outputs[preview.rows[0].urn]["registry"] == REGISTRY
