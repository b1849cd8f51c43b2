"""Compute Engine as a supplier: the machines that it creates, lists and deletes, and Google's errors."""

from __future__ import annotations

import json
from dataclasses import replace
from http.client import IncompleteRead
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError, Operation, QuotaInfo
from gpu_manager.decision.names import request_id, slug
from gpu_manager.model import End, InsertError, Machine, OperationState
from gpu_manager.ports import InsertRefused, Refused, Started, Supplier, Unavailable
from gpu_manager.suppliers.compute_engine.supplier import ComputeEngine

from tests.manager.suppliers.compute_engine.conftest import JOB, NOW, POOL, RUNG, Google, wanted
from tests.manager.suppliers.compute_engine.fake_compute import (
    NAME,
    OTHER_ACCOUNT,
    PROJECT,
    PROPERTIES,
    SPOT,
    TEMPLATE,
    ZONE,
)

RATE_LIMIT = ApiError("rateLimitExceeded", "Quota exceeded for guest attribute queries.", 429)
STOCKOUT = ApiError("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "none left", 503, ("us-central1-b",))
QUOTA = ApiError(
    "QUOTA_EXCEEDED", "Quota exceeded.", 403, quota=QuotaInfo("PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region")
)

MACHINE = Machine("l4-0a1b2c3d", "l4", ZONE, "RUNNING", "spot", "g2-standard-8", TEMPLATE, account=PROJECT)


def test_a_machine_is_the_template_with_a_name_and_labels_of_its_job(google: Google) -> None:
    port: Supplier = google.manager
    assert port.start(POOL, wanted()) == Started("operation-l4-0a1b2c3d", "1000000000000000000")
    assert google.api.asked[-1] == (
        "insert", PROJECT, ZONE, "l4-0a1b2c3d", TEMPLATE, request_id("l4-0a1b2c3d", ZONE)
    )  # fmt: skip
    assert google.api.machines[ZONE, "l4-0a1b2c3d"]["body"] == {
        "name": "l4-0a1b2c3d",
        "labels": {
            "team": "ml",
            "gpu-ci-pool": "l4",
            "gpu-ci-manager": "staging",
            "gpu-ci-job": slug(JOB.key),
            "gpu-ci-template": NAME,
            "gpu-ci-repository": "example-org-kernels-cu-e3a753",
            "gpu-ci-workflow": "ci-gpu-02cebc",
        },
        "metadata": PROPERTIES["metadata"],
    }


@pytest.mark.parametrize("workflow", ["", "ünï-cödé ♥ " * 20])
def test_labels_have_values_that_google_accepts(google: Google, workflow: str) -> None:
    insert = replace(wanted(), job=replace(JOB, workflow=workflow))
    google.manager.start(POOL, insert)
    own = google.api.machines[ZONE, "l4-0a1b2c3d"]["labels"]
    assert ("gpu-ci-workflow" in own) is bool(workflow)
    assert all(set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for value in own.values())
    assert max(map(len, own.values())) <= 63


def test_a_standard_rung_of_a_spot_pool_changes_the_scheduling_of_the_machine(google: Google) -> None:
    assert google.made(market="standard")["scheduling"] == {
        **SPOT,
        "provisioningModel": "STANDARD",
        "preemptible": False,
        "automaticRestart": True,
    }


AGENT = {"pool": "l4", "torch": "2.15.0", "driver": {"source": "installer", "branch": "nfb", "sha256": "ab"}}
OF_MANAGER = {"registered_by": "manager", "runner": {"version": "2.336.0"}, "reuse": True}
NETWORK = {"subnetwork": "projects/ci-project/regions/us-central1/subnetworks/ci"}


def test_a_copy_has_the_template_and_a_time_limit_and_no_runner_label_or_address(google: Google) -> None:
    items = [{"key": "gpu-agent-config", "value": json.dumps({**AGENT, **OF_MANAGER})}, {"key": "a", "value": "b"}]
    image = "projects/images/global/images/gpu-1"
    google.api.properties = {
        **PROPERTIES,
        "disks": [{"type": "SCRATCH"}, {"boot": True, "initializeParams": {"sourceImage": image}}],
        "metadata": {"items": items},
        "networkInterfaces": [{**NETWORK, "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
    }
    assert google.manager.software(POOL, RUNG) == {"image": image, "driver": "installer nfb ab", "torch": "2.15.0"}
    copy = google.manager.start_copy(POOL, replace(wanted(name="repro-l4-55"), job=None), 2)
    where = f"repro-l4-55 --zone {ZONE} --project {PROJECT}"
    assert (copy.connect, copy.end) == (
        f"gcloud compute ssh {where} --tunnel-through-iap",
        f"gcloud compute instances delete {where}",
    )
    assert google.api.asked[-1][:5] == ("insert", PROJECT, ZONE, "repro-l4-55", TEMPLATE)
    assert google.api.machines[ZONE, "repro-l4-55"]["body"] == {
        "name": "repro-l4-55",
        "labels": PROPERTIES["labels"],
        "metadata": {"items": [{"key": "gpu-agent-config", "value": json.dumps(AGENT)}, items[1]]},
        "scheduling": {**SPOT, "maxRunDuration": {"seconds": "7200"}},
        "networkInterfaces": [NETWORK],
    }


def test_google_looks_half_an_hour_for_a_flex_start_machine(google: Google) -> None:
    flex = {**SPOT, "provisioningModel": "FLEX_START", "preemptible": False}
    google.api.properties = {**PROPERTIES, "scheduling": flex}
    body = google.made(market="flex-start")
    assert body["params"] == {"requestValidForDuration": {"seconds": "1800"}}
    assert "scheduling" not in body
    assert "params" not in google.made(name="l4-00000002", market="spot")


def test_a_rung_with_its_own_template_creates_machines_from_it(google: Google) -> None:
    east = TEMPLATE.replace("us-central1", "us-east1").replace(NAME, "l4-us-east1-template-5d6e7f8")
    ladder = replace(POOL, rungs=(*POOL.rungs, replace(RUNG, zone="us-east1-b", template=east)))
    google.manager.start(ladder, wanted(zone="us-east1-b", template=east))
    assert google.api.asked == [
        ("template", PROJECT, "us-east1", "l4-us-east1-template-5d6e7f8"),
        ("insert", PROJECT, "us-east1-b", "l4-0a1b2c3d", east, request_id("l4-0a1b2c3d", "us-east1-b")),
    ]
    [machine] = google.machines([ladder])
    assert (machine.zone, machine.template) == ("us-east1-b", east)
    assert google.machines([POOL])[0].template == ""


@pytest.mark.parametrize(
    ("given", "rung", "problem"),
    [
        ("n1-standard-8", {}, "the template of a n1-standard-8 cannot make a g2-standard-8"),
        (
            "g2-standard-8",
            {"machine_type": "n1-standard-8"},
            "the template of a g2-standard-8 cannot make a n1-standard-8",
        ),
        ("g2-standard-8", {"market": "flex-start"}, "a template for spot cannot make a machine for flex-start"),
    ],
)
def test_a_rung_that_the_template_cannot_create_is_refused_without_a_request(
    google: Google, given: str, rung: dict[str, Any], problem: str
) -> None:
    google.api.properties = {**PROPERTIES, "machineType": given}
    with pytest.raises(InsertRefused) as caught:
        google.manager.start(POOL, wanted(**rung))
    assert caught.value.error == InsertError("refused", f"l4-0a1b2c3d in us-central1-a: {problem}")
    assert google.api.machines == {}


@pytest.mark.parametrize("label", ["gpu-ci-manager", "gpu-ci-job", "gpu-ci-pool"])
def test_a_machine_of_another_manager_with_the_same_name_is_an_error(google: Google, label: str) -> None:
    google.manager.start(POOL, wanted())
    google.api.machines[ZONE, "l4-0a1b2c3d"]["labels"][label] = "other"
    with pytest.raises(InsertRefused, match="The resource already exists") as caught:
        google.manager.start(POOL, wanted())
    assert caught.value.error.kind == "refused"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (STOCKOUT, InsertError("no-capacity", "none left", ("us-central1-b",))),
        (QUOTA, InsertError("over-quota", "Quota exceeded.", quota="PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region")),
        (ApiError("forbidden", "Required permission", 403), InsertError("refused", "Required permission")),
        (ApiError("backendError", "down", 503), None),
        (RATE_LIMIT, None),
        (ApiError("unreachable", "no route", 0), None),
        (ApiError("unauthenticated", "the token has expired", 0), None),
    ],
)
def test_a_refused_insert_has_a_kind_and_a_lost_one_is_unknown(
    google: Google, error: ApiError, expected: InsertError | None
) -> None:
    google.api.errors["insert"] = error
    if expected:
        with pytest.raises(InsertRefused) as caught:
            google.manager.start(POOL, wanted())
        assert caught.value.error == expected
    else:
        with pytest.raises(Unavailable, match=f"^insert of l4-0a1b2c3d in us-central1-a: {error.message}"):
            google.manager.start(POOL, wanted())


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ((False, None), OperationState(False, id="7")),
        ((True, None), OperationState(True, id="7")),
        ((True, STOCKOUT), OperationState(True, InsertError("no-capacity", "none left", ("us-central1-b",)), "7")),
        ((False, STOCKOUT), OperationState(True, InsertError("no-capacity", "none left", ("us-central1-b",)), "7")),
        ((True, ApiError("INTERNAL", "oops", 500)), OperationState(True, InsertError("no-capacity", "oops"), "7")),
        ((True, ApiError("PERMISSIONS", "no", 403)), OperationState(True, InsertError("refused", "no"), "7")),
        (None, OperationState(True)),
    ],
)
def test_the_state_of_an_operation_is_read(
    google: Google, ended: tuple[bool, ApiError | None] | None, expected: OperationState
) -> None:
    if ended:
        google.api.ended["o"] = Operation("o", *ended, target_id="7")
    assert google.manager.operation(POOL, RUNG, "o") == expected


def test_only_machines_of_this_manager_are_listed(google: Google) -> None:
    google.api.add("l4-0a1b2c3d")
    google.api.add("old-00000001", labels={"gpu-ci-manager": "staging", "gpu-ci-pool": "old"}, zone="us-east1-c",
                   scheduling={"provisioningModel": "STANDARD"})  # fmt: skip
    google.api.add("l4-check-1", labels={"gpu-ci-pool": "l4", "gpu-ci-gate": "x"})
    google.api.add("l4-prod", labels={"gpu-ci-pool": "l4", "gpu-ci-manager": "prod"})
    google.api.add("somebody", labels={})
    del google.api.add("unlabelled")["labels"]
    assert google.machines([POOL, replace(POOL, name="l4-large")]) == (
        Machine(
            "l4-0a1b2c3d",
            "l4",
            ZONE,
            "RUNNING",
            "spot",
            "g2-standard-8",
            TEMPLATE,
            account=POOL.account,
            job="0a1b2c3d4e5f",
            id="1000000000000000000",
        ),
        Machine(
            "old-00000001",
            "old",
            "us-east1-c",
            "RUNNING",
            "standard",
            "g2-standard-8",
            "",
            account=POOL.account,
            id="1000000000000000001",
        ),
    )
    assert google.api.asked == [("list", PROJECT, "labels.gpu-ci-manager=staging")]


def test_the_end_of_a_machine_that_is_off_is_read_once(google: Google) -> None:
    google.api.add("l4-0a1b2c3d", "TERMINATED")
    google.api.add("l4-00000002", "STOPPED")
    google.api.add("l4-00000003")
    google.api.attributes["l4-0a1b2c3d"] = (
        '{"reason":"no-tool","detail":"no \\u001b[31mopenssl","meaning":"m","next_step":"n","stops_pool":true,'
        '"step":"register","seconds":41.5}'
    )
    for _ in range(2):
        found = {machine.name: machine.end for machine in google.machines([POOL])}
        assert found == {
            "l4-0a1b2c3d": End("no-tool", "no  [31mopenssl", True),
            "l4-00000002": None,
            "l4-00000003": None,
        }
    read = [each[3] for each in google.api.asked if each[0] == "guest attribute"]
    assert read == ["l4-0a1b2c3d", "l4-00000002"]


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"reason":7}', '{"detail":"x"}', "[" * 100_000])
def test_an_end_in_an_unknown_form_is_ignored(google: Google, text: str) -> None:
    google.api.add("l4-0a1b2c3d", "TERMINATED")
    google.api.attributes["l4-0a1b2c3d"] = text
    [machine] = google.machines([POOL])
    assert (machine.end, machine.off) == (None, True)


def test_an_end_that_cannot_be_read_delays_a_deletion_for_five_minutes(google: Google) -> None:
    google.api.add("l4-0a1b2c3d", "TERMINATED")
    statuses = []
    for google.now[0] in (0.0, 299.0, 300.0, 310.0):
        google.api.errors["guest attribute"] = RATE_LIMIT
        statuses.append(google.machines([POOL])[0].status)
    assert statuses == ["STOPPING", "STOPPING", "TERMINATED", "TERMINATED"]


def test_machines_that_google_preempted_within_an_hour_of_the_last_one_are_named(google: Google) -> None:
    """Only Google's times count: the clock of the manager's computer may be hours ahead."""
    google.api.preempt("l4-old", NOW - 3611)
    google.api.preempt("l4-older", NOW - 9000)
    google.api.preempt("l4-0a1b2c3d", NOW - 3609)
    google.api.preempt("l4-00000003", NOW - 10, number="77")
    google.api.preempt("l4-00000002", NOW - 5, "us-central1-b")
    google.api.preempt("l4-elsewhere", NOW - 5, "us-east1-c")
    assert google.manager.preempted([POOL, replace(POOL, name="b")]) == {
        "l4-0a1b2c3d-1", "l4-00000002-1", "l4-00000003-77"
    }  # fmt: skip
    expression = 'operationType="compute.instances.preempted"'
    assert [each for each in google.api.asked if each[0] == "operations"] == [
        ("operations", PROJECT, zone, expression) for zone in (ZONE, "us-central1-b")
    ]


def test_starting_machines_are_found_by_their_inserts(google: Google) -> None:
    google.api.starts("l4-0a1b2c3d")
    google.api.starts("l4-00000002", status="DONE")
    google.api.starts("l4-00000003", kind="disks")
    google.api.starts("web-00000004")
    google.api.starts("l4-by-hand")
    google.api.starts("l4-00000005", status="PENDING", zone="us-central1-b", number="5")
    google.api.starts("l4-00000006", user=OTHER_ACCOUNT)
    found = google.manager.starting([POOL])
    assert [(each.name, each.pool, each.zone, each.status, each.account, each.id) for each in found] == [
        ("l4-0a1b2c3d", "l4", ZONE, "PROVISIONING", PROJECT, "1"),
        ("l4-00000005", "l4", "us-central1-b", "PROVISIONING", PROJECT, "5"),
    ]


@pytest.mark.parametrize(("user", "number", "expected"), [("", "", True), (OTHER_ACCOUNT, "", False), ("", "9", False)])
def test_a_machine_is_the_managers_if_google_says_that_its_account_inserted_it(
    google: Google, user: str, number: str, expected: bool
) -> None:
    """The labels and the name of the machine are right, and an earlier machine of the name was the manager's."""
    row = google.api.add("l4-0a1b2c3d")
    google.api.starts("l4-0a1b2c3d", "DONE", user=user or google.api.account, number=number or row["id"])
    google.api.starts("l4-0a1b2c3d", "DONE", number="8")
    [machine] = google.machines([POOL])
    assert [google.manager.owns(machine) for _ in range(2)] == [expected] * 2


def test_a_manager_with_the_login_of_a_user_learns_its_account_from_its_own_operations(google: Google) -> None:
    google.api.account, google.api.user = "", "ada@example.com"
    row = google.api.add("l4-0a1b2c3d")
    google.api.starts("l4-0a1b2c3d", "DONE", user="ada@example.com", number=row["id"])
    [machine] = google.machines([POOL])
    assert not google.manager.owns(machine)
    google.manager.start(POOL, wanted("l4-00000002"))
    assert google.manager.owns(machine)


def test_a_machine_that_another_account_gave_the_name_of_an_insert_is_an_error(google: Google) -> None:
    google.manager.start(POOL, wanted())
    assert google.manager.start(POOL, wanted()) == Started("", "1000000000000000000")
    google.api.machines[ZONE, "l4-0a1b2c3d"]["id"] = "9"
    with pytest.raises(InsertRefused, match="The resource already exists"):
        google.manager.start(POOL, wanted())


def test_a_machine_of_this_manager_is_deleted_and_one_that_is_gone_is_no_error(google: Google) -> None:
    google.api.add("l4-0a1b2c3d")
    google.manager.delete(MACHINE)
    assert google.api.machines == {}
    google.manager.delete(MACHINE)
    assert [each[0] for each in google.api.asked] == ["instance", "delete", "instance"]


@pytest.mark.parametrize("labels", [{}, {"gpu-ci-manager": "prod"}, {"gpu-ci-pool": "l4"}])
def test_a_machine_of_another_manager_is_never_deleted(google: Google, labels: dict[str, str]) -> None:
    google.api.add("l4-0a1b2c3d", labels=labels)
    with pytest.raises(Refused, match="its label gpu-ci-manager is not staging"):
        google.manager.delete(MACHINE)
    assert [each[0] for each in google.api.asked] == ["instance"]


def test_missing_credentials_are_reported_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CREDENTIALS", "/nowhere/planted-SECRET")
    with pytest.raises(Unavailable, match="GOOGLE_CREDENTIALS: does not contain credentials") as caught:
        ComputeEngine("staging").list([POOL])
    assert "SECRET" not in str(caught.value)


class BrokenGoogle:
    """Each call ends with an exception other than ApiError, as after an answer of a proxy."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            raise self._error

        return call


@pytest.mark.parametrize(
    "error", [KeyError("status"), ValueError("no JSON"), AttributeError("no dict"), IncompleteRead(b"")]
)
def test_an_answer_that_cannot_be_used_is_unavailable(error: Exception) -> None:
    manager = ComputeEngine("staging", BrokenGoogle(error))
    for ask in (
        lambda: manager.list([POOL]),
        lambda: manager.operation(POOL, RUNG, "operation-1"),
        lambda: manager.preempted([POOL]),
        lambda: manager.start(POOL, wanted()),
        lambda: manager.delete(MACHINE),
    ):
        with pytest.raises(Unavailable, match="Google's answer cannot be used"):
            ask()


def ready(google: Google, **changes: Any) -> Machine:
    google.api.add("l4-s1", "RUNNING", metadata={"fingerprint": "f", "items": []}, **changes)
    [found] = google.machines([POOL])
    return found


def test_a_stop_reads_the_machine_first_and_a_start_has_a_request_id(google: Google) -> None:
    machine = ready(google)
    google.manager.stop(machine)
    assert google.api.asked[-2:] == [("instance", PROJECT, ZONE, "l4-s1"), ("stop", PROJECT, ZONE, "l4-s1")]
    assert google.manager.start_again(machine, "request-1") == "operation-start"
    assert google.api.asked[-1] == ("start", PROJECT, ZONE, "l4-s1", "request-1")


@pytest.mark.parametrize("fault", ["its runner", "another id", "another manager"])
def test_another_machine_of_the_same_name_is_not_stopped(google: Google, fault: str) -> None:
    machine = ready(google)
    row = google.api.machines[ZONE, "l4-s1"]
    if fault == "its runner":
        row["metadata"]["items"] = [{"key": "gpu-agent-registration", "value": "x"}]
    elif fault == "another id":
        row["id"] = "9"
    else:
        row["labels"]["gpu-ci-manager"] = "prod"
    with pytest.raises(Refused):
        google.manager.stop(machine)
    assert google.api.asked[-1][0] == "instance"


@pytest.mark.parametrize("error", [ApiError("backendError", "try again", 503), ApiError("notFound", "gone", 404)])
def test_a_start_without_an_answer_or_a_machine_refuses_nothing(google: Google, error: ApiError) -> None:
    machine = ready(google)
    google.api.errors["start"] = error
    with pytest.raises(Unavailable):
        google.manager.start_again(machine, "request-1")


def test_the_end_of_a_machine_is_read_again_after_each_boot(google: Google) -> None:
    google.api.add("l4-s1", "TERMINATED")
    google.api.attributes["l4-s1"] = '{"reason": "stopped"}'
    assert [each.end for each in google.machines([POOL])] == [End("stopped")]
    google.api.machines[ZONE, "l4-s1"]["status"] = "RUNNING"
    google.machines([POOL])
    google.api.machines[ZONE, "l4-s1"]["status"] = "TERMINATED"
    google.api.attributes["l4-s1"] = '{"reason": "gpu-unhealthy"}'
    assert [each.end for each in google.machines([POOL])] == [End("gpu-unhealthy")]
