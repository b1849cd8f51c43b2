"""Requests and errors that moto does not know, by botocore's Stubber, which checks them with the definition of EC2."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY

import pytest
from botocore.exceptions import NoCredentialsError
from botocore.parsers import ResponseParserError
from botocore.session import Session
from botocore.stub import Stubber
from gpu_manager.ports import InsertRefused, Refused, Unavailable
from gpu_manager.suppliers.ec2 import api
from gpu_manager.suppliers.ec2.supplier import Ec2

from tests.manager.suppliers.contract import insert_of
from tests.manager.suppliers.ec2.conftest import BUCKET, DEFINITION, REGION, SUBNET, Memory, pool

pytestmark = pytest.mark.slow
POOL = pool()
OTHER_ZONES = "You can currently get g6.2xlarge capacity by not specifying an Availability Zone in your request or "
OTHER_ZONES += "choosing us-east-1b, us-east-1c."


class Stubbed:
    """A supplier whose client gives the answers of a test, in their order."""

    def __init__(self, client: Any, stub: Stubber) -> None:
        self.stub, self.now = stub, 1_000.0
        self.requests: list[dict[str, Any]] = []
        self.memory = Memory()
        self.supplier = Ec2("staging", BUCKET, lambda *_: self.memory, self._unix)
        client.meta.events.register("provide-client-params.ec2.RunInstances", self._add)
        asked = {"LaunchTemplateId": POOL.template.partition(":")[0], "Versions": ["1"]}
        data = {"UserData": base64.b64encode(DEFINITION.text().encode()).decode()}
        answer = {"LaunchTemplateVersions": [{"LaunchTemplateData": data}]}
        stub.add_response("describe_launch_template_versions", answer, asked)

    def _add(self, params: dict[str, Any], **_: Any) -> None:
        self.requests.append(params)

    def _unix(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, aws: None, session: Session) -> Any:
    made = session.create_client("ec2", region_name=REGION)
    monkeypatch.setattr(api.Clients, "__call__", lambda *_: made)
    return made


@pytest.fixture
def ec2(client: Any) -> Iterator[Stubbed]:
    with Stubber(client) as stub:
        yield Stubbed(client, stub)
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InsufficientInstanceCapacity", 500, "no-capacity"),
        ("InsufficientHostCapacity", 500, "no-capacity"),
        ("InsufficientReservedInstanceCapacity", 500, "no-capacity"),
        ("InsufficientCapacity", 500, "no-capacity"),
        ("InsufficientFreeAddressesInSubnet", 400, "no-capacity"),
        ("ReservationCapacityExceeded", 400, "no-capacity"),
        ("SpotMaxPriceTooLow", 400, "no-capacity"),
        ("Unsupported", 400, "no-capacity"),
        ("MaxSpotInstanceCountExceeded", 400, "over-quota"),
        ("VcpuLimitExceeded", 400, "over-quota"),
        ("InstanceLimitExceeded", 400, "over-quota"),
        ("VolumeLimitExceeded", 400, "over-quota"),
        ("MaxIOPSLimitExceeded", 400, "over-quota"),
        ("UnauthorizedOperation", 403, "refused"),
        ("InvalidParameterCombination", 400, "refused"),
        ("InvalidSubnetID.NotFound", 400, "refused"),
        ("PendingVerification", 400, "refused"),
        ("RequestLimitExceeded", 503, "unavailable"),
        ("Unavailable", 503, "unavailable"),
        ("InternalError", 500, "unavailable"),
        ("SomethingNew", 500, "unavailable"),
        ("IdempotentParameterMismatch", 400, "unavailable"),
        ("AuthFailure", 401, "unavailable"),
        ("RequestExpired", 400, "unavailable"),
    ],
)
def test_each_error_of_a_request_for_a_machine_has_its_kind(ec2: Stubbed, code: str, status: int, kind: str) -> None:
    ec2.stub.add_client_error("run_instances", code, OTHER_ZONES, status)
    with pytest.raises(Unavailable if kind == "unavailable" else InsertRefused) as found:
        ec2.supplier.start(POOL, insert_of(POOL))
    if isinstance(found.value, InsertRefused):
        zones = ("us-east-1b", "us-east-1c") if kind == "no-capacity" else ()
        assert (found.value.error.kind, found.value.error.zones_available) == (kind, zones)
    assert bool(ec2.memory.objects) == (kind == "unavailable"), "only a request that may be repeated keeps its record"


def test_a_repeated_request_has_the_same_client_token_and_parameters(ec2: Stubbed) -> None:
    for _ in range(2):
        ec2.stub.add_client_error("run_instances", "InternalError", http_status_code=500)
        with pytest.raises(Unavailable):
            ec2.supplier.start(POOL, insert_of(POOL))
        ec2.stub.add_response("describe_instances", {"Reservations": []})
    ec2.stub.add_response("run_instances", {})
    started = ec2.supplier.start(POOL, insert_of(POOL))
    first, second, third = ec2.requests
    assert first == second == third
    assert (first["ClientToken"], started.id) == (started.id, first["ClientToken"])


def test_a_record_of_a_place_that_the_pool_no_longer_has_is_dropped(ec2: Stubbed) -> None:
    ec2.stub.add_client_error("run_instances", "InternalError", http_status_code=500)
    with pytest.raises(Unavailable):
        ec2.supplier.start(POOL, insert_of(POOL))
    ec2.stub.add_response("describe_instances", {"Reservations": []})
    other = replace(POOL, rungs=(replace(POOL.rungs[0], market="standard"),))
    with pytest.raises(Unavailable, match="no longer a place"):
        ec2.supplier.start(other, insert_of(other))
    assert ec2.memory.objects == {}


SPOT = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
SPOT_ONLY = ["spot-instances-request"]
CAPPED = {**SPOT, "MaxPrice": "0.5"}
RESERVATION = "cr-0a1b2c3d4e5f60718"
TARGET = {"CapacityReservationTarget": {"CapacityReservationId": RESERVATION}}


@pytest.mark.parametrize(
    ("market", "fields", "ceiling", "wanted"),
    [
        ("spot", {}, None, {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": SPOT}}),
        ("spot", {}, 0.5, {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": CAPPED}}),
        ("standard", {}, 0.5, {}),
        ("standard", {"reservation": RESERVATION}, None, {"CapacityReservationSpecification": TARGET}),
        (
            "reservation", {"reservation": RESERVATION}, None,
            {"InstanceMarketOptions": {"MarketType": "capacity-block"}, "CapacityReservationSpecification": TARGET},
        ),
    ],
)  # fmt: skip
def test_a_request_has_the_market_of_its_rung(
    ec2: Stubbed, market: str, fields: dict[str, str], ceiling: float | None, wanted: dict[str, Any]
) -> None:
    rung = replace(POOL.rungs[0], market=market, **fields)
    chosen = replace(POOL, rungs=(rung,), price_ceiling_usd=ceiling)
    ec2.stub.add_response("run_instances", {})
    ec2.supplier.start(chosen, insert_of(chosen))
    [request] = ec2.requests
    assert {key: request[key] for key in request if "Market" in key or "Reservation" in key} == wanted
    assert [each["ResourceType"] for each in request["TagSpecifications"]][2:] == SPOT_ONLY[: market == "spot"]
    [interface] = request["NetworkInterfaces"]
    assert (interface["SubnetId"], interface["AssociatePublicIpAddress"]) == (SUBNET, False)
    assert (request["MinCount"], request["MaxCount"]) == (1, 1)


def test_a_spot_machine_is_preempted_for_an_hour_after_its_notice_or_its_end(client: Any) -> None:
    def interrupted(name: str, minutes: int) -> dict[str, Any]:
        tags = [{"Key": "Name", "Value": name}, {"Key": "gpu-ci:machine-id", "Value": "0a1b2c3d4e5f"}]
        at = datetime(2026, 12, 1, 12, minutes % 60, tzinfo=UTC) - timedelta(hours=minutes // 60)
        return {"Tags": tags, "Status": {"Code": "marked-for-termination", "UpdateTime": at}}

    supplier = Ec2("staging", BUCKET, Memory)
    with Stubber(client) as stub:
        filters = [{"Name": "tag:gpu-ci:manager", "Values": ["staging"]}, {"Name": "status-code", "Values": ANY}]
        answer = {"SpotInstanceRequests": [interrupted("l4-1", 5), interrupted("l4-2", 50), interrupted("l4-3", 109)]}
        asked = {"Filters": filters, "MaxResults": 1000}
        stub.add_response("describe_spot_instance_requests", answer, asked)
        assert supplier.preempted([POOL]) == {"l4-1-0a1b2c3d4e5f", "l4-2-0a1b2c3d4e5f"}
        standard = replace(POOL, rungs=(replace(POOL.rungs[0], market="standard"),))
        assert supplier.preempted([standard]) == frozenset()


def test_no_error_of_a_list_is_an_empty_list(monkeypatch: pytest.MonkeyPatch, client: Any) -> None:
    clients = api.Clients()
    with Stubber(client) as stub:
        for code, error in (("UnauthorizedOperation", Refused), ("RequestLimitExceeded", Unavailable)):
            stub.add_client_error("describe_instances", code)
            with pytest.raises(error, match=f"describe_instances in us-east-1: {code}"):
                clients.instances(REGION, {})
    for problem in (NoCredentialsError(), ResponseParserError("a page of a proxy")):
        monkeypatch.setattr(client, "get_paginator", lambda _, problem=problem: (_ for _ in ()).throw(problem))
        with pytest.raises(Unavailable):
            clients.instances(REGION, {})
