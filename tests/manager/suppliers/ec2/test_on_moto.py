"""The supplier on moto's server: the contract of suppliers, and what moto emulates of EC2's own behaviour."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from gpu_manager.model import End, Machine
from gpu_manager.ports import InsertRefused, Refused, Unavailable
from gpu_manager.reaper import reap
from gpu_manager.suppliers.ec2.pool import Ec2Pool
from gpu_manager.suppliers.ec2.supplier import Ec2

from tests.manager.suppliers.contract import NAME, SupplierContract, insert_of, machines, only, until
from tests.manager.suppliers.ec2.conftest import ACCOUNT, BUCKET, Moto

pytestmark = pytest.mark.slow


class TestEc2(SupplierContract):
    pass


def started(vendor: Moto) -> tuple[Ec2, Machine, str]:
    """Return a supplier with one machine, and the id of its instance."""
    supplier, pool = vendor.supplier(), vendor.pool("waits")
    supplier.start(pool, insert_of(pool))
    [row] = vendor.instances()
    return supplier, only(supplier.list([pool])), row["InstanceId"]


def test_the_instance_has_no_public_address_ends_at_its_shutdown_and_is_tagged(vendor: Moto) -> None:
    _, machine, instance = started(vendor)
    [row] = vendor.instances()
    tags = vendor.tags()
    behavior = vendor.ec2.describe_instance_attribute(
        InstanceId=instance, Attribute="instanceInitiatedShutdownBehavior"
    )
    volumes = vendor.ec2.describe_volumes()["Volumes"]
    assert tags == {
        "Name": NAME,
        "gpu-ci:manager": "staging",
        "gpu-ci:pool": "l4",
        "gpu-ci:job": machine.job,
        "gpu-ci:machine-id": machine.id,
        "gpu-ci:template": machine.template,
        "gpu-ci:registered-by": "manager",
    }
    assert [{each["Key"]: each["Value"] for each in volume["Tags"]} for volume in volumes] == [tags]
    assert (row.get("PublicIpAddress"), row["InstanceLifecycle"], row["ClientToken"]) == (None, "spot", machine.id)
    assert behavior["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


def test_a_machine_whose_instance_was_deleted_by_a_request_is_gone_with_its_mail(vendor: Moto) -> None:
    supplier, machine, _ = started(vendor)
    supplier.delete(machine)
    assert supplier.list([vendor.pool("ends")]) == ()
    assert vendor.s3.list_objects_v2(Bucket=BUCKET.bucket)["KeyCount"] == 0


@pytest.mark.parametrize("reported", ["", "idle"])
def test_an_instance_that_a_person_terminated_has_an_end_with_the_reason(vendor: Moto, reported: str) -> None:
    supplier, machine, instance = started(vendor)
    pool, mail = vendor.pool("ends"), f"staging/mail/{machine.id}/end"
    if reported:
        vendor.s3.put_object(Bucket=BUCKET.bucket, Key=mail, Body=json.dumps({"reason": reported}).encode())
    vendor.ec2.terminate_instances(InstanceIds=[instance])
    found = only(machines(supplier, pool))
    by_ec2 = End("stopped", "EC2 terminated the instance: Client.UserInitiatedShutdown")
    assert (found.off, found.end) == (True, End(reported) if reported else by_ec2)
    supplier.delete(found)
    assert supplier.list([pool]) == ()
    assert vendor.s3.list_objects_v2(Bucket=BUCKET.bucket)["KeyCount"] == 0


def test_a_machine_that_could_not_start_says_why(vendor: Moto) -> None:
    supplier, machine, instance = started(vendor)
    pool = vendor.pool("ends")
    vendor.end(instance, "Server.InsufficientInstanceCapacity")
    state = supplier.operation(pool, pool.rungs[0], machine.id)
    assert state.done
    assert state.error
    assert state.error.kind == "no-capacity"


def test_an_instance_without_a_record_and_a_copy_are_machines_until_they_are_deleted(vendor: Moto) -> None:
    supplier, machine, _ = started(vendor)
    pool = vendor.pool("ends")
    tags = [{"Key": key, "Value": value} for key, value in vendor.tags().items()]
    copy = vendor.ec2.run_instances(
        MinCount=1, MaxCount=1, ImageId="ami-12c6146b",
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )["Instances"][0]["InstanceId"]  # fmt: skip
    assert [(each.name, each.id) for each in supplier.list([pool])] == [(NAME, machine.id), (copy, copy)]
    supplier.delete(replace(machine, name=copy, id=copy))
    assert only(supplier.list([pool])).id == machine.id
    vendor.s3.delete_object(Bucket=BUCKET.bucket, Key=f"staging/records/{NAME}.json")
    fresh = vendor.supplier()
    left = only(fresh.list([pool]))
    assert (left.id, left.name, left.job, left.zone) == (machine.id, NAME, machine.job, machine.zone)
    fresh.delete(left)
    assert fresh.list([pool]) == ()


def on_standby(pool: Ec2Pool) -> Ec2Pool:
    return replace(pool, standby=1, rungs=(replace(pool.rungs[0], market="standard"),))


def user_data(vendor: Moto, instance: str) -> str:
    found = vendor.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
    return base64.b64decode(found).decode()


def test_a_stopped_instance_starts_with_another_script_and_a_new_key(vendor: Moto, monkeypatch: Any) -> None:
    """moto changes the user data of an instance that runs, too, and keeps its launch time at a start, unlike EC2."""
    supplier, pool = vendor.supplier(), on_standby(vendor.pool("publishes"))
    supplier.start(pool, insert_of(pool))
    [row] = vendor.instances()
    until(lambda: only(machines(vendor.supplier(), pool)).key, "the key")
    first, machine = user_data(vendor, row["InstanceId"]), only(machines(supplier, pool))
    with pytest.raises(Refused, match=r"its tag gpu-ci:manager is not prod"):
        vendor.supplier("prod").stop(machine)
    supplier.stop(machine)
    stopped = only(machines(supplier, pool))
    assert (stopped.status, stopped.end, stopped.unregistered) == ("STOPPED", None, True)
    assert abs(stopped.off_unix - time.time()) < 60
    # The URLs of a later request have another time.
    monkeypatch.setattr(vendor, "_boot", lambda _: None)
    time.sleep(1.1)
    supplier.start_again(stopped, "request-1")
    supplier.start_again(stopped, "request-1")
    again = only(machines(vendor.supplier(), pool))
    assert (again.status, again.id, again.key, again.off_unix) == ("RUNNING", machine.id, "", 0.0)
    second = user_data(vendor, row["InstanceId"])
    assert (second != first, second.startswith("#!")) == (True, True)
    assert len(vendor.instances()) == 1
    assert supplier.channel.send(again, supplier.channel.mailbox(again), "sealed")
    for request in (lambda: supplier.stop(again), lambda: supplier._mailboxes.renew(again)):
        with pytest.raises(Refused, match="has a runner"):
            request()


def test_a_stopped_instance_that_a_person_terminates_is_no_machine_on_standby(vendor: Moto) -> None:
    supplier, machine, instance = started(vendor)
    pool = vendor.pool("ends")
    supplier.stop(machine)
    vendor.ec2.terminate_instances(InstanceIds=[instance])
    found = only(machines(supplier, pool))
    assert (found.status, found.template) == ("TERMINATED", "")
    with pytest.raises(Unavailable, match="is terminated, and not stopped"):
        supplier.start_again(found, "request-1")
    supplier.delete(found)
    assert supplier.list([pool]) == ()


def test_the_reaper_terminates_the_stopped_instances_of_a_dead_pool_only(vendor: Moto) -> None:
    supplier, machine, _ = started(vendor)
    pool = on_standby(vendor.pool("ends"))
    supplier.stop(machine)
    for size, later_sec, state in ((1, 9e6, "stopped"), (0, 60, "stopped"), (0, 9e6, "terminated")):
        given: Any = {"ec2": (vendor.supplier, [replace(pool, standby=size)])}
        reap(given, None, lambda: time.time() + later_sec, deletes=True)  # noqa: B023
        assert vendor.instances()[0]["State"]["Name"] == state, (size, later_sec)


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_record_without_an_instance_starts_and_is_later_listed_for_its_end_only(
    vendor: Moto, has_ended: bool
) -> None:
    _, machine, instance = started(vendor)
    pool, now = vendor.pool("ends"), [0.0]
    if has_ended:
        vendor.s3.put_object(Bucket=BUCKET.bucket, Key=f"staging/mail/{machine.id}/end", Body=b'{"reason": "idle"}')
    vendor.forget(instance)
    supplier = Ec2("staging", BUCKET, monotonic=lambda: now[0])
    assert (only(supplier.starting([pool])).id, supplier.list([pool])) == (machine.id, ())
    supplier.delete(only(supplier.starting([pool])))
    assert only(supplier.starting([pool])).status == "PROVISIONING", "it may still appear"
    now[0] = Ec2.LISTED_WITHIN_SEC + 1
    found = machines(supplier, pool)
    assert [(each.off, each.end) for each in found] == ([(True, End("idle"))] if has_ended else [])
    for each in found:
        supplier.delete(each)
    assert supplier.list([pool]) == supplier.starting([pool]) == ()
    assert vendor.s3.list_objects_v2(Bucket=BUCKET.bucket)["KeyCount"] == 0


def test_a_repeated_request_has_the_whole_time_until_its_instance_must_be_listed(vendor: Moto) -> None:
    now, pool = [0.0], vendor.pool("waits")
    supplier = Ec2("staging", BUCKET, monotonic=lambda: now[0])
    supplier.start(pool, insert_of(pool))
    [instance] = vendor.instances()
    # The first request did not arrive.
    vendor.forget(instance["InstanceId"])
    assert len(supplier.starting([pool])) == 1
    now[0] = Ec2.LISTED_WITHIN_SEC
    supplier.start(pool, insert_of(pool))
    for row in vendor.instances():
        vendor.forget(row["InstanceId"])  # EC2 lists a new instance after some moments
    now[0] += Ec2.LISTED_WITHIN_SEC
    assert (supplier.list([pool]), only(supplier.starting([pool])).name) == ((), NAME)


def test_a_template_that_says_nothing_refuses_the_machine(vendor: Moto) -> None:
    pool = vendor.pool("waits")
    template_id = pool.template.partition(":")[0]
    data = {"ImageId": "ami-12c6146b", "UserData": base64.b64encode(b"#!/bin/bash").decode()}
    vendor.ec2.create_launch_template_version(LaunchTemplateId=template_id, LaunchTemplateData=data)
    for version, problem in ((2, "is not JSON"), (3, "VersionNotFound")):
        other = replace(pool, template=f"{template_id}:{version}")
        with pytest.raises(InsertRefused, match=problem) as refused:
            vendor.supplier().start(other, insert_of(other))
        assert refused.value.error.kind == "refused"
    assert vendor.instances() == []


def test_pools_of_another_account_or_mailbox_are_refused_before_a_list_lacks_machines(vendor: Moto) -> None:
    supplier, pool = vendor.supplier(), vendor.pool("waits")
    with pytest.raises(Refused, match=f"got {ACCOUNT}, expected 999999999999"):
        supplier.list([replace(pool, account="999999999999")])
    with pytest.raises(Refused, match="pool l4: its mailbox is not s3://acme-mail"):
        supplier.list([replace(pool, mailbox=replace(BUCKET, bucket="other"))])
    assert supplier.list([pool]) == ()
