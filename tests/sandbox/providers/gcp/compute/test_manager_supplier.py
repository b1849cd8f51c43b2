"""The runner manager's supplier Compute Engine, over Google's own client, against the sandbox's API."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_manager.decision.names import request_id
from gpu_manager.model import Offer, Pool
from gpu_manager.ports import InsertRefused, Refused, Unavailable
from gpu_manager.suppliers.compute_engine.supplier import ComputeEngine
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.machines.metadata import TOKEN, token_of
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record

from tests.manager.suppliers.contract import NAME, SupplierContract, insert_of, machines
from tests.sandbox.providers.gcp.api import ZONE, Api, script
from tests.sandbox.providers.gcp.conftest import PROJECT

SPOT = {
    "provisioningModel": "SPOT",
    "preemptible": True,
    "automaticRestart": False,
    "onHostMaintenance": "TERMINATE",
    "instanceTerminationAction": "STOP",
    "maxRunDuration": {"seconds": "3600"},
}
BOOT = """
root=http://$GCE_METADATA_HOST/computeMetadata/v1/instance/guest-attributes
curl -sf -X PUT -H 'Metadata-Flavor: Google' --data '{"reason":"job-done","detail":"","stops_pool":false}' \
  $root/gpu-agent/end
shutdown -h now
"""
PUBLISHES = """
ask() { curl -sf -H 'Metadata-Flavor: Google' "$@"; }
here=http://$GCE_METADATA_HOST/computeMetadata/v1/instance
until name=$(ask $here/name) && id=$(ask $here/id); do sleep 0.1; done
machine=$name-$id
printf -v body '{"machine": "%s", "certificate": "a-public-key"}' "$machine"
until ask -X PUT --data "$body" $here/guest-attributes/gpu-agent/key; do sleep 0.1; done
echo published
until value=$(ask "$here/attributes/gpu-agent-registration?wait_for_change=true&last_etag=0&timeout_sec=5"); do
  sleep 0.2
done
echo "got $value"
while true; do sleep 0.1; done
"""
WAITS = "echo ready; while true; do sleep 0.1; done"


@pytest.fixture
def manager(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[ComputeEngine]:
    for name in ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", TOKEN)
    port = api.google.workspace.compute_port
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"http://127.0.0.1:{port}/compute/v1/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = ComputeEngine("staging")
    yield made
    made.close()


def pool_of(api: Api, text: str, **metadata: str) -> Pool:
    scheduling = {**SPOT, "maxRunDuration": {"seconds": 3600}}
    boot = script(text, **metadata)
    template = api.google.template(name="l4", labels={"team": "ml"}, scheduling=scheduling, **boot)
    rungs = tuple(Offer(zone, "g2-standard-8", "spot") for zone in (ZONE, "us-central1-b"))
    return Pool("l4", PROJECT, template.id, rungs, 2, frozenset({"gpu"}))


class Google:
    """Compute Engine in the sandbox, as the vendor of the contract."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._api, self._monkeypatch = api, monkeypatch
        self._made: list[ComputeEngine] = []

    def supplier(self, manager: str = "staging") -> ComputeEngine:
        self._made.append(ComputeEngine(manager))
        return self._made[-1]

    def pool(self, does: str) -> Pool:
        return pool_of(self._api, {"ends": BOOT, "publishes": PUBLISHES, "waits": WAITS}[does])

    def received(self, name: str) -> str:
        return self._api.serial(name).rpartition("got ")[2].strip()

    def fail(self) -> None:
        self._monkeypatch.setattr("googleapiclient.http.time.sleep", lambda _: None)
        for method in ("instances_of_all_zones", "operations"):
            self._monkeypatch.setattr(f"gpu_ci.gcp.gate.compute_api.GoogleCompute.{method}", _refuses)

    def close(self) -> None:
        for each in self._made:
            each.close()


def _refuses(*_: object) -> None:
    raise ApiError("backendError", "down", 503)


@pytest.fixture
def vendor(api: Api, manager: ComputeEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    google = Google(api, monkeypatch)
    yield google
    google.close()


class TestComputeEngine(SupplierContract):
    def test_labels_and_metadata_of_the_template_stay(self, vendor: Google, api: Api) -> None:
        pool = vendor.pool("waits")
        vendor.supplier().start(pool, insert_of(pool))
        assert api.instance(NAME)["labels"]["team"] == "ml"
        keys = {each["key"] for each in api.instance(NAME)["metadata"]["items"]}
        assert "startup-script" in keys

    def test_a_name_that_another_manager_has_is_refused(self, vendor: Google) -> None:
        pool = vendor.pool("waits")
        vendor.supplier().start(pool, insert_of(pool))
        with pytest.raises(InsertRefused):
            vendor.supplier("prod").start(pool, replace(insert_of(pool), request_id=request_id("other", ZONE)))


def test_a_preempted_machine_is_named(api: Api, manager: ComputeEngine) -> None:
    pool = pool_of(api, WAITS)
    manager.start(pool, insert_of(pool))
    api.until(lambda: "ready" in api.serial("l4-0a1b2c3d"), "a machine at work")
    assert manager.preempted([pool]) == frozenset()
    assert manager.starting([pool]) == (), "its insert has ended"
    api.google.world.add_fault(Fault("preempt", times=0))
    name = f"l4-0a1b2c3d-{api.instance('l4-0a1b2c3d')['id']}"
    api.until(lambda: manager.preempted([pool]) == {name}, "the operation of a preemption")


def test_a_machine_that_another_account_labelled_is_not_the_managers(api: Api, manager: ComputeEngine) -> None:
    """An account of builds makes a machine with the labels of a pool, and its machine publishes a key of its own."""
    pool = replace(pool_of(api, PUBLISHES), registered_by="manager")
    manager.start(pool, insert_of(pool))
    labels = api.instance("l4-0a1b2c3d")["labels"]
    email = "builds@ci-project.iam.gserviceaccount.com"
    grant = {"project": "ci-project", "role": "roles/owner", "member": f"serviceAccount:{email}"}
    api.google.world.insert(Record(types.PROJECT_MEMBER, "ci-project/builds", "builds", "", grant, grant))
    attacker = Api(api.google, f"Bearer {token_of(email)}")
    attacker.insert(pool.template, "l4-00000002", labels=labels)
    api.until(lambda: "published" in api.serial("l4-00000002"), "a machine with a key")
    fresh = ComputeEngine("staging")
    fresh.start(pool, insert_of(pool))
    listed = {machine.name: machine for machine in machines(fresh, pool)}
    assert listed["l4-00000002"].key == "a-public-key"
    assert {name: fresh.owns(machine) for name, machine in listed.items()} == {
        "l4-0a1b2c3d": True,
        "l4-00000002": False,
    }
    fresh.close()


def test_no_secret_is_in_a_log_or_an_error(
    api: Api, manager: ComputeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pool = pool_of(api, WAITS, config="planted-in-metadata")
    errors = []

    def refused(ask: Callable[[], object]) -> None:
        with pytest.raises((InsertRefused, Refused, Unavailable)) as caught:
            ask()
        errors.append(f"{caught.value} {caught.value!r}")

    manager.start(pool, insert_of(pool))
    machines(manager, pool)
    refused(lambda: manager.start(pool, insert_of(pool, "Not_A_Name")))
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.planted-token")
    stranger = ComputeEngine("staging")
    refused(lambda: stranger.list([pool]))
    refused(lambda: stranger.start(pool, insert_of(pool)))
    stranger.close()
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "http://127.0.0.1:9/compute/v1/")
    monkeypatch.setattr("googleapiclient.http.time.sleep", lambda _: None)
    unreachable = ComputeEngine("staging")
    refused(lambda: unreachable.list([pool]))
    unreachable.close()
    everything = "\n".join([*errors, caplog.text, *(str(vars(record)) for record in caplog.records)])
    assert caplog.records
    secrets = (TOKEN, "planted-token", "planted-in-metadata")
    assert [secret for secret in secrets if secret in everything] == []
