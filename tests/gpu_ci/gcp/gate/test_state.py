"""SmokeGate over gRPC: what it takes, when it is asked anew, and what is left of it."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from gpu_ci.gcp.gate import stopped
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_manager.suppliers.compute_engine import supplier
from pulumi.runtime.proto import engine_pb2, provider_pb2

from tests.gpu_ci.engine_stub import Plugin, secret
from tests.gpu_ci.gcp.gate.setting import INPUTS, TEMPLATE, URN, Setting, struct
from tests.gpu_ci.harness import UNKNOWN


def check(setting: Setting, inputs: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    response = setting.ask(lambda running: running.stub.Check(provider_pb2.CheckRequest(urn=URN, news=struct(inputs))))
    failures = [(failure.property, failure.reason) for failure in response.failures]
    return json_format.MessageToDict(response.inputs), failures


def test_check_lets_pass_what_is_not_known_yet_and_keeps_secrets(setting: Setting) -> None:
    project = secret("p")
    inputs, failures = check(setting, {**INPUTS, "template": UNKNOWN, "project": project})
    assert failures == []
    assert (inputs["template"], inputs["project"]) == (UNKNOWN, project)


def test_what_names_the_check_machine_cannot_be_secret(setting: Setting) -> None:
    _, failures = check(setting, {**INPUTS, "pool": secret("l4"), "zones": [secret("us-central1-a")]})
    assert failures == [
        ("", "pool: is a secret, and would be in plain text in the check machine's name"),
        ("", "zones: is a secret, and would be in plain text in the messages of the check"),
    ]


def diff_request(*, verdict: str = "pass", **changes: Any) -> Any:
    return provider_pb2.DiffRequest(
        urn=URN,
        old_inputs=struct(INPUTS),
        olds=struct({**INPUTS, "verdict": verdict, "summary": "in its words"}),
        news=struct({**INPUTS, **changes}),
    )


def diff(setting: Setting, *, verdict: str = "pass", **changes: Any) -> tuple[list[str], list[str]]:
    request = diff_request(verdict=verdict, **changes)
    response = setting.ask(lambda running: running.stub.Diff(request))
    changed = response.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert changed == bool(response.diffs)
    assert sorted(response.detailedDiff) == sorted(response.diffs)
    return sorted(response.diffs), sorted(response.replaces)


def test_nothing_changed_is_no_difference(setting: Setting) -> None:
    assert diff(setting) == ([], [])


@pytest.mark.parametrize("key", ["template", "project", "pool"])
def test_another_question_is_another_gate(setting: Setting, key: str) -> None:
    assert diff(setting, **{key: "other"}) == ([key], [key])


def test_a_template_not_yet_made_is_another_one(setting: Setting) -> None:
    assert diff(setting, template=UNKNOWN) == (["template"], ["template"])


@pytest.mark.parametrize("changes", [{"deadlineSec": 600}, {"zones": ["us-central1-c"]}, {"labels": {}}])
def test_how_to_ask_changes_without_asking_again(setting: Setting, changes: dict[str, Any]) -> None:
    assert diff(setting, **changes) == (list(changes), [])


def test_a_gate_that_is_unproven_is_asked_again_once_that_is_not_good_enough(setting: Setting) -> None:
    assert diff(setting, verdict="unproven", onNoCapacity="unproven") == (["onNoCapacity"], ["onNoCapacity"])
    assert diff(setting, verdict="pass", onNoCapacity="unproven") == (["onNoCapacity"], [])


@pytest.mark.parametrize(
    ("changes", "warnings"),
    [
        ({"verdict": "pass"}, 0),
        ({"verdict": "unproven"}, 1),
        ({"verdict": "unproven", "deadlineSec": 600}, 1),
        ({"verdict": "unproven", "template": "other"}, 0),  # it is asked anew, and will say itself what came of it
    ],
)
def test_every_preview_warns_of_what_is_still_unproven(
    setting: Setting, changes: dict[str, Any], warnings: int
) -> None:
    async def work(running: Plugin) -> list[Any]:
        await running.stub.Diff(diff_request(**changes))
        return running.monitor.logs

    logs = setting.ask(work)
    told = (
        "the pool uses a template that is unproven: in its words\n"
        f"  hint: run pulumi up --replace '{URN}' to check again, or set smoke.onNoCapacity: fail"
    )
    assert [(log.message, log.severity, log.ephemeral) for log in logs] == [
        (told, engine_pb2.WARNING, False)
    ] * warnings


def test_an_update_keeps_the_verdict(setting: Setting) -> None:
    old = {**INPUTS, "checkedTemplate": TEMPLATE, "verdict": "pass", "summary": "fine", "zone": "us-central1-a"}
    request = provider_pb2.UpdateRequest(urn=URN, olds=struct(old), news=struct({**INPUTS, "deadlineSec": 600}))
    response = setting.ask(lambda running: running.stub.Update(request))
    assert json_format.MessageToDict(response.properties) == {**old, "deadlineSec": 600}


def test_a_secret_template_stays_secret_in_what_comes_of_it(setting: Setting) -> None:
    wrapped = secret(TEMPLATE)
    identity, made = setting.create({**INPUTS, "template": wrapped})
    assert (identity, made["checkedTemplate"]) == ("l4/9e41af68ca53", wrapped)
    request = provider_pb2.UpdateRequest(urn=URN, olds=struct(made), news=struct(INPUTS))
    response = setting.ask(lambda running: running.stub.Update(request))
    assert json_format.MessageToDict(response.properties)["checkedTemplate"] == wrapped


def test_a_refresh_finds_the_gate_as_it_was_and_there_is_none_to_import(setting: Setting) -> None:
    async def work(running: Plugin) -> Any:
        known = provider_pb2.ReadRequest(
            id="l4/t", urn=URN, properties=struct({"verdict": "pass"}), inputs=struct(INPUTS)
        )
        return await running.stub.Read(known), await running.stub.Read(provider_pb2.ReadRequest(id="l4/t", urn=URN))

    found, imported = setting.ask(work)
    assert (found.id, json_format.MessageToDict(found.inputs)) == ("l4/t", INPUTS)
    assert imported.id == ""


def test_deleting_a_gate_removes_what_a_check_left(setting: Setting) -> None:
    setting.google.leftovers = {"us-central1-b": ["l4-check-old111"]}
    request = provider_pb2.DeleteRequest(urn=URN, properties=struct(INPUTS))
    setting.ask(lambda running: running.stub.Delete(request))
    assert setting.google.leftovers == {"us-central1-b": []}


def managed(name: str, status: str = "TERMINATED", **labels: str) -> dict[str, Any]:
    """A machine of the runner manager, from the gate's template where no label says otherwise."""
    own = {"gpu-ci-manager": "staging", "gpu-ci-template": "l4-template-1", "gpu-ci-pool": "l4"}
    zone = "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-f"
    return {"name": name, "zone": zone, "status": status, "labels": {**own, **labels}}


def names(setting: Setting) -> list[str]:
    return [row["name"] for row in setting.google.managed]


def deleted(setting: Setting) -> list[str]:
    """Return the log lines of the deletion of the gate."""

    async def work(running: Plugin) -> list[str]:
        await running.stub.Delete(provider_pb2.DeleteRequest(urn=URN, properties=struct(INPUTS)))
        return [log.message for log in running.monitor.logs]

    logs: list[str] = setting.ask(work)
    return logs


def test_deleting_a_gate_deletes_the_managers_stopped_machines_of_its_template_and_no_other(setting: Setting) -> None:
    """In any zone: steps of a ladder share the template, but not the zones of the gate."""
    by_hand = managed("by-hand")
    del by_hand["labels"]["gpu-ci-manager"]
    setting.google.managed = [
        managed("off-1"),
        managed("off-2"),
        managed("suspended", "SUSPENDED"),
        managed("has-a-job", "RUNNING"),
        managed("starts", "STAGING"),
        managed("started-since", **{"gpu-ci-job": "a"}) | {"status by now": "STAGING"},
        managed("of-a-newer-template", **{"gpu-ci-template": "l4-template-2"}),
        by_hand,
    ]
    assert deleted(setting) == [
        f"deleting {name}, which is stopped in us-central1-f" for name in ("off-1", "off-2", "suspended")
    ]
    assert names(setting) == ["has-a-job", "starts", "started-since", "of-a-newer-template", "by-hand"]
    assert [entry for entry in setting.google.log if entry[0] != "template"] == [
        ("list", "p"),
        *[("delete", "us-central1-f")] * 3,
    ]


def test_deleting_a_gate_waits_for_a_machine_that_stops_just_now(setting: Setting) -> None:
    setting.google.managed = [managed("stops", "STOPPING")]
    assert deleted(setting) == ["deleting stops, which is stopped in us-central1-f"]
    assert (names(setting), setting.clock.time) == ([], 20.0)


def test_stopped_machines_that_cannot_be_deleted_are_a_warning_with_googles_reason(setting: Setting) -> None:
    setting.google.managed = [managed("off")]
    setting.google.delete_error = ApiError("forbidden", "Required 'compute.instances.delete' permission", 403)
    [log] = deleted(setting)
    assert log.startswith("could not search for leftover machines: ")
    assert "compute.instances.delete" in log


def test_the_labels_of_the_managers_machines_are_those_that_the_manager_writes() -> None:
    assert (stopped.MANAGER_LABEL, stopped.TEMPLATE_LABEL) == (supplier.MANAGER, supplier.TEMPLATE)
