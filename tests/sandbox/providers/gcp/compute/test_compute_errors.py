"""The errors of the sandbox's Compute Engine API: the bodies that Google sends."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import ZONE, Api
from tests.sandbox.providers.gcp.conftest import Google


def refused(api: Api, zone: str = "us-central1-a", template: str = "", **body: Any) -> tuple[int, str, str]:
    query = {"sourceInstanceTemplate": template} if template else {}
    status, answer = api.call("POST", f"zones/{zone}/instances", {"name": "check", **body}, **query)
    error = answer["error"]
    assert error["code"] == status
    assert error["errors"] == [
        {"message": error["message"], "domain": "global", "reason": error["errors"][0]["reason"]}
    ]
    return status, error["errors"][0]["reason"], error["message"]


def test_an_insert_that_google_refuses_is_refused_with_googles_body(api: Api) -> None:
    template = api.google.template().id
    gone = "projects/ci-project/regions/us-central1/instanceTemplates/gone"
    account = {"email": "x@ci-project.iam.gserviceaccount.com", "scopes": []}
    here = {"template": template}
    cases: list[tuple[dict[str, Any], tuple[int, str], str]] = [
        ({"template": gone}, (404, "notFound"), f"The resource '{gone}' was not found"),
        ({**here, "name": "Check"}, (400, "invalid"), "field 'resource.name'"),
        ({**here, "zone": "us-east1-b"}, (400, "invalid"), "field 'sourceInstanceTemplate'"),
        ({**here, "machineType": "large"}, (400, "invalid"), "field 'resource.machineType'"),
        ({**here, "serviceAccounts": [account]}, (404, "notFound"), "x@ci-project.iam.gserviceaccount.com"),
    ]
    for body, code, text in cases:
        status, reason, message = refused(api, **body)
        assert (status, reason) == code
        assert text in message
    api.insert(template)
    assert refused(api, template=template)[:2] == (409, "alreadyExists")
    api.google.world.add_fault(Fault("refuse", message="The request was refused today."))
    assert refused(api, template=template, name="other") == (400, "invalid", "The request was refused today.")


def test_a_stockout_is_an_operation_with_googles_error(api: Api) -> None:
    template = api.google.template().id
    api.google.world.add_fault(Fault("stockout", zone="us-central1-a"))
    operation = api.insert(template)
    assert (operation["status"], operation["httpErrorStatusCode"]) == ("DONE", 503)
    assert operation["httpErrorMessage"] == "SERVICE UNAVAILABLE"
    [error] = operation["error"]["errors"]
    assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    assert error["message"] == (
        "The zone 'projects/ci-project/zones/us-central1-a' does not have enough resources available to fulfill the "
        "request.  '(resource type:compute)'."
    )
    details = {kind: body for detail in error["errorDetails"] for kind, body in detail.items()}
    assert details["errorInfo"] == {
        "reason": "resource_availability",
        "domain": "compute.googleapis.com",
        "metadatas": {
            "zone": "us-central1-a",
            "vmType": "g2-standard-8",
            "attachment": "nvidia-l4:1",
            "zonesAvailable": "us-central1-b,us-central1-c",
        },
    }
    assert api.call("GET", "zones/us-central1-a/instances/check")[0] == 404
    assert api.insert(template, zone="us-central1-b").get("error") is None


def test_a_quota_is_an_operation_with_googles_error(api: Api) -> None:
    scheduling = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}
    template = api.google.template(scheduling=scheduling).id
    api.google.world.add_fault(Fault("quota"))
    operation = api.insert(template)
    assert (operation["httpErrorStatusCode"], operation["httpErrorMessage"]) == (403, "FORBIDDEN")
    [error] = operation["error"]["errors"]
    assert (error["code"], error["message"]) == (
        "QUOTA_EXCEEDED",
        "Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.  Limit: 0.0 in region us-central1.",
    )
    assert error["errorDetails"][0]["quotaInfo"] == {
        "metricName": "compute.googleapis.com/preemptible_nvidia_l4_gpus",
        "limitName": "PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region",
        "dimensions": {"region": "us-central1"},
        "limit": 0.0,
    }


def test_a_request_without_credentials_gets_googles_401(api: Api) -> None:
    for token in ("", "Bearer ya29.of-a-real-account"):
        status, body = Api(api.google, token).call("GET", "zones/us-central1-a/instances")
        assert (status, body["error"]["errors"][0]["reason"]) == (401, "required")


def test_a_port_that_another_program_has_is_reported_with_a_hint(google: Google) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", google.workspace.compute_port))
        other.listen()
        with pytest.raises(Refused) as refused:
            google.cloud.configure(google.config)
    assert str(refused.value) == (
        f"gcp: the sandbox's Compute Engine API cannot listen on 127.0.0.1:{google.workspace.compute_port}\n"
        "  got: Address already in use\n"
        "  hint: another program uses the port; run the command again, or, for plain pulumi, remove "
        "sandbox/ports.json to choose another port"
    )


def test_a_provider_whose_engine_is_gone_boots_no_machine_and_serves_all_else(tmp_path: Path) -> None:
    google = Google(tmp_path / "google")
    gone = [True]
    google.cloud.context.engine_gone = lambda: gone[0]
    google.cloud.configure(google.config)
    api = Api(google)
    try:
        template = google.template().id
        asked = ("POST", f"zones/{ZONE}/instances", {"name": "check"})
        status, body = api.call(*asked, sourceInstanceTemplate=template)
        assert (status, body["error"]["errors"][0]["reason"]) == (503, "backendError")
        assert api.ok("GET", f"zones/{ZONE}/instances")["items"] == []
        gone[0] = False
        # Ctrl-C: the engine is there and waits, and so would a client that asks again.
        google.cloud.context.cancelled.set()
        assert api.insert(template)["status"] == "DONE"
    finally:
        google.cloud.stop()
        google.world.close()
