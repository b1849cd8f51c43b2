"""The calls by which machines are watched and controlled: lists in pages, operations, metadata, preemptions."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import discovery
from pulumi_sandbox.providers.gcp.compute import vm_store
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.machines.metadata import Machine
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.gcp.api import Api, printed, script

HERE = "zones/us-central1-a"
SPOT = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False, "onHostMaintenance": "TERMINATE"}
WAITS = """
root=http://$GCE_METADATA_HOST/computeMetadata/v1/instance
get() { curl -sf -H 'Metadata-Flavor: Google' "$root/$1"; }
told() {
  get preempted; echo
  curl -sf -X PUT -H 'Metadata-Flavor: Google' --data bye $root/guest-attributes/a/end
  exit
}
trap told TERM
echo ready
while true; do sleep 0.1; done
"""


def undocumented(schema: str, value: Any, path: str = "") -> list[str]:
    """The fields of an answer that Google's discovery document does not have."""
    properties = discovery.document("compute.v1")["schemas"][schema]["properties"]
    found: list[str] = []
    for key, inner in value.items():
        node = properties.get(key)
        if node is None:
            found.append(f"{path}{key}")
            continue
        below = node.get("items") or node.get("additionalProperties") or node
        rows = (
            list(inner.values()) if node.get("additionalProperties") else inner if isinstance(inner, list) else [inner]
        )
        found += [one for row in rows if "$ref" in below for one in undocumented(below["$ref"], row, f"{path}{key}.")]
    return found


def test_an_aggregated_list_comes_in_pages_and_names_zones_without_instances(api: Api) -> None:
    template = api.google.template().id
    for name, zone in (("one", "us-central1-a"), ("two", "us-central1-a"), ("three", "us-central1-b")):
        api.insert(template, name, zone, labels={"gpu-ci-pool": "l4"})
    api.insert(template, "other", labels={"gpu-ci-pool": "t4"})
    pages = []
    token = ""
    while not pages or token:
        query = {"filter": "labels.gpu-ci-pool=l4", "maxResults": "2", **({"pageToken": token} if token else {})}
        answer = api.ok("GET", "aggregated/instances", **query)
        assert undocumented("InstanceAggregatedList", answer) == []
        pages.append({zone: [row["name"] for row in of.get("instances", [])] for zone, of in answer["items"].items()})
        assert {of["warning"]["code"] for of in answer["items"].values() if "instances" not in of} == {
            "NO_RESULTS_ON_PAGE"
        }
        token = answer.get("nextPageToken", "")
    assert [page[HERE] for page in pages] == [["one", "two"], []]
    assert [page["zones/us-central1-b"] for page in pages] == [[], ["three"]]
    assert {page["zones/us-west1-b"] == [] for page in pages} == {True}
    for wrong in ({"pageToken": "nonsense"}, {"maxResults": "501"}):
        assert api.call("GET", "aggregated/instances", **wrong)[0] == 400


def test_operations_are_listed_by_type_and_target(api: Api) -> None:
    template = api.google.template().id
    api.insert(template, "one")
    api.insert(template, "two")
    api.ok("DELETE", f"{HERE}/instances/two")

    def types(query: str) -> list[str]:
        answer = api.ok("GET", f"{HERE}/operations", filter=query)
        assert undocumented("OperationList", answer) == []
        return [row["operationType"] for row in answer["items"]]

    target = "https://www.googleapis.com/compute/v1/projects/ci-project/zones/us-central1-a/instances/two"
    assert types("") == ["insert", "insert", "delete"]
    assert types(f'targetLink="{target}"') == ["insert", "delete"]
    assert types(f'(operationType="delete") AND (targetLink="{target}")') == ["delete"]
    assert types('operationType="compute.instances.preempted"') == []
    [made, _] = api.ok("GET", f"{HERE}/operations", filter='operationType="insert"')["items"]
    assert (made["targetId"], made["user"]) == (api.instance("one")["id"], "sandbox@ci-project.iam.gserviceaccount.com")
    assert api.ok("GET", "zones/us-central1-b/operations")["items"] == []


def test_metadata_is_set_by_who_knows_its_fingerprint_and_its_machine_hears_of_it(api: Api) -> None:
    text = """
echo ready
until curl -sf -H 'Metadata-Flavor: Google' http://$GCE_METADATA_HOST/computeMetadata/v1/instance/attributes/late; do
  sleep 0.1
done
echo
"""
    api.insert(api.google.template(**script(text)).id)
    api.until(lambda: printed(api.serial()) == ["ready"], "the machine waits")
    before = api.instance()["metadata"]
    assert undocumented("Metadata", before) == []
    assert re.fullmatch(r"[A-Za-z0-9+/]{11}=", before["fingerprint"])
    items = [*before["items"], {"key": "late", "value": "hello"}]
    status, body = api.call("POST", f"{HERE}/instances/check/setMetadata", {"items": items, "fingerprint": "AAAA"})
    assert (status, body["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")
    assert api.call("POST", f"{HERE}/instances/check/setMetadata", {"items": items})[0] == 412
    whole = {"items": items, "fingerprint": before["fingerprint"]}
    operation = api.ok("POST", f"{HERE}/instances/check/setMetadata", whole)
    assert (operation["operationType"], undocumented("Operation", operation)) == ("setMetadata", [])
    assert api.call("POST", f"{HERE}/instances/check/setMetadata", whole)[0] == 412
    assert api.instance()["metadata"]["items"] == items
    api.until(lambda: "hello" in printed(api.serial()), "the value in the machine")


def test_a_planted_preemption_takes_a_spot_machine_and_no_other(api: Api) -> None:
    template = api.google.template(**script(WAITS)).id
    api.insert(template, "kept")
    api.insert(template, "taken", scheduling=SPOT)
    api.until(lambda: "ready" in api.serial("taken") and "ready" in api.serial("kept"), "both machines at work")
    api.google.world.add_fault(Fault("preempt", times=0))
    assert printed(api.off("taken"))[-1] == "TRUE"
    record = api.google.world.find(INSTANCE)[1]
    assert record.outputs["guestAttributes"] == {"a": {"end": "bye"}}
    [operation] = api.ok("GET", f"{HERE}/operations", filter='operationType="compute.instances.preempted"')["items"]
    assert (operation["user"], operation["statusMessage"], operation["targetLink"].rpartition("/")[2]) == (
        "system",
        "Instance was preempted.",
        "taken",
    )
    assert operation["targetId"] == api.instance("taken")["id"]
    assert undocumented("Operation", operation) == []
    assert api.instance("kept")["status"] == "RUNNING"


def test_the_check_for_preemptions_has_ended_when_the_provider_has_stopped(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider closes the world next, which the check reads. Here the check waits when the stop begins."""
    monkeypatch.setattr(vm_store, "PREEMPTION_CHECK_SEC", 3600.0)
    api.insert(api.google.template(**script("sleep 60")).id, scheduling=SPOT)
    assert [thread.name for thread in threading.enumerate()].count("spot") == 1
    api.google.cloud.stop()
    assert [thread.name for thread in threading.enumerate()].count("spot") == 0


def test_a_reader_who_waits_for_a_change_gets_the_next_value_and_its_etag() -> None:
    tree: dict[str, Any] = {"instance": {"preempted": "FALSE"}}
    machine = Machine(lambda: tree, lambda: None, lambda *_: None)
    first = machine.answer("GET", "/instance/preempted", {}, "")
    waits = {"wait_for_change": ["true"], "last_etag": [first.headers["ETag"]], "timeout_sec": ["0"]}
    assert machine.answer("GET", "/instance/preempted", waits, "") == first
    threading.Timer(0.1, lambda: tree["instance"].update(preempted="TRUE")).start()
    later = machine.answer("GET", "/instance/preempted", {**waits, "timeout_sec": ["30"]}, "")
    assert (later.body, later.headers["ETag"] != first.headers["ETag"]) == ("TRUE", True)
    missing = {"wait_for_change": ["true"], "last_etag": ["0"], "timeout_sec": ["30"]}
    assert machine.answer("GET", "/instance/attributes/gpu-agent-registration", missing, "").status == 404
    machine.off.set()
    assert machine.answer("GET", "/instance/preempted", {"wait_for_change": ["true"]}, "").status == 503
