"""Compute Engine refuses some inserts; the templates of our components pass."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.gcp.gpu_instance_template import GpuInstanceTemplate, GpuInstanceTemplateArgs
from pulumi_sandbox.providers.gcp import types

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED
from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.compute.test_compute_errors import refused
from tests.sandbox.providers.gcp.conftest import PROJECT, TEMPLATE

LOCAL_SSD = {"type": "SCRATCH", "diskType": "local-ssd", "interface": "NVME", "diskSizeGb": 375}


def ours(api: Api, **choices: Any) -> str:
    """The template that a GpuInstanceTemplate makes in the sandbox."""
    wiring = {
        "project": PROJECT,
        "subnetwork": f"projects/{PROJECT}/regions/us-central1/subnetworks/default",
        "service_account_email": "1-compute@developer.gserviceaccount.com",
        "labels": {"team": "ml"},
    }
    args = GpuInstanceTemplateArgs(**{**GpuInstanceTemplate.EXAMPLE, **wiring, **choices})
    row = deploy(lambda: GpuInstanceTemplate("gpu", args), computed=COMPUTED).one("RegionInstanceTemplate")
    return api.google.make(types.REGION_TEMPLATE, "gpu-template", row.inputs).id


@pytest.fixture(autouse=True)
def _no_machine_boots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SANDBOX_ASSUME", "{}")


def test_labels_on_a_local_ssd_pass_in_a_template_and_fail_at_insert(api: Api) -> None:
    disks = [TEMPLATE["disks"][0] | {"labels": {"team": "ml"}}, LOCAL_SSD | {"labels": {"team": "ml"}}]
    template = api.google.template(disks=disks).id
    status, reason, message = refused(api, template=template)
    assert (status, reason) == (400, "invalid")
    assert "field 'resource.disks[1].initializeParams.labels'" in message


def test_a_machine_with_local_ssds_of_our_template_can_be_inserted(api: Api) -> None:
    operation = api.insert(ours(api, machineType="g2-standard-24", localSsdCount=2))
    assert (operation["status"], operation.get("error")) == ("DONE", None)
    disks = api.instance()["disks"]
    assert [disk.get("type", "PERSISTENT") for disk in disks] == ["PERSISTENT", "SCRATCH", "SCRATCH"]
    assert disks[0]["initializeParams"]["labels"] == {"gpu-ci-pool": "gpu", "team": "ml"}
