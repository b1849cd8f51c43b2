"""The sandbox's Compute Engine API: what it makes, and the bodies of its errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE, fingerprint
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import Api, script
from tests.sandbox.providers.gcp.conftest import Google

CLIENT = """
import json, os, time
import google.auth
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

credentials, project = google.auth.default()
api = build("compute", "v1", static_discovery=True, credentials=credentials,
            client_options={"api_endpoint": os.environ["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"]})
here = {"project": project, "zone": "us-central1-a"}
template = api.regionInstanceTemplates().get(project=project, region="us-central1", instanceTemplate="l4").execute()
items = template["properties"]["metadata"]["items"] + [{"key": "gpu-ci-role", "value": "check"}]
begun = api.instances().insert(**here, sourceInstanceTemplate=template["selfLink"],
                               body={"name": "check", "metadata": {"items": items}}).execute()
done = {"status": "RUNNING"}
while done["status"] != "DONE":
    done = api.zoneOperations().get(**here, operation=begun["name"]).execute()
while api.instances().get(**here, instance="check").execute()["status"] != "TERMINATED":
    time.sleep(0.02)
found = api.instances().getGuestAttributes(**here, instance="check", queryPath="gpu-smoke/").execute()
api.instances().delete(**here, instance="check").execute()
try:
    api.instances().get(**here, instance="check").execute()
except HttpError as error:
    gone = [error.status_code, error.reason]
print(json.dumps([project, done["status"], done.get("error"), found["queryValue"], gone]))
"""
BOOT = """
root=http://$GCE_METADATA_HOST/computeMetadata/v1/instance
role=$(curl -sf -H 'Metadata-Flavor: Google' $root/attributes/gpu-ci-role)
curl -sf -X PUT -H 'Metadata-Flavor: Google' --data "pass as $role" $root/guest-attributes/gpu-smoke/verdict
shutdown -h now
"""


def test_googles_own_client_finds_credentials_and_checks_a_template_end_to_end(api: Api) -> None:
    google = api.google
    google.template(name="l4", **script(BOOT))
    environment = (
        google.workspace.child_environment()
        | google.workspace.environment()
        | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    )
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [
        "ci-project",
        "DONE",
        None,
        {"items": [{"namespace": "gpu-smoke", "key": "verdict", "value": "pass as check"}]},
        [404, "The resource 'projects/ci-project/zones/us-central1-a/instances/check' was not found"],
    ]
    assert google.world.find(INSTANCE) == []


def test_an_instance_is_its_template_with_the_requests_fields_over_it(api: Api) -> None:
    template = api.google.template(
        labels={"team": "ci"},
        metadata={"a": "1", "b": "2"},
        tags=["runner"],
        guestAccelerators=[{"type": "nvidia-l4", "count": 1}],
    )
    operation = api.insert(template.id, labels={"gate": "x"}, metadata={"items": [{"key": "b", "value": "3"}]})
    assert operation["status"] == "DONE"
    assert operation["operationType"] == "insert"
    instance = api.instance()
    assert instance["labels"] == {"team": "ci", "gate": "x"}
    assert instance["metadata"] == {
        "kind": "compute#metadata",
        "items": [{"key": "b", "value": "3"}],
        "fingerprint": fingerprint(instance["metadata"]["items"]),
    }
    assert instance["tags"] == {"items": ["runner"]}
    assert instance["guestAccelerators"] == [{"acceleratorType": "nvidia-l4", "acceleratorCount": 1}]
    assert instance["disks"][0]["initializeParams"]["diskSizeGb"] == 100
    assert instance["machineType"].endswith("/projects/ci-project/zones/us-central1-a/machineTypes/g2-standard-8")
    assert re.fullmatch(r"\d{19}", instance["id"])
    assert instance["status"] == "RUNNING"
    assert not {"sandboxGuest", "serialPortOutput", "guestAttributes"} & set(instance)
    assert api.google.world.find(INSTANCE)[0].origin == "api"


def test_a_secret_of_a_template_is_not_shown(api: Api) -> None:
    res = api.google.resource("gcp:compute/regionInstanceTemplate:RegionInstanceTemplate", "t", {})
    template = api.google.template(metadata={"token": "hush"})
    row = api.google.world.get(template.token, template.id)
    assert row is not None
    sealed = {"secret": "hmac-sha256:" + "0" * 64}
    api.google.world.update(res.token, template.id, inputs={**row.inputs, "metadata": {"token": sealed}})
    shown = api.ok("GET", f"regions/us-central1/instanceTemplates/{template.outputs['name']}")
    assert shown["properties"]["metadata"]["items"] == [{"key": "token", "value": "[secret]"}]


def test_instances_are_listed_by_label_name_and_status(api: Api) -> None:
    template = api.google.template().id
    for name in ("one", "two"):
        api.insert(template, name, labels={"gate": name})

    def names(**query: str) -> list[str]:
        return [row["name"] for row in api.ok("GET", "zones/us-central1-a/instances", **query)["items"]]

    assert names() == ["one", "two"]
    assert names(filter="labels.gate=two") == ["two"]
    assert names(filter='(labels.gate = "one") AND (status != TERMINATED)') == ["one"]
    assert names(filter="name=three") == []
    everywhere = api.ok("GET", "aggregated/instances", filter="labels.gate=one")["items"]
    assert [row["name"] for row in everywhere["zones/us-central1-a"]["instances"]] == ["one"]
    status, body = api.call("GET", "zones/us-central1-a/instances", filter="creationTimestamp>2026")
    assert (status, body["error"]["errors"][0]["reason"]) == (400, "invalid")


def test_a_slow_insert_runs_before_it_is_done(api: Api) -> None:
    template = api.google.template().id
    api.google.world.add_fault(Fault("slow", seconds=1.0))
    begun = api.ok("POST", "zones/us-central1-a/instances", {"name": "check"}, sourceInstanceTemplate=template)
    assert begun["status"] == "RUNNING"
    assert api.done(begun["name"])["status"] == "DONE"
    assert api.call("GET", f"zones/us-central1-b/operations/{begun['name']}")[0] == 404


def test_a_request_that_comes_again_under_its_id_begins_nothing_new(api: Api) -> None:
    template = api.google.template().id
    asked = {"sourceInstanceTemplate": template, "requestId": "6b0d5e3c-5f0a-4f6e-9d58-0d6c7f0a1b2c"}
    begun = api.ok("POST", "zones/us-central1-a/instances", {"name": "check"}, **asked)
    again = api.ok("POST", "zones/us-central1-a/instances", {"name": "check"}, **asked)
    assert again["name"] == begun["name"]
    status, refused = api.call(
        "POST", "zones/us-central1-a/instances", {"name": "check"}, sourceInstanceTemplate=template
    )
    assert (status, refused["error"]["errors"][0]["reason"]) == (409, "alreadyExists")
    path, identity = "zones/us-central1-a/instances/check", "7c0d5e3c-5f0a-4f6e-9d58-0d6c7f0a1b2c"
    gone = api.ok("DELETE", path, requestId=identity)
    assert api.ok("DELETE", path, requestId=identity)["name"] == gone["name"]
    assert api.call("DELETE", path)[0] == 404


def test_two_processes_serve_the_same_world_on_the_same_port(api: Api, tmp_path: Path) -> None:
    google = api.google
    api.insert(google.template().id)
    other = Google(tmp_path / "other")
    other.cloud.context.workspace = google.workspace
    other.cloud.context.world = google.world
    other.cloud.configure(other.config)
    assert other.cloud._server is not None
    # Which of the two answers is the system's choice: each of many must know the machine.
    assert {api.instance()["status"] for _ in range(20)} == {"RUNNING"}
    google.cloud.stop()
    api.off()
    other.cloud.stop()
