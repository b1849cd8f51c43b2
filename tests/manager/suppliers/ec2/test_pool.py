"""The configuration of a pool on EC2."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_manager.config import ConfigError, parse
from gpu_manager.memory import Memory, Pending, from_json, to_json

from tests.manager.test_config import CONFIG

RUNG = {
    "zone": "us-east-1a", "machineType": "g6.2xlarge", "market": "spot", "gpu": "nvidia-l4", "usdPerHour": 0.4,
    "subnet": "subnet-0a1b2c3d4e5f60718", "securityGroups": ["sg-0a1b2c3d4e5f60718"],
}  # fmt: skip
EC2_POOL: dict[str, Any] = {
    "supplier": "ec2", "name": "l4", "account": "123456789012", "template": "lt-0a1b2c3d4e5f60718:3", "max": 2,
    "labels": ["gpu"], "rungs": [RUNG], "mailbox": {"bucket": "acme-mail", "region": "us-east-1"},
}  # fmt: skip


def mistakes(**fields: Any) -> list[str]:
    with pytest.raises(ConfigError) as found:
        parse(json.dumps({**CONFIG, "pools": [{**EC2_POOL, **fields}]}).encode(), "manager.json")
    lines = str(found.value).splitlines()
    return [line.split(": ", 2)[1] for line in lines if line.startswith("manager.json")]


def test_a_pool_is_registered_by_the_manager_and_a_pending_request_outlives_a_restart() -> None:
    [pool] = parse(json.dumps({**CONFIG, "pools": [EC2_POOL]}).encode(), "manager.json").pools
    [rung] = pool.rungs
    memory = Memory(pending={"l4-0a1b2c3d": Pending("l4", rung, None, "request-1", 0.0)})
    kept = from_json(to_json(memory)).pending["l4-0a1b2c3d"].rung
    assert (pool.registered_by, rung.region) == ("manager", "us-east-1")
    assert (kept.zone, kept.machine_type, kept.market) == (rung.zone, rung.machine_type, rung.market)


def test_every_mistake_is_named_with_its_place() -> None:
    rungs = [
        {**RUNG, "zone": "us-east-1", "market": "flex-start", "template": "lt-1"},
        {**RUNG, "subnet": "l4", "securityGroups": [], "reservation": "block"},
        {**RUNG, "market": "reservation"},
        {**RUNG, "reservation": "cr-0a1b2c3d4e5f60718"},
    ]
    found = mistakes(account="acme", template="lt-0a1b2c3d4e5f60718", rungs=rungs, mailbox={"bucket": "Mail"})
    rung = "pools[0].rungs"
    assert sorted(found) == [
        "pools[0].account", "pools[0].mailbox.bucket", "pools[0].mailbox.region",
        f"{rung}[0].market", f"{rung}[0].template", f"{rung}[0].zone",
        f"{rung}[1].reservation", f"{rung}[1].securityGroups", f"{rung}[1].subnet", f"{rung}[2]", f"{rung}[3]",
        "pools[0].template",
    ]  # fmt: skip


def test_spot_machines_on_standby_and_machines_that_register_themselves_are_refused() -> None:
    assert mistakes(standby=1) == ["pools[0]"]
    standby = {**EC2_POOL, "standby": 1, "rungs": [{**RUNG, "market": "standard"}, RUNG]}
    assert parse(json.dumps({**CONFIG, "pools": [standby]}).encode(), "manager.json").pools[0].standby == 1
    assert mistakes(registeredBy="machine") == ["pools[0].registeredBy"]
