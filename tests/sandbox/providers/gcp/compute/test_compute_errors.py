"""The errors of the sandbox's Compute Engine API: the bodies that Google sends."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.cli.serve import serve_lock_held
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
    assert refused(api, template=gone) == (404, "notFound", f"The resource '{gone}' was not found")
    assert refused(api, template=template, name="Check") == (
        400,
        "invalid",
        (
            "Invalid value for field 'resource.name': 'Check'. Must be a match of regex "
            "'(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'"
        ),
    )
    assert refused(api, zone="nowhere", template=template) == (
        404,
        "notFound",
        "The resource 'projects/ci-project/zones/nowhere' was not found",
    )
    assert refused(api, zone="us-east1-b", template=template) == (
        400,
        "invalid",
        (
            f"Invalid value for field 'sourceInstanceTemplate': '{template}'. The template is in region us-central1, "
            "the "
            "instance in zone us-east1-b."
        ),
    )
    assert refused(api, zone="us-central1-f", template=template) == (
        400,
        "invalid",
        (
            "Invalid value for field 'resource.machineType': "
            "'https://www.googleapis.com/compute/v1/projects/ci-project/zones/"
            "us-central1-f/machineTypes/g2-standard-8'. Machine type with name 'g2-standard-8' does not exist in zone "
            "'us-central1-f'."
        ),
    )
    account = {"email": "x@ci-project.iam.gserviceaccount.com", "scopes": []}
    assert refused(api, template=template, serviceAccounts=[account]) == (
        404,
        "notFound",
        (
            "The resource 'projects/ci-project/serviceAccounts/x@ci-project.iam.gserviceaccount.com' of type "
            "'serviceAccount' was not found."
        ),
    )
    api.insert(template)
    assert refused(api, template=template) == (
        409,
        "alreadyExists",
        "The resource 'projects/ci-project/zones/us-central1-a/instances/check' already exists",
    )
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
    assert details["localizedMessage"]["message"].startswith(
        "A g2-standard-8 VM instance with 1 nvidia-l4 accelerator(s) is currently unavailable in the us-central1-a "
        "zone. "
    )
    assert api.call("GET", "zones/us-central1-a/instances/check")[0] == 404
    assert api.insert(template, zone="us-central1-b").get("error") is None


@pytest.mark.parametrize("kind", ["quota", "stockout"])
def test_a_fault_with_its_own_text_is_reported_with_it(api: Api, kind: str) -> None:
    template = api.google.template().id
    api.google.world.add_fault(Fault(kind, message="not today"))
    [error] = api.insert(template)["error"]["errors"]
    assert error["message"] == "not today"


def test_a_stockout_names_no_zone_that_is_sold_out_too(api: Api) -> None:
    template = api.google.template().id

    def named() -> str:
        [error] = api.insert(template)["error"]["errors"]
        [info] = [detail["errorInfo"] for detail in error["errorDetails"] if "errorInfo" in detail]
        return str(info["metadatas"].get("zonesAvailable", ""))

    api.google.world.add_fault(Fault("stockout", zone="us-central1-a"))
    api.google.world.add_fault(Fault("stockout", zone="us-central1-b"))
    assert named() == "us-central1-c"
    api.google.world.add_fault(Fault("stockout", times=0))
    assert named() == ""


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
    for token, reason, message in (
        ("", "required", "Request is missing required authentication credential. "),
        ("Bearer ya29.of-a-real-account", "authError", "Request had invalid authentication credentials. "),
    ):
        status, body = Api(api.google, token).call("GET", "zones/us-central1-a/instances")
        assert status == 401
        assert body["error"]["status"] == "UNAUTHENTICATED"
        assert body["error"]["message"] == (
            f"{message}Expected OAuth 2 access token, login cookie or other valid authentication credential. "
            "See https://developers.google.com/identity/sign-in/web/devconsole-project."
        )
        assert body["error"]["errors"][0]["reason"] == reason
        assert body["error"]["errors"][0]["location"] == "Authorization"


def test_what_the_api_does_not_serve_says_so(api: Api) -> None:
    status, body = api.call("PATCH", "zones/us-central1-a/instances/check", {})
    assert status == 404
    assert body["error"]["message"].startswith("The sandbox does not serve PATCH ")


def test_a_port_that_another_program_has_is_reported_with_a_hint(google: Google) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", google.workspace.compute_port))
        other.listen()
        with pytest.raises(Refused) as refused:
            google.cloud.configure(google.config)
    assert str(refused.value) == (
        f"gcp: the sandbox's Compute Engine API cannot listen on 127.0.0.1:{google.workspace.compute_port}\n"
        "  got: Address already in use\n"
        "  hint: another program uses the port; run the command again, or for plain pulumi remove "
        "sandbox/ports.json to choose another port"
    )


def test_a_port_that_the_server_of_the_sandbox_has_names_that_server(google: Google) -> None:
    with serve_lock_held(google.workspace), socket.socket() as other:
        other.bind(("127.0.0.1", google.workspace.compute_port))
        other.listen()
        with pytest.raises(Refused) as refused:
            google.cloud.configure(google.config)
    assert str(refused.value).splitlines()[1:] == [
        f"  got: pulumi-sandbox serve (process {os.getpid()}) may use the port",
        (
            "  hint: sandbox/serve.env is for the clients of that server; run pulumi-sandbox up, or plain pulumi in a "
            "shell without these variables"
        ),
    ]


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
