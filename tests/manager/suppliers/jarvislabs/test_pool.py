"""The configuration of a pool on Jarvis Labs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_manager.config import ConfigError, parse

from tests.manager.test_config import CONFIG

RUNG = {"zone": "IN2", "machineType": "1xH100", "gpu": "nvidia-h100", "usdPerHour": 2.69}
POOL: dict[str, Any] = {
    "supplier": "jarvislabs", "name": "h100", "account": "user-17", "template": "0" * 64, "max": 2, "labels": ["gpu"],
    "rungs": [RUNG], "mailbox": {"address": "gs://acme-mail"}, "standby": 1,
}  # fmt: skip


def mistakes(**fields: Any) -> list[str]:
    with pytest.raises(ConfigError) as found:
        parse(json.dumps({**CONFIG, "pools": [{**POOL, **fields}]}).encode(), "manager.json")
    lines = str(found.value).splitlines()
    return sorted(line.split(": ", 2)[1] for line in lines if line.startswith("manager.json"))


def test_a_pool_has_defaults() -> None:
    [pool] = parse(json.dumps({**CONFIG, "pools": [POOL]}).encode(), "manager.json").pools
    [rung] = pool.rungs
    assert (pool.registered_by, pool.storage_gb, rung.market, rung.region) == ("manager", 100, "standard", "IN2")  # type: ignore[attr-defined]


def test_every_mistake_is_named_with_its_place() -> None:
    rungs = [
        {**RUNG, "zone": "india-noida-01", "machineType": "H100", "market": "spot"},
        {**RUNG, "zone": "EU1", "machineType": "2xH100"},
        {**RUNG, "zone": "EU1", "machineType": "1xL4"},
    ]
    found = mistakes(
        name="training-h100", account="", template="l4", rungs=rungs, storageGb=50, mailbox={"address": "acme-mail"}
    )
    rung = "pools[0].rungs"
    assert found == [
        "pools[0].account", "pools[0].mailbox.address", "pools[0].name", f"{rung}[0].machineType", f"{rung}[0].market",
        f"{rung}[0].zone", f"{rung}[1]", f"{rung}[2]", "pools[0].storageGb", "pools[0].template",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {"mailbox": {"address": "s3://acme-mail", "region": "us-east-1"}},
        {"registeredBy": "machine"},
        {"mailbox": {"address": "s3://acme-mail"}},
        {"mailbox": {"address": "gs://acme-mail", "region": "us-east-1"}},
        {"reuse": 2, "standby": 0},
        {"reuse": 2, "runnerGroup": "gpu", "mailbox": {"address": "s3://acme-mail", "region": "us-east-1"}},
        {"reuse": 51, "runnerGroup": "gpu"},
    ],
)
def test_standby_and_mailbox_must_fit(fields: dict[str, Any]) -> None:
    assert len(mistakes(**fields)) == 1
