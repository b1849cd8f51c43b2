"""The rules of Google that no schema contains: what is refused, at which input, and what is accepted."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.gcp.rules import table
from pulumi_sandbox.providers.server import Servicer
from pulumi_sandbox.providers.values import UNKNOWN, at
from pulumi_sandbox.providers.wire import encode

from tests.sandbox.providers.fake_cloud import FakeCall
from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google
from tests.sandbox.providers.gcp.gke.pools import CLUSTER, L4, POOL, with_config

SPOT = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}
FLEX = {
    "provisioningModel": "FLEX_START",
    "automaticRestart": False,
    "instanceTerminationAction": "DELETE",
    "maxRunDuration": {"seconds": 3600},
    "onHostMaintenance": "TERMINATE",
}
SPECIFIC = {"type": "SPECIFIC_RESERVATION", "specificReservation": {"key": "k", "values": ["h200-of-ci"]}}
TRIGGER: dict[str, Any] = {
    "location": "us-central1",
    "serviceAccount": "projects/ci-project/serviceAccounts/builds@ci-project.iam.gserviceaccount.com",
    "build": {"steps": [{"name": "bash"}], "options": {"logging": "CLOUD_LOGGING_ONLY"}, "timeout": "600s"},
    "github": {"owner": "acme", "name": "kernels", "push": {"branch": "^main$"}},
}
PROVIDER: dict[str, Any] = {
    "workloadIdentityPoolId": "github",
    "workloadIdentityPoolProviderId": "actions",
    "attributeMapping": {"google.subject": "assertion.sub"},
    "attributeCondition": 'assertion.repository_owner_id == "9919"',
    "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
}
BOUND = {
    "project": "ci-project",
    "role": "roles/logging.logWriter",
    "member": "serviceAccount:runner@other-project.iam.gserviceaccount.com",
}


def template(**changes: Any) -> tuple[str, dict[str, Any]]:
    return types.REGION_TEMPLATE, {**TEMPLATE, **changes}


def scheduling(**fields: Any) -> tuple[str, dict[str, Any]]:
    return template(scheduling={"onHostMaintenance": "TERMINATE", **fields})


def n1(machine: str, card: str, count: int, **changes: Any) -> tuple[str, dict[str, Any]]:
    disks = [{"sourceImage": "one", "diskType": "pd-standard"}]
    cards = [{"type": card, "count": count}]
    return template(machineType=machine, guestAccelerators=cards, disks=disks, **changes)


def vm(disk: str | None = "pd-balanced", **changes: Any) -> tuple[str, dict[str, Any]]:
    boot = {"initializeParams": {"image": "one", "type": disk}}
    inputs = {**TEMPLATE, "disks": None, "bootDisk": boot, "zone": "us-central1-a", **changes}
    return INSTANCE, {name: value for name, value in inputs.items() if value is not None}


def trigger(**build: Any) -> tuple[str, dict[str, Any]]:
    return types.TRIGGER, {**TRIGGER, "build": {**TRIGGER["build"], **build}}


def nodes(**config: Any) -> tuple[str, dict[str, Any]]:
    return types.NODE_POOL, with_config(**config)


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a template": template(),
    "a template that is not known yet": template(machineType=UNKNOWN, scheduling=UNKNOWN, reservationAffinity=UNKNOWN),
    "spot": template(scheduling=SPOT),
    "flex start": template(scheduling=FLEX),
    "flex start for a time that is not known yet": template(
        scheduling={**FLEX, "maxRunDuration": {"seconds": UNKNOWN}}
    ),
    "a reservation": template(reservationAffinity=SPECIFIC),
    "a time limit of a standard machine": scheduling(
        maxRunDuration={"seconds": 60}, instanceTerminationAction="DELETE"
    ),
    "metadata of the largest size": template(metadata={"script": "x" * 262144}),
    "labels": template(labels={"team": "ci", "größe": "", "a-b_c": "1"}),
    "a T4 on N1": n1("n1-standard-4", "nvidia-tesla-t4", 1),
    "the GPUs of the machine type, repeated": template(guestAccelerators=[{"type": "nvidia-l4", "count": 1}]),
    "a subnetwork of a region that is newer than the sandbox": (
        types.SUBNETWORK,
        {"network": "default", "ipCidrRange": "10.10.0.0/20", "region": "mars-north1"},
    ),
    "a VM": vm(),
    "a VM with a disk of the API's choice": vm(None),
    "a VM in a zone that is not known yet": vm(machineType="a3-highgpu-8g", disk="pd-ssd", zone=UNKNOWN),
    "a VM with a T4": vm(machineType="n1-standard-4", guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 1}]),
    "a VM without a GPU": vm(machineType="e2-medium", scheduling=None),
    "a trigger": trigger(),
    "an identity of GitHub": (types.POOL_PROVIDER, PROVIDER),
    "another issuer without a condition": (
        types.POOL_PROVIDER,
        {**PROVIDER, "attributeCondition": "", "oidc": {"issuerUri": "https://login.example.com"}},
    ),
    "everyone": (types.PROJECT_MEMBER, {**BOUND, "member": "allAuthenticatedUsers"}),
    "a federated identity": (
        types.PROJECT_MEMBER,
        {**BOUND, "member": "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/*"},
    ),
    "a node pool": (types.NODE_POOL, POOL),
    "a node pool of a zonal cluster": (types.NODE_POOL, {**POOL, "location": "us-central1-a"}),
    "a cluster": (types.CLUSTER, CLUSTER),
}


@pytest.mark.parametrize(("token", "inputs"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_google_takes_is_accepted(google: Google, token: str, inputs: dict[str, Any]) -> None:
    assert google.problems(token, inputs) == []


GPU = "nodeConfig.guestAccelerators[0]"
# The paths of the problems, in order.
REFUSED: dict[str, tuple[tuple[str, dict[str, Any]], list[str]]] = {
    "live migration by default": (template(scheduling={}), ["scheduling.onHostMaintenance"]),
    "live migration of an attached GPU": (
        n1("n1-standard-4", "nvidia-tesla-t4", 1, scheduling={"onHostMaintenance": "MIGRATE"}),
        ["scheduling.onHostMaintenance"],
    ),
    "spot as standard": (
        scheduling(provisioningModel="SPOT"),
        ["scheduling.preemptible", "scheduling.automaticRestart"],
    ),
    "flex start without its fields": (
        scheduling(provisioningModel="FLEX_START"),
        ["scheduling.automaticRestart", "scheduling.instanceTerminationAction", "scheduling.maxRunDuration"],
    ),
    "flex start for more than seven days": (
        template(scheduling={**FLEX, "maxRunDuration": {"seconds": 604_801}}),
        ["scheduling.maxRunDuration.seconds"],
    ),
    "29 seconds": (scheduling(maxRunDuration={"seconds": 29}), ["scheduling.maxRunDuration.seconds"]),
    "an action that nothing leads to": (
        scheduling(instanceTerminationAction="DELETE"),
        ["scheduling.instanceTerminationAction"],
    ),
    "no name of a bound reservation": (
        template(
            machineType="a3-ultragpu-8g",
            disks=[{"sourceImage": "one", "diskType": "hyperdisk-balanced"}],
            scheduling={"provisioningModel": "RESERVATION_BOUND", "onHostMaintenance": "TERMINATE"},
        ),
        ["reservationAffinity.type"],
    ),
    "a reservation of spot machines": (
        template(scheduling=SPOT, reservationAffinity=SPECIFIC),
        ["reservationAffinity.type"],
    ),
    "a market without the machine": (
        template(machineType="a3-highgpu-1g", scheduling={"onHostMaintenance": "TERMINATE"}),
        ["scheduling.provisioningModel"],
    ),
    "a machine type that does not exist": (template(machineType="g2-standard-9"), ["machineType"]),
    "a GPU in addition to those of the machine": (
        template(guestAccelerators=[{"type": "nvidia-l4", "count": 2}]),
        ["guestAccelerators[0]"],
    ),
    "three T4": (n1("n1-standard-4", "nvidia-tesla-t4", 3), ["guestAccelerators[0].count"]),
    "an L4 on N1": (n1("n1-standard-4", "nvidia-l4", 1), ["guestAccelerators[0].type"]),
    "a GPU on N2": (n1("n2-standard-4", "nvidia-tesla-t4", 1), ["guestAccelerators[0]"]),
    "too large a machine for one T4": (n1("n1-standard-96", "nvidia-tesla-t4", 1), ["machineType"]),
    "a boot disk that the machine does not take": (
        template(machineType="a3-ultragpu-8g", scheduling={**SPOT, "onHostMaintenance": "TERMINATE"}),
        ["disks[0].diskType"],
    ),
    "a VM that migrates": (vm(scheduling=None), ["scheduling.onHostMaintenance"]),
    "a VM with three T4": (
        vm(machineType="n1-standard-4", guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 3}]),
        ["guestAccelerators[0].count"],
    ),
    "the boot disk of a VM": (vm("pd-standard"), ["bootDisk.initializeParams.type"]),
    "a VM in a zone without its machine": (vm(zone="us-central1-f"), ["zone"]),
    "a VM in a zone that does not exist": (vm(zone="us-central-1c"), ["zone"]),
    "the labels of a VM": (vm(labels={"Team": "ci"}), ["labels.Team"]),
    "too large metadata": (template(metadata={"script": "x" * 262145}), ["metadata.script"]),
    "too much metadata": (template(metadata={"a": "x" * 262144, "b": "x" * 262144}), ["metadata"]),
    "labels in capitals": (template(labels={"Team": "ci", "team": "CI"}), ["labels.Team", "labels.team"]),
    "every repository of GitHub": (
        (types.POOL_PROVIDER, {**PROVIDER, "attributeCondition": "true"}),
        ["attributeCondition"],
    ),
    "an identity without a subject": (
        (types.POOL_PROVIDER, {**PROVIDER, "attributeMapping": {"attribute.ref": "assertion.ref"}}),
        ["attributeMapping"],
    ),
    "a member that is only an address": ((types.PROJECT_MEMBER, {**BOUND, "member": "me@example.com"}), ["member"]),
    "GPUs without a machine type": (nodes(machineType=None), ["nodeConfig.machineType"]),
    "GPUs that the machine does not have": (nodes(guestAccelerators=[{**L4, "count": 2}]), [GPU]),
    "a zone without the GPU": (
        (types.NODE_POOL, {**POOL, "nodeLocations": ["us-central1-f"]}),
        ["nodeLocations[0]"],
    ),
    "nodes in another region": (
        (types.NODE_POOL, {**POOL, "nodeLocations": ["us-east1-b"]}),
        ["nodeLocations[0]"],
    ),
    "a node pool that is nowhere": ((types.NODE_POOL, {"cluster": "ci"}), ["location"]),
}


@pytest.mark.parametrize(("case", "paths"), REFUSED.values(), ids=REFUSED)
def test_what_google_refuses_is_refused_at_its_place(
    google: Google, case: tuple[str, dict[str, Any]], paths: list[str]
) -> None:
    token, inputs = case
    if "location" in paths:
        google.config.pop("region")
    assert [problem.partition(": ")[0] for problem in google.problems(token, inputs)] == paths


@pytest.mark.parametrize(("token", "field"), [(token, field) for token, row in table.PATTERNS.items() for field in row])
def test_a_name_of_another_form_is_refused(token: str, field: str) -> None:
    assert [problem.path for problem in table.rules(token, {field: "not a name!"})] == [field]


def test_a_zonal_group_without_a_zone_gets_the_providers_words(google: Google) -> None:
    assert google.problems(types.GROUP, {"baseInstanceName": "runner", "versions": [{"instanceTemplate": "x"}]}) == [
        "zone: zone: required field is not set\n  hint: set gcp:zone, or zone on the resource"
    ]


@pytest.mark.parametrize(
    ("token", "path", "inputs"),
    [
        (types.ACCOUNT, ("accountId",), {"accountId": "Hush_Hush"}),
        (types.PROJECT_MEMBER, ("role",), {**BOUND, "role": "hush-hush"}),
        (types.REGION_TEMPLATE, ("machineType",), {**TEMPLATE, "machineType": "g2-standard-9"}),
        (types.REGION_TEMPLATE, ("labels", "a"), {**TEMPLATE, "labels": {"a": "Hush Hush"}}),
    ],
)
def test_no_rule_quotes_a_secret(google: Google, token: str, path: tuple[str, ...], inputs: dict[str, Any]) -> None:
    servicer = Servicer(google.cloud, google.cloud.context)
    urn = f"urn:pulumi:dev::tests::{token}::one"
    answer = servicer.Check(pb.CheckRequest(urn=urn, news=encode(inputs, {path})), FakeCall())
    assert answer.failures
    assert all(at(inputs, path) not in failed.reason for failed in answer.failures)
