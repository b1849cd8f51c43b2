"""The runner manager's adapter, over Google's own client, against the sandbox's Compute Engine API."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from gpu_manager.compute.adapter import ComputeAdapter
from gpu_manager.decision.names import request_id, slug
from gpu_manager.model import End, Insert, Job, JobKey, Machine, Pool, Rung
from gpu_manager.ports import InsertRefused, Refused, Unavailable
from gpu_manager.registration import METADATA_KEY
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.machines.metadata import TOKEN, token_of
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record

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
machine=$(ask $here/name)-$(ask $here/id)
printf -v body '{"machine": "%s", "certificate": "a-public-key"}' "$machine"
ask -X PUT --data "$body" $here/guest-attributes/gpu-agent/key
echo published
until value=$(ask "$here/attributes/gpu-agent-registration?wait_for_change=true&last_etag=0&timeout_sec=5"); do
  sleep 0.2
done
echo "got $value"
while true; do sleep 0.1; done
"""
WAITS = "echo ready; while true; do sleep 0.1; done"
JOB = Job(JobKey("acme/kernels", 5, 55, 1), frozenset({"gpu"}), "queued", 0, workflow="CI")


@pytest.fixture
def manager(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[ComputeAdapter]:
    for name in ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", TOKEN)
    port = api.google.workspace.compute_port
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"http://127.0.0.1:{port}/compute/v1/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = ComputeAdapter("staging")
    yield made
    made.close()


def pool_of(api: Api, text: str, **metadata: str) -> Pool:
    scheduling = {**SPOT, "maxRunDuration": {"seconds": 3600}}
    boot = script(text, **metadata)
    template = api.google.template(name="l4", labels={"team": "ml"}, scheduling=scheduling, **boot)
    rungs = tuple(Rung(zone, "g2-standard-8", "spot") for zone in (ZONE, "us-central1-b"))
    return Pool("l4", PROJECT, template.id, rungs, 2, frozenset({"gpu"}))


def insert_of(pool: Pool, name: str = "l4-0a1b2c3d") -> Insert:
    return Insert("l4", name, pool.rungs[0], JOB, request_id(name, ZONE))


def only(machines: tuple[Machine, ...]) -> Machine:
    [machine] = machines
    return machine


def test_a_machine_is_made_ends_is_read_and_is_deleted(
    api: Api,
    manager: ComputeAdapter,
) -> None:
    pool = pool_of(api, BOOT)
    insert = insert_of(pool)
    made = manager.insert(pool, insert)
    operation = made.operation
    assert manager.insert(pool, insert) == made
    assert made.id == api.instance("l4-0a1b2c3d")["id"]
    api.until(lambda: manager.operation(pool, ZONE, operation).done, "the end of the insert")
    assert manager.operation(pool, ZONE, operation).error is None
    api.until(lambda: only(manager.machines([pool])).off, "a machine that is off")
    found = only(manager.machines([pool]))
    assert found == Machine(
        "l4-0a1b2c3d", "l4", ZONE, found.status, "spot", "g2-standard-8", pool.template, End("job-done"),
        project=PROJECT, job=slug(JOB.key), id=found.id,
    )  # fmt: skip
    assert api.instance("l4-0a1b2c3d")["labels"]["team"] == "ml"
    assert api.instance("l4-0a1b2c3d")["metadata"]["items"][0]["key"] in ("startup-script", "enable-guest-attributes")
    manager.delete(pool.project, ZONE, "l4-0a1b2c3d")
    manager.delete(pool.project, ZONE, "l4-0a1b2c3d")
    assert manager.machines([pool]) == ()


def test_a_registration_comes_to_the_machine_that_published_a_key(api: Api, manager: ComputeAdapter) -> None:
    pool = replace(pool_of(api, PUBLISHES), registered_by="manager")
    manager.insert(pool, insert_of(pool))
    # A key is read every 15 seconds; a new adapter reads it at once.
    api.until(lambda: "published" in api.serial("l4-0a1b2c3d"), "a machine with a key")
    fresh = ComputeAdapter("staging")
    machine = only(fresh.machines([pool]))
    fresh.close()
    assert (machine.unregistered, machine.key) == (True, "a-public-key")
    seen = manager.metadata(machine)
    assert manager.set_metadata(machine, seen, METADATA_KEY, "sealed")
    assert manager.set_metadata(machine, seen, METADATA_KEY, "another") is False
    assert only(manager.machines([pool])).sealed
    api.until(lambda: "got sealed" in api.serial("l4-0a1b2c3d"), "the value in the machine")


def test_a_preempted_machine_is_named(api: Api, manager: ComputeAdapter) -> None:
    pool = pool_of(api, WAITS)
    manager.insert(pool, insert_of(pool))
    api.until(lambda: "ready" in api.serial("l4-0a1b2c3d"), "a machine at work")
    assert manager.preempted([pool]) == frozenset()
    assert manager.starting([pool]) == (), "its insert has ended"
    api.google.world.add_fault(Fault("preempt", times=0))
    name = f"l4-0a1b2c3d-{api.instance('l4-0a1b2c3d')['id']}"
    api.until(lambda: manager.preempted([pool]) == {name}, "the operation of a preemption")


def test_a_machine_of_another_manager_is_neither_seen_nor_deleted(
    api: Api,
    manager: ComputeAdapter,
) -> None:
    pool = pool_of(api, WAITS)
    manager.insert(pool, insert_of(pool))
    other = ComputeAdapter("prod")
    assert other.machines([pool]) == ()
    with pytest.raises(Refused, match="its label gpu-ci-manager is not prod"):
        other.delete(pool.project, ZONE, "l4-0a1b2c3d")
    with pytest.raises(InsertRefused):
        other.insert(pool, Insert("l4", "l4-0a1b2c3d", pool.rungs[0], JOB, request_id("other", ZONE)))
    other.close()
    assert only(manager.machines([pool])).name == "l4-0a1b2c3d"


def test_a_machine_that_another_account_labelled_is_not_the_managers(api: Api, manager: ComputeAdapter) -> None:
    """An account of builds makes a machine with the labels of a pool, and its machine publishes a key of its own."""
    pool = replace(pool_of(api, PUBLISHES), registered_by="manager")
    manager.insert(pool, insert_of(pool))
    labels = api.instance("l4-0a1b2c3d")["labels"]
    email = "builds@ci-project.iam.gserviceaccount.com"
    grant = {"project": "ci-project", "role": "roles/owner", "member": f"serviceAccount:{email}"}
    api.google.world.insert(Record(types.PROJECT_MEMBER, "ci-project/builds", "builds", "", grant, grant))
    attacker = Api(api.google, f"Bearer {token_of(email)}")
    attacker.insert(pool.template, "l4-00000002", labels=labels)
    api.until(lambda: "published" in api.serial("l4-00000002"), "a machine with a key")
    fresh = ComputeAdapter("staging")
    fresh.insert(pool, insert_of(pool))
    listed = {machine.name: machine for machine in fresh.machines([pool])}
    assert listed["l4-00000002"].key == "a-public-key"
    assert {name: fresh.inserted(machine) for name, machine in listed.items()} == {
        "l4-0a1b2c3d": True,
        "l4-00000002": False,
    }
    fresh.close()


def test_no_secret_is_in_a_log_or_an_error(
    api: Api, manager: ComputeAdapter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pool = pool_of(api, WAITS, config="planted-in-metadata")
    errors = []

    def refused(ask: Callable[[], object]) -> None:
        with pytest.raises((InsertRefused, Refused, Unavailable)) as caught:
            ask()
        errors.append(f"{caught.value} {caught.value!r}")

    manager.insert(pool, insert_of(pool))
    manager.machines([pool])
    refused(lambda: manager.insert(pool, insert_of(pool, "Not_A_Name")))
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.planted-token")
    stranger = ComputeAdapter("staging")
    refused(lambda: stranger.machines([pool]))
    refused(lambda: stranger.insert(pool, insert_of(pool)))
    stranger.close()
    monkeypatch.setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "http://127.0.0.1:9/compute/v1/")
    monkeypatch.setattr("googleapiclient.http.time.sleep", lambda _: None)
    unreachable = ComputeAdapter("staging")
    refused(lambda: unreachable.machines([pool]))
    unreachable.close()
    everything = "\n".join([*errors, caplog.text, *(str(vars(record)) for record in caplog.records)])
    assert caplog.records
    secrets = (TOKEN, "planted-token", "planted-in-metadata")
    assert [secret for secret in secrets if secret in everything] == []
