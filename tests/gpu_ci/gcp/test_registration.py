"""A pool that registers runners: what its machines may read, what waits for what, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from gpu_ci import versions
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.machine.runner import RunnerSettings
from gpu_ci.gcp.runner_pool import RunnerPool, RunnerPoolArgs

from tests.gpu_ci.gcp.machine.test_agent_config import GITHUB, KEY
from tests.gpu_ci.gcp.test_runner_pool import PROJECT, SUBNETWORK, pool
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

SECRET = "projects/example-ci/secrets/registry-token"


def problems(**choices: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ArgsError) as caught:
        RunnerPoolArgs(**{**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK, **choices})
    return [(problem.path, problem.text, problem.hint) for problem in caught.value.problems]


def waits_for(row: Any) -> set[str]:
    return {urn.rpartition("::")[2] for urn in row.request.dependencies}


def test_its_machines_may_read_the_apps_key_and_no_other_secret() -> None:
    [grant] = pool(github=GITHUB).of(":SecretIamMember")
    assert grant.name == "l4-app-key-reader"
    assert grant.inputs == {
        "secretId": KEY,
        "member": "serviceAccount:gpu-l4@p.iam.gserviceaccount.com",
        "role": "roles/secretmanager.secretAccessor",
    }


def test_the_check_rehearses_so_it_waits_for_the_right_to_read_the_key() -> None:
    assert "l4-app-key-reader" in waits_for(pool(github=GITHUB).one(":SmokeGate"))


def test_without_an_app_the_machines_read_no_secret_and_get_no_runner() -> None:
    found = pool()
    assert found.of(":SecretIamMember") == []
    assert "github" not in json.loads(found.one(":RegionInstanceTemplate").inputs["metadata"]["gpu-agent-config"])


BY_MANAGER = {"owner": "acme", "runnerGroup": "gpu"}


def test_if_the_manager_registers_runners_the_machines_get_no_app() -> None:
    found = pool(github=BY_MANAGER)
    assert found.of(":SecretIamMember") == []
    told = json.loads(found.one(":RegionInstanceTemplate").inputs["metadata"]["gpu-agent-config"])
    assert (told["registered_by"], "github" in told, told["runner"]["docker"]) == ("manager", False, "none")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"appId": "17"}, "has appId without installationId, privateKey"),
        ({"appId": "17", "privateKey": KEY}, "has appId, privateKey without installationId"),
        ({"repository": "kernels"}, "has repository without appId, installationId, privateKey"),
    ],
)
def test_an_app_is_given_whole_or_not_at_all(given: dict[str, str], text: str) -> None:
    """With an incomplete App, machines would wait for a manager that does not run."""
    hint = "without an App, the runner manager registers the runners, for organizations only"
    assert problems(github={**BY_MANAGER, **given}) == [("github", text, hint)]


def test_its_machines_get_the_labels_of_jobs() -> None:
    def labels(**choices: Any) -> list[str]:
        text = pool(github=GITHUB, **choices).one(":RegionInstanceTemplate").inputs["metadata"]["gpu-agent-config"]
        told: list[str] = json.loads(text)["github"]["labels"]
        return told

    assert labels() == ["self-hosted", "gpu", "l4"]
    assert labels(runnerLabels=["a", "b"]) == ["a", "b"]


def test_the_template_waits_for_a_group_that_is_made_with_it() -> None:
    def program() -> None:
        group = pulumi.ComponentResource("test:index:Group", "group")
        name = pulumi.Output.from_input("gpu").apply(lambda text: text)
        named = pulumi.Output({group}, name.future(), name.is_known(), name.is_secret())
        choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
        RunnerPool("l4", RunnerPoolArgs(**choices, github={**GITHUB, "runnerGroup": named}))

    template = deploy(program, computed=COMPUTED).one(":RegionInstanceTemplate")
    assert json.loads(template.inputs["metadata"]["gpu-agent-config"])["github"]["runner_group"] == "gpu"


def test_a_secret_where_it_would_be_readable_is_refused() -> None:
    def program() -> None:
        owner = pulumi.Output.secret("acme")
        choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
        RunnerPool("l4", RunnerPoolArgs(**choices, github={**GITHUB, "owner": owner}))

    message = r"RunnerPool 'l4': github.owner: is a secret, but this field is stored in plain text"
    with pytest.raises(ArgsError, match=message):
        deploy(program, computed=COMPUTED)


UNREADABLE = "cannot be read by jobs: jobs of a pool with runners have no access to the machine's service account"
WAY = (
    "pass the secret to workflows with gpu-ci:github.secrets, or give jobs their own identity "
    "(docs/guides/compute-engine.md)"
)


@pytest.mark.parametrize("docker", ["none", "rootless"])
def test_secrets_no_job_could_read_are_refused(docker: str) -> None:
    assert problems(github=GITHUB, secrets=[SECRET], runner={"docker": docker}) == [("secrets[0]", UNREADABLE, WAY)]


def test_secrets_are_for_pools_that_register_nothing_or_have_rootful_docker() -> None:
    assert len(pool(secrets=[SECRET]).of(":SecretIamMember")) == 1
    assert len(pool(github=GITHUB, secrets=[SECRET], runner={"docker": "rootful"}).of(":SecretIamMember")) == 2


@pytest.mark.parametrize(
    ("runner", "path", "text", "hint"),
    [
        (
            {"version": "2.328.0"},
            "runner.version",
            "is a version that GitHub no longer registers",
            f"remove version to use {versions.RUNNER}",
        ),
        (
            {"version": "2.337.0"},
            "runner.sha256",
            f"is missing; this package contains only the checksums of {versions.RUNNER}",
            "copy them from the release notes at github.com/actions/runner/releases/tag/v2.337.0",
        ),
        (
            {"version": "v2.337.1"},
            "runner.version",
            "starts with a v, but only tags of releases do",
            "version: 2.337.1",
        ),
        (
            {"version": "2.337.1", "sha256": {"x64": "aaaa"}},
            "runner.sha256.x64",
            "is not a SHA-256 checksum",
            "copy the checksum from the release notes at github.com/actions/runner/releases",
        ),
        (
            {"version": "2.338.0", "sha256": {"x64": "a" * 64}},
            "runner.sha256.x64",
            "is not the checksum of 2.338.0, so every machine would reject the archive",
            "remove sha256, or set the version that these checksums belong to",
        ),
        (
            {"sha256": {**versions.RUNNER_SHA256, "arm64": "a" * 64}},
            "runner.sha256.arm64",
            "is not the checksum of 2.338.0, so every machine would reject the archive",
            "remove sha256, or set the version that these checksums belong to",
        ),
        (
            {"version": "2.337.0", "sha256": {"arm64": "a" * 64}},
            "runner.sha256",
            "has no checksum for x64, which g2-standard-8 needs",
            "add x64",
        ),
        (
            {"idleSec": 14400},
            "runner.idleSec",
            "is too long: Google deletes the machine before, after maxRunDurationSec",
            "raise maxRunDurationSec, or lower runner.idleSec",
        ),
    ],
)
def test_a_runner_that_would_take_no_job_is_refused(runner: Any, path: str, text: str, hint: str) -> None:
    assert problems(runner=runner) == [(path, text, hint)]


def test_the_checksum_that_is_known_may_be_given_and_another_shows_what_was_expected() -> None:
    assert RunnerSettings(sha256=versions.RUNNER_SHA256).archives == versions.RUNNER_SHA256
    with pytest.raises(ArgsError) as caught:
        RunnerSettings(sha256={"x64": "a" * 64})
    [problem] = caught.value.problems
    assert (problem.got, problem.expected) == (repr("a" * 64), versions.RUNNER_SHA256["x64"])


@pytest.mark.parametrize(
    ("runner", "path"),
    [
        ({"version": "latest"}, "runner.version"),
        ({"docker": "yes"}, "runner.docker"),
        ({"idleSec": 59}, "runner.idleSec"),
        ({"registerSec": 1801}, "runner.registerSec"),
        ({"sha256": {"x64": "A" * 64}}, "runner.sha256.x64"),
    ],
)
def test_a_runner_in_a_wrong_form_is_refused_at_its_place(runner: Any, path: str) -> None:
    assert [at for at, _, _ in problems(runner=runner)] == [path]


def test_an_arm_machine_gets_the_runner_for_it() -> None:
    arm = {"machineType": "a4x-highgpu-4g", "zones": ["us-central1-a"], "market": "reservation", "reservation": "gpus"}
    image = "projects/acme-ci/global/images/gpu"
    found = problems(**arm, image=image, runner={"version": "2.337.0", "sha256": {"x64": "a" * 64}})
    assert ("runner.sha256", "has no checksum for arm64, which a4x-highgpu-4g needs", "add arm64") in found


def test_container_optimized_os_runs_no_runner() -> None:
    container = f"docker.io/pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime@sha256:{'0' * 64}"
    cos = {
        "driver": {"source": "cos", "checkImage": container},
        "image": "projects/cos-cloud/global/images/family/cos-stable",
    }
    text = (
        "driver.source cos cannot run runners: Container-Optimized OS lacks Python and the dependencies of GitHub's "
        "runner"
    )
    hint = "use an Ubuntu or Debian image, or remove driver and image"
    assert problems(github=GITHUB, **cos) == [("github", text, hint)]
    assert len(pool(**cos).of(":RegionInstanceTemplate")) == 1


def test_machines_that_wait_stopped_register_no_runners_themselves() -> None:
    text = "is not supported for machines that register their own runners, because a stop would end their job"
    standby = {"market": "standard", "standby": {"stoppedSize": 1}}
    assert problems(github=GITHUB, **standby) == [("standby", text, "remove standby")]
    assert len(pool(**standby).of(":RegionInstanceGroupManager")) == 1


MANAGED = {"owner": "acme", "runnerGroup": "gpus"}


@pytest.mark.parametrize("market", ["spot", "standard", "reservation"])
def test_the_group_has_no_standby_where_the_manager_keeps_machines_stopped(market: str) -> None:
    bought = {"market": market} if market != "reservation" else {"market": "standard", "reservation": "l4s"}
    found = pool(github=MANAGED, **bought, standby={"stoppedSize": 2}).one(":RegionInstanceGroupManager").inputs
    assert (found["targetStoppedSize"], "standbyPolicy" in found) == (0, False)


def test_all_problems_of_the_managers_standby_are_reported_together() -> None:
    chosen = {"stoppedSize": 9, "mode": "manual", "initialDelaySec": 0}
    found = problems(
        github=MANAGED, market="flex-start", maxRunDurationSec=3600, max=4, localSsdCount=1, standby=chosen
    )
    assert [(path, hint) for path, _, hint in found] == [
        ("standby", "use market: spot or standard, or remove standby"),
        ("standby.mode", "remove it"),
        ("standby.initialDelaySec", "remove it"),
        ("standby", "remove localSsdCount, or remove standby"),
        ("standby.stoppedSize", "lower stoppedSize, or raise max"),
    ]
    wrong = {"stoppedSize": 0, "mode": "x"}
    found = problems(github=MANAGED, market="flex-start", maxRunDurationSec=3600, standby=wrong)
    assert [path for path, _, _ in found] == ["standby.stoppedSize", "standby.mode", "standby", "standby.mode"]


BUNDLED = {"machineType": "a2-ultragpu-1g", "zones": ["us-central1-a"]}


def test_a_machine_that_comes_with_local_disks_does_not_wait_stopped() -> None:
    text = "the machine has local SSDs, which lose their data when the machine stops"
    hint = "use another machine type, or remove standby"
    standby = {"standby": {"stoppedSize": 1}}
    assert problems(github=MANAGED, **BUNDLED, **standby) == [("standby", text, hint)]
    # The problem of the pool's own machine is not told of each rung.
    ladder = [{"machineType": "a2-ultragpu-1g", "zones": ["us-central1-c"]}]
    assert problems(github=MANAGED, **BUNDLED, **standby, ladder=ladder) == [("standby", text, hint)]


def test_a_rung_of_the_pools_market_may_have_no_local_disks_where_machines_wait_stopped() -> None:
    own = {"machineType": "a2-highgpu-1g", "zones": ["us-central1-a"], "market": "spot", "standby": {"stoppedSize": 1}}
    rung = {"machineType": "a2-ultragpu-1g", "zones": ["us-central1-a"]}
    assert problems(github=MANAGED, **own, ladder=[rung]) == [
        (
            "ladder[0].machineType",
            "has local SSDs, which lose their data when the machine stops, and the pool has standby",
            "use a machine type without local SSDs, use another market, or remove standby",
        )
    ]
    for fine in ({"ladder": [{**rung, "market": "standard"}]}, {"ladder": [rung], "standby": None}):
        assert len(pool(**{"github": MANAGED, **own, **fine}).of(":RegionInstanceGroupManager")) == 1
