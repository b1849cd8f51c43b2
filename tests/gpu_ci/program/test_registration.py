"""The registration of a stack file's pools: App, runner group, access to the App's key, and messages."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from gpu_ci.program import stack_warnings
from gpu_ci.stack.parse import Stack
from gpu_ci.stack.warnings import stack_warnings as stack_warnings_of

from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program.stack import L4, config, load, refused, site
from tests.gpu_ci.program.test_program import STACK, run

KEY = "projects/example-ci/secrets/app-key"
OWNER: dict[str, Any] = {
    "owner": "acme",
    "plan": "team",
    "runnerApp": {"id": 17, "installationId": 18, "privateKey": KEY},
}
GROUP: dict[str, Any] = {"runnerGroup": {"repositories": ["kernels"]}}


def stack(github: Any = GROUP, owner: Any = None, **pool: Any) -> dict[str, Any]:
    asked = {} if github is None else {"gpu-ci:github": github}
    return config({"l4": {**L4, **pool}}, **site(github=owner or OWNER)) | asked


def agent(found: Deployment) -> dict[str, Any]:
    text = found.one(":RegionInstanceTemplate").inputs["metadata"]["gpu-agent-config"]
    read: dict[str, Any] = json.loads(text)
    return read


MANAGED = {
    "owner": "acme",
    "plan": "team",
    "managerApp": {"id": 37, "installationId": 38, "privateKey": "projects/example-ci/secrets/manager-key"},
}


@pytest.mark.parametrize("owner", [MANAGED, {**OWNER, **MANAGED}], ids=["manager", "both"])
def test_where_a_manager_registers_a_machine_knows_no_app_and_may_read_no_key(owner: dict[str, Any]) -> None:
    found = run(stack(owner=owner))
    told = agent(found)
    assert told["registered_by"] == "manager"
    assert "github" not in told
    assert told["runner"]["register_sec"] == 300
    assert "secrets/" not in json.dumps(told)
    assert found.of(":SecretIamMember") == []
    assert found.outputs[STACK]["pools"]["l4"]["registersRunners"] is True
    [pool] = found.outputs[STACK]["manager"]["pools"]
    assert (pool["registeredBy"], pool["runnerGroup"]) == ("manager", "gpu-stack")


def test_where_a_manager_registers_rootful_docker_gives_no_key_away() -> None:
    day = date(2026, 11, 1)
    assert stack_warnings.warnings(load(stack(owner=MANAGED, runner={"docker": "rootful"})), day) == []


def test_secrets_that_no_job_could_read_are_refused_in_the_stack_file() -> None:
    for owner in (OWNER, MANAGED):
        assert paths(stack(owner=owner, secrets=[KEY])) == {"gpu-ci:pools.l4.secrets"}
    assert load(stack(secrets=[KEY], runner={"docker": "rootful"})).specs
    assert load(stack(None, secrets=[KEY])).specs


def paths(values: dict[str, Any]) -> set[str]:
    """Return the paths of the problems, without indices. tests/mistakes has their messages."""
    return {problem.path.partition("[")[0] for problem in refused(values).problems}


def test_a_key_that_machines_cannot_read_is_refused() -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:key"
    owner = {**OWNER, "runnerApp": {**OWNER["runnerApp"], "privateKey": arn}}
    assert paths(stack(owner=owner)) == {"gpu-ci:site.github.runnerApp.privateKey"}
    assert load(stack(owner={**MANAGED, "runnerApp": owner["runnerApp"]})).specs


def test_rootful_docker_is_said_to_give_jobs_the_apps_key() -> None:
    day = date(2026, 11, 1)
    assert stack_warnings.warnings(load(stack(runner={"docker": "rootful"})), day) == [
        (
            "gpu-ci:pools.l4.runner.docker: a job that has rootful Docker is root on its machine, and can read "
            f"{KEY}, with which it is the App in every repository the App is installed in; hint: docker: rootless, or "
            "trust every workflow that the runner group lets in"
        )
    ]
    assert stack_warnings.warnings(load(stack(runner={"docker": "rootless"})), day) == []


CONTAINER = f"docker.io/pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime@sha256:{'0' * 64}"


def test_container_optimized_os_is_refused_where_runners_would_register() -> None:
    image = "projects/cos-cloud/global/images/family/cos-stable"
    cos = {"driver": {"source": "cos", "checkImage": CONTAINER}, "image": image}
    assert paths(stack(**cos)) == {"gpu-ci:pools.l4.driver.source"}
    assert load(stack(None, **cos)).specs


def test_a_runner_that_may_be_too_old_is_told_where_one_registers() -> None:
    assert stack_warnings.warnings(load(stack()), date(2027, 1, 5)) == []
    day = date(2027, 1, 6)
    [warning] = stack_warnings.warnings(load(stack()), day)
    assert warning == (
        "the runner 2.338.0 may be too old: no release after 2026-10-07 is known here; hint: compare with "
        "github.com/actions/runner/releases"
    )
    assert stack_warnings.warnings(load(stack(None, {"owner": "acme"})), day) == []


def test_machines_that_wait_stopped_are_refused_where_runners_would_register() -> None:
    standby = {"market": "standard", "standby": {"stoppedSize": 1}}
    assert paths(stack(**standby)) == {"gpu-ci:pools.l4.standby"}
    assert load(stack(None, **standby)).specs


def test_priorities_are_refused_where_machines_register_their_runners() -> None:
    order = {"priorities": {"order": ["push"]}}
    assert paths(stack(**order)) == {"gpu-ci:pools.l4.priorities"}
    assert load(stack(owner=MANAGED, **order)).specs


@pytest.mark.parametrize("market", ["spot", "standard"])
def test_machines_of_the_manager_may_wait_stopped(market: str) -> None:
    found = run(stack(owner=MANAGED, market=market, standby={"stoppedSize": 3}))
    [pool] = found.outputs[STACK]["manager"]["pools"]
    assert pool["standby"] == 3
    assert found.one(":RegionInstanceGroupManager").inputs["targetStoppedSize"] == 0
    [without] = run(stack(owner=MANAGED)).outputs[STACK]["manager"]["pools"]
    assert "standby" not in without


ALONE = {"owner": "acme", "plan": "team"}


def test_a_runner_that_nobody_registers_is_told_to_have_no_effect() -> None:
    [warning] = stack_warnings.warnings(load(stack(None, ALONE, runner={"docker": "rootless"})), date(2026, 11, 1))
    assert warning == (
        "gpu-ci:pools.l4.runner: has no effect, as the pool registers no runners: its machines check themselves and "
        "stay on; hint: give gpu-ci:site.github.managerApp and gpu-ci:github.runnerGroup "
        "(docs/guides/runner-manager-setup.md), or leave runner out"
    )
    assert stack_warnings.warnings(load(stack(None, ALONE)), date(2026, 11, 1)) == []


GROUP_TOO = "give gpu-ci:github.runnerGroup too"
EITHER_APP = (
    "give gpu-ci:site.github.managerApp, and the runner manager starts a machine for each job "
    "(docs/guides/runner-manager-setup.md); or give gpu-ci:site.github.runnerApp if your own tool starts the machines "
    "(docs/guides/compute-engine.md)"
)


@pytest.mark.parametrize(
    ("values", "missing", "there", "hint"),
    [
        (stack(None), "gpu-ci:github.runnerGroup", "gpu-ci:site.github.runnerApp", GROUP_TOO),
        (stack({}, runner={"docker": "none"}), "gpu-ci:github.runnerGroup", "gpu-ci:site.github.runnerApp", GROUP_TOO),
        (stack(None, MANAGED), "gpu-ci:github.runnerGroup", "gpu-ci:site.github.managerApp", GROUP_TOO),
        (stack(None, {**OWNER, **MANAGED}), "gpu-ci:github.runnerGroup", "gpu-ci:site.github.managerApp", GROUP_TOO),
        (
            stack(owner=ALONE, runnerLabels=["a"]),
            "gpu-ci:site.github.managerApp",
            "gpu-ci:github.runnerGroup",
            EITHER_APP,
        ),
    ],
)
def test_an_app_without_a_runner_group_is_reported_once(
    values: dict[str, Any], missing: str, there: str, hint: str
) -> None:
    values |= {"gpu-ci:pools": {**values["gpu-ci:pools"], "m4": L4}}
    assert stack_warnings.warnings(load(values), date(2026, 11, 1)) == [
        (
            f"{missing}: is missing, although {there} is set, so the machines of l4, m4 register no runners, "
            f"and stay on; hint: {hint}"
        )
    ]


def test_one_half_of_it_is_enough_where_no_pool_is_of_machines() -> None:
    assert stack_warnings_of(Stack("", "", {"gpu-ci:site": {"github": {"runnerApp": {}}}})) == []
