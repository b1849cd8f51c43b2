"""ephemeral-runners, no-job-pods, runner-accepted and runner-fresh."""

from __future__ import annotations

import base64
import json
from datetime import date
from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import JOB, LAUNCH_TEMPLATE, RELEASE, TEMPLATE, found, pod, scale_set

LASTS = "metadata.startup-script registers a runner without --ephemeral"
DIGEST = f"@sha256:{'0' * 64}"


def script(text: str) -> dict[str, Any]:
    return {"metadata": {"startup-script": text}}


@pytest.mark.parametrize(
    ("props", "violations"),
    [
        (script("./config.sh --url https://github.com/acme --token $T"), [LASTS]),
        (script("./config.sh --unattended \\\n  --url https://github.com/acme\nrun --ephemeral"), [LASTS]),
        (script("./config.sh --unattended \\\n  --url https://github.com/acme \\\n  --ephemeral\n"), []),
        (script("./config.sh remove --token $T"), []),
        (script("./config.sh --prefix=/usr && make"), []),
        (script("./run.sh --jitconfig $JIT"), []),
        ({"metadata": UNKNOWN}, []),
    ],
)
def test_a_script_that_registers_a_runner_has_to_say_ephemeral(props: dict[str, Any], violations: list[str]) -> None:
    assert found("ephemeral-runners", TEMPLATE, props) == violations


def test_a_script_in_base64_is_read_too() -> None:
    text = "#!/bin/sh\n./config.sh --url https://github.com/acme --token $T\n"
    encoded = base64.b64encode(text.encode()).decode()
    assert found("ephemeral-runners", LAUNCH_TEMPLATE, {"userData": encoded}) == [
        "userData registers a runner without --ephemeral"
    ]


def test_the_controller_of_before_scale_sets_is_refused_and_a_scale_set_is_not() -> None:
    assert found("ephemeral-runners", RELEASE, {"chart": "actions-runner-controller"}) == [
        "the chart actions-runner-controller is the controller of before scale sets, whose runners may last"
    ]
    assert found("ephemeral-runners", RELEASE, scale_set(image="x")) == []
    assert found("ephemeral-runners", RELEASE, {"chart": UNKNOWN}) == []


@pytest.mark.parametrize("mode", ["kubernetes", "kubernetes-novolume"])
def test_runners_that_create_the_pods_of_jobs_are_reported(mode: str) -> None:
    values = {"containerMode": {"type": mode}}
    release = {**scale_set(image="x"), "values": values}
    assert found("no-job-pods", RELEASE, release) == [f"values.containerMode.type is {mode}"]
    assert found("no-job-pods", RELEASE, {"chart": "other", "values": values}) == []
    assert found("no-job-pods", RELEASE, {**release, "values": {"containerMode": {"type": "dind"}}}) == []


@pytest.mark.parametrize(("ephemeral", "violations"), [(False, ["spec.template.spec.ephemeral is off"]), (True, [])])
def test_a_deployment_of_runners_may_not_switch_it_off(ephemeral: bool, violations: list[str]) -> None:
    kind = "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment"
    props = {"spec": {"template": {"spec": {"ephemeral": ephemeral}}}}
    assert found("ephemeral-runners", kind, props) == violations


def agent(version: Any) -> dict[str, Any]:
    return {"metadata": {"gpu-agent-config": json.dumps({"runner": {"version": version}})}}


def archive(version: str) -> dict[str, Any]:
    return script(f"curl -LO https://x/v{version}/actions-runner-linux-x64-{version}.tar.gz")


def beside(name: str, image: str) -> dict[str, Any]:
    return {"values": {"template": {"spec": {"containers": [{"name": name, "image": image}]}}}}


CHART = "kubernetes:helm.sh/v4:Chart"
SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
RUNNER = pod({"name": "runner", "image": "x:2.328.0"})
REFUSED = "is 2.328.0, and GitHub registers 2.329.0 or later"


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        (TEMPLATE, agent("2.328.0"), [f"metadata.gpu-agent-config: runner.version {REFUSED}"]),
        (
            RELEASE,
            scale_set(image=f"ghcr.io/acme/runner:2.328.0{DIGEST}"),
            [f"values.template.spec.containers[runner].image {REFUSED}"],
        ),
        (TEMPLATE, archive("2.328.0"), [f"metadata.startup-script {REFUSED}"]),
        (TEMPLATE, agent("2.329.0"), []),
        (TEMPLATE, agent(UNKNOWN.__repr__()), []),
        (TEMPLATE, {"metadata": {"gpu-agent-config": UNKNOWN}}, []),
        (TEMPLATE, {"metadata": {"gpu-agent-config": "no JSON"}}, []),
        (RELEASE, scale_set(image=UNKNOWN), []),
        (RELEASE, {**scale_set(), **beside("dind", "docker:2.28.0")}, []),
        (CHART, scale_set(image="x:2.328.0"), [f"values.template.spec.containers[runner].image {REFUSED}"]),
        (SET, RUNNER, [f"spec.template.spec.containers[runner].image {REFUSED}"]),
        (RELEASE, scale_set(image="ghcr.io/acme/runner:latest"), []),
        (JOB, pod({"name": "runner", "image": "ghcr.io/acme/tool:2.1.0"}), []),
    ],
)
def test_a_version_that_github_turns_away_is_refused(kind: str, props: dict[str, Any], violations: list[str]) -> None:
    assert found("runner-accepted", kind, props) == violations


def test_a_version_that_is_behind_is_reported_on_the_day_it_is_and_not_before() -> None:
    # 2.337.0 was out on 2026-08-26 (catalog/gpu_catalog/data/runners.json), so 2.336.0 is due until 2026-09-25.
    before, after = date(2026, 9, 10), date(2026, 9, 26)
    assert found("runner-fresh", TEMPLATE, agent("2.336.0"), today=before) == []
    [text] = found("runner-fresh", TEMPLATE, agent("2.336.0"), today=after)
    assert text.startswith(
        "metadata.gpu-agent-config: runner.version: the runner 2.336.0 may get no jobs since 2026-09-25: "
        "2.337.0 was out on 2026-08-26"
    )
    assert found("runner-fresh", TEMPLATE, agent("2.328.0"), today=after) == [], "runner-accepted says it"
