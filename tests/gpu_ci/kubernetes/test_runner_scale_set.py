"""The resources of a runner scale set, and the values of its chart."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pulumi_kubernetes as kubernetes
import pytest
from google.protobuf import json_format
from gpu_ci import versions
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import scale_set, values
from tests.gpu_ci.support import COMPUTED, CONTROLLER, scale_set_wiring


@pytest.mark.parametrize(("worker", "waited"), [("Runner.Worker", True), ("Runner.Listener", False)])
def test_a_runner_with_a_job_has_its_grace_period_and_an_idle_one_ends_at_once(
    tmp_path: Path, worker: str, waited: bool
) -> None:
    """Runs the hook in bash over a folder like /proc, whose process ends while the hook sleeps for the first time."""
    [container] = values(scale_set(terminationGraceSec=90))["template"]["spec"]["containers"]
    *bash, script = container["lifecycle"]["preStop"]["exec"]["command"]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text(f"{worker}\n")
    slept = f"sleep() {{ echo slept; echo bash > {tmp_path}/7/comm; }}; "
    found = subprocess.run([*bash, slept + script.replace("/proc", str(tmp_path))], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("slept\n" if waited else "", "")


def test_the_app_is_in_a_secret_and_nowhere_in_plain() -> None:
    made = scale_set()
    assert made.one(":Secret").inputs["stringData"] == {
        pulumi_wire.SIGNATURE: pulumi_wire.SECRET,
        "value": {
            "github_app_id": "1234567",
            "github_app_installation_id": "7654321",
            "github_app_private_key": "-----BEGIN RSA PRIVATE KEY-----\nhush-hush\n-----END RSA PRIVATE KEY-----\n",
        },
    }
    others = [json_format.MessageToJson(row.request) for row in made.rows if not row.type.endswith(":Secret")]
    assert [word for word in ("hush-hush", "1234567", "7654321") if any(word in text for text in others)] == []


def test_what_the_chart_cannot_change_in_place_makes_the_set_anew_and_deletes_it_first() -> None:
    def trigger(**changes: Any) -> Any:
        request = scale_set(**changes).one(":Release").request
        assert request.deleteBeforeReplace is True
        return json_format.MessageToDict(request.replacement_trigger)

    assert trigger() == ["https://github.com/acme", "gpu", [], "0.14"]
    assert trigger(scaleSetLabels=["l4"], runnerGroup="slow", max=9) == [
        "https://github.com/acme",
        "slow",
        ["l4"],
        "0.14",
    ]
    assert trigger(githubConfigUrl="https://github.com/acme/web", runnerGroup=None)[:2] == [
        "https://github.com/acme/web",
        "",
    ]
    patched = {**CONTROLLER, "version": f"{versions.ARC_CHARTS.rpartition('.')[0]}.9"}
    assert trigger(controller=patched) == trigger()


def test_what_takes_its_name_waits_for_the_registration() -> None:
    def program() -> None:
        made = RunnerScaleSet("gpu", RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **scale_set_wiring()))
        kubernetes.core.v1.ConfigMap("user", data={"runs-on": made.scale_set_name})

    made = deploy(program, computed=COMPUTED)
    [user] = [row for row in made.rows if row.urn.endswith("::user")]
    assert made.one(":AutoscalingRunnerSetPatch").urn in user.request.dependencies
