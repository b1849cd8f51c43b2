"""The configuration of the manager: every mistake at once, with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.gcp.resource_names import ZONE
from gpu_manager.config import ConfigError, read

from tests.manager.test_decide import job

POOL: dict[str, Any] = {
    "name": "l4",
    "project": "example",
    "template": "projects/example/regions/us-central1/instanceTemplates/l4",
    "max": 2,
    "labels": ["GPU", "l4"],
    "rungs": [{"zone": "us-central1-a", "machineType": "g2-standard-8", "market": "spot", "gpu": "nvidia-l4"}],
}
CONFIG: dict[str, Any] = {
    "name": "staging",
    "github": {"owner": "acme", "appId": "37", "installationId": 38},
    "pools": [POOL],
}


def written(folder: Path, value: object) -> Path:
    file = folder / "manager.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return file


def test_every_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    broken = {
        **CONFIG,
        "pools": [{**POOL, "max": 0, "zones": []}, {**POOL, "rungs": [{**POOL["rungs"][0], "zone": "x"}]}],
    }
    file = written(tmp_path, broken)
    with pytest.raises(ConfigError) as found:
        read(file)
    lines = str(found.value).splitlines()
    assert lines.pop(5).startswith("  expected: one of name, project, template, rungs, max, ")
    assert lines == [
        f"{file}: pools[0].max: must be at least 1",
        "  got: 0",
        "  expected: The most machines at any time, 1 to 1000",
        f"{file}: pools[0].zones: unknown key",
        "  got: 'zones'",
        "  hint: remove it",
        f"{file}: pools[1].rungs[0].zone: has a form that is not accepted",
        "  got: 'x'",
        "  expected: A zone, such as us-central1-a",
        "  hint: pulumi stack output manager --json > manager.json",
    ]


@pytest.mark.parametrize("zone", ["us-central1-a", "us-south1-ai1b", "northamerica-northeast2-c"])
def test_a_zone_that_a_pool_may_have_is_accepted(tmp_path: Path, zone: str) -> None:
    """A stack's `up` exports it."""
    assert re.fullmatch(ZONE, zone)
    config = read(written(tmp_path, {**CONFIG, "pools": [{**POOL, "rungs": [{**POOL["rungs"][0], "zone": zone}]}]}))
    assert config.pools[0].rungs[0].zone == zone


@pytest.mark.parametrize(
    ("content", "problem"), [("{", "is not valid JSON"), ("[" * 100_000, "is not valid JSON"), (None, "cannot be read")]
)
def test_an_invalid_file_is_named(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "manager.json" if content is None else written(tmp_path, content)
    with pytest.raises(ConfigError, match=problem):
        read(file)


def test_a_pool_without_rungs_and_templates_of_another_form_are_refused(tmp_path: Path) -> None:
    far = {**POOL["rungs"][0], "template": "l4-far"}
    pools = [{**POOL, "rungs": []}, {**POOL, "template": "l4"}, {**POOL, "rungs": [far]}, {**POOL, "bootSec": 10**400}]
    with pytest.raises(ConfigError) as found:
        read(written(tmp_path, {**CONFIG, "pools": pools}))
    mistakes = [line.rpartition("json: ")[2] for line in str(found.value).splitlines() if "json: " in line]
    assert [each for each in mistakes if each.startswith("pools")] == [
        "pools[0].rungs: needs at least one",
        "pools[1].template: has a form that is not accepted",
        "pools[2].rungs[0].template: has a form that is not accepted",
        "pools[3].bootSec: must be at most 604800",
    ]


def test_an_unknown_supplier_has_its_place_and_what_looks_like_a_secret_is_not_printed(tmp_path: Path) -> None:
    token = f"ghp_{'A1b2C3d4' * 5}"
    pools = [POOL, {**POOL, "supplier": "toys"}, {**POOL, "supplier": token}]
    with pytest.raises(ConfigError) as found:
        read(written(tmp_path, {**CONFIG, "pools": pools}))
    text = str(found.value)
    assert "pools[1].supplier: unknown supplier\n  got: 'toys'\n  expected: one of compute-engine" in text
    assert "pools[2].supplier: unknown supplier" in text
    assert token not in text


def test_a_key_in_the_wrong_place_is_not_printed(tmp_path: Path) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "c2VjcmV0" * 100
    github = {**CONFIG["github"], "key": "c2VjcmV0", "appId": key}
    with pytest.raises(ConfigError) as found:
        read(written(tmp_path, {**CONFIG, "github": github}))
    assert "github.key" in str(found.value)
    assert "github.appId" in str(found.value)
    assert "c2VjcmV0" not in str(found.value)


def test_a_pool_has_standby_machines_only_where_the_manager_registers_runners(tmp_path: Path) -> None:
    registered = {**POOL, "registeredBy": "manager"}
    [two, none] = read(
        written(tmp_path, {**CONFIG, "pools": [{**registered, "standby": 2}, {**POOL, "name": "t4"}]})
    ).pools
    assert (two.standby, none.standby) == (2, 0)
    for pool, problem in (
        ({**POOL, "standby": 1}, "standby: needs registeredBy: manager"),
        ({**registered, "standby": 3}, "standby: 3 is more than max, which is 2"),
        ({**registered, "standby": -1}, "standby: must be at least 0"),
    ):
        with pytest.raises(ConfigError, match=problem):
            read(written(tmp_path, {**CONFIG, "pools": [pool]}))


def test_the_jobs_of_other_managers_are_known_by_the_labels_of_their_pools(tmp_path: Path) -> None:
    config = read(written(tmp_path, {**CONFIG, "otherPools": [{"manager": "a100s", "labels": ["A100"]}]}))
    assert (config.managers, read(written(tmp_path, CONFIG)).managers) == (2, 1)
    assert [config.is_of_another()(each) for each in (job(1, "a100"), job(2, "gpu", "l4"))] == [True, False]


def test_an_unknown_supplier_is_named_with_those_that_are_installed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown supplier\n  got: 'night'\n  expected: one of compute-engine"):
        read(written(tmp_path, {**CONFIG, "pools": [{**POOL, "supplier": "night"}]}))


def test_pools_that_a_scale_set_cannot_have_are_refused_with_every_mistake(tmp_path: Path) -> None:
    registered = {**POOL, "registeredBy": "manager"}
    pools = [
        {**registered, "labels": ["GPU", "l4"], "runnerGroup": "gpu"},
        {**registered, "name": "t4", "labels": ["gpu"], "runnerGroup": "gpu", "priorities": {"order": ["push"]}},
        {**POOL, "name": "a100", "labels": ["self-hosted", "a100"]},
        {**registered, "name": "h100", "labels": ["gpu"], "runnerGroup": "other"},
    ]
    others = [{"manager": "nights", "labels": ["gpu", "L4"], "runnerGroup": "gpu"}]
    given = {**CONFIG, "demand": "scaleSets", "pools": pools, "otherPools": others}
    with pytest.raises(ConfigError) as found:
        read(written(tmp_path, given))
    assert [
        line.rpartition("json: ")[2].split(":")[0] for line in str(found.value).splitlines() if "json: " in line
    ] == [
        "pools[0].labels",
        "pools[1].labels",
        "pools[1].priorities",
        "pools[2].labels",
        "pools[2].registeredBy",
    ]
    for each in ({"demand": "sweep"}, {"pools": pools[:1], "otherPools": []}):
        assert read(written(tmp_path, {**given, **each})).demand == {**given, **each}["demand"]
    with pytest.raises(ConfigError, match="demand: must be one of 'sweep' or 'scaleSets'"):
        read(written(tmp_path, {**CONFIG, "demand": "scalesets"}))
