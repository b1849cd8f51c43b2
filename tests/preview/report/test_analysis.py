"""Tests of the analysis of a digest and of the engine's event log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview.engine.digest import parse
from gpu_preview.model import Amount, Cost, Severity, Stack, Violation
from gpu_preview.report.analysis import analyze, check_budget, cost

from tests.preview.reports import stack

STACK = "urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev"
SAME, MOVED, UPDATED = (f"urn:pulumi:dev::p::a:b/c:D::{name}" for name in ("same", "moved", "updated"))
SEALED = {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "ciphertext": "[secret]"}


def step(op: str, urn: str, before: Any, after: Any, was: str = "") -> dict[str, Any]:
    sides = {"oldState": {"urn": was or urn, "inputs": before}, "newState": {"urn": urn, "inputs": after}}
    for side in sides.values():
        side["type"] = urn.split("::")[2]
    return {"op": op, "urn": urn, **sides}


def advice(urn: str, level: str = "advisory") -> Violation:
    return Violation(policy="p", pack="x", level=level, text=urn, urn=urn)  # type: ignore[arg-type]


def ask(tmp_path: Path, violations: tuple[Violation, ...] = (), **outputs: Any) -> Stack:
    steps = [
        step("same", STACK, {}, {}),
        step("same", SAME, {"a": 1}, {"a": 1}),
        step("same", MOVED, {"a": 1}, {"a": 1}, was=f"{MOVED}-once"),
        step("update", UPDATED, {"a": 1}, {"a": 2}),
    ]
    metadata = {"type": "pulumi:pulumi:Stack", **{side: {"outputs": values} for side, values in outputs.items()}}
    log = tmp_path / "events"
    log.write_text(json.dumps({"resOutputsEvent": {"metadata": metadata}}) + "\n")
    given = stack("dev", violations=violations, policies="ran x")
    return analyze(given, parse(json.dumps({"steps": steps})), None, None, log, None)


def test_advice_on_what_stays_as_it_is_is_left_out(tmp_path: Path) -> None:
    given = (advice(SAME), advice(MOVED), advice(UPDATED), advice(SAME, "mandatory"))
    found = ask(tmp_path, given)
    assert [(each.urn, each.level) for each in found.violations] == [
        (MOVED, "advisory"),
        (UPDATED, "advisory"),
        (SAME, "mandatory"),
    ]


def test_a_stack_output_that_is_secret_no_longer_is_a_danger_by_the_log_alone(tmp_path: Path) -> None:
    found = ask(tmp_path, old={"key": SEALED, "kept": SEALED}, new={"key": "hunter2", "kept": SEALED})
    assert [each.text for each in found.findings] == ["Stack outputs: key was secret and is plain now"]
    assert [(each.path, each.before) for each in found.outputs] == [("key", "[secret]")]
    assert "hunter2" not in found.model_dump_json()


def outputs(tmp_path: Path, *steps: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the outputs in the report if one is new and has an unknown value."""
    unknown = {"key": pulumi_wire.UNKNOWN_STRING}
    metadata = {"type": "pulumi:pulumi:Stack", "old": {"outputs": {}}, "new": {"outputs": unknown}}
    log = tmp_path / "events"
    log.write_text(json.dumps({"resOutputsEvent": {"metadata": metadata}}) + "\n")
    found = parse(json.dumps({"steps": [step("same", STACK, {}, {}), *steps]}))
    judgement = analyze(stack("dev"), found, None, None, log, None)
    return [(each.path, each.after) for each in judgement.outputs]


def test_an_unknown_new_output_is_reported_where_a_resource_is_made_that_it_can_be_of(tmp_path: Path) -> None:
    moved, updated = step("same", MOVED, {}, {}, was=f"{MOVED}-once"), step("update", UPDATED, {"a": 1}, {"a": 2})
    assert outputs(tmp_path, moved, updated) == []
    for op in ("create", "replace"):
        assert outputs(tmp_path, moved, updated, step(op, SAME, {}, {})) == [("key", "(unknown)")]


L4 = "{kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a], market: spot, max: %d}"
BUILDS = "{kind: cloud-build, region: us-central1, machineType: e2-standard-2}"


def write(folder: Path, name: str, **pools: str) -> Path:
    path = folder / name
    lines = [f"    {pool}: {text}" for pool, text in pools.items()]
    path.write_text("\n".join(["config:", "  gcp:project: acme-ci", "  gpu-ci:pools:", *lines]) + "\n")
    return path


def amount(hour: float, month: float) -> Amount:
    return Amount(at_rest_usd_per_hour=0.0, at_max_usd_per_hour=hour, worst_month_usd=month)


def test_pools_that_come_go_and_stay(tmp_path: Path) -> None:
    before = write(tmp_path, "a.yaml", stays=L4 % 1, goes=L4.replace("spot", "standard") % 1)
    after = write(tmp_path, "b.yaml", stays=L4 % 1, comes=L4 % 3 + "\n")
    after.write_text(
        after.read_text().replace("us-central1-a], market: spot, max: 3", "us-central1-b], market: standard, max: 3")
    )
    found, findings = cost(before, after)
    assert found is not None
    assert findings == []
    assert [(each.pool, each.before is None, each.after is None) for each in found.pools] == [
        ("comes", True, False),
        ("goes", False, True),
    ]


def test_a_pool_with_another_maximum_has_both_numbers(tmp_path: Path) -> None:
    found, _ = cost(write(tmp_path, "a.yaml", l4=L4 % 4), write(tmp_path, "b.yaml", l4=L4 % 12))
    assert found is not None
    [pool] = found.pools
    assert [each and each.max_machines for each in (pool.before, pool.after, found.after)] == [4, 12, None]


def test_a_pool_billed_by_the_minute_has_no_price_and_makes_the_total_a_minimum(tmp_path: Path) -> None:
    found, _ = cost(None, write(tmp_path, "a.yaml", builds=BUILDS, l4=L4 % 1))
    assert found is not None
    assert found.before is None
    assert found.after is not None
    assert found.after.at_least
    assert found.pools[0].after == Amount(at_rest_usd_per_hour=0.0)
    only, _ = cost(None, write(tmp_path, "b.yaml", builds=BUILDS))
    assert only is not None
    assert only.after == Amount(at_rest_usd_per_hour=0.0, at_least=True)


ALIASES = "\n".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))


@pytest.mark.parametrize(
    "text",
    ["config: {a: [}", "config: " + "[" * 20_000, "config: {gpu-ci:pools: {l4: {kind: gce-runners, max: ghp_aaaaaa}}}",
     "config: {gpu-ci:pools: {secure: v1:x}}", "config: \xff", "a: " + "b" * 300_000, "config: &a {gpu-ci:pools: *a}",
     f"config:\n  a0: &a0 [x]\n{ALIASES}"],
    ids=range(8),
)  # fmt: skip
def test_a_file_that_is_broken_at_either_side_leaves_no_cost_and_a_note(tmp_path: Path, text: str) -> None:
    good, broken = write(tmp_path, "good.yaml", l4=L4 % 1), tmp_path / "broken.yaml"
    broken.write_bytes(text.encode("latin-1"))
    for sides, side in (((good, broken), "head"), ((broken, good), "base")):
        found, [finding] = cost(*sides)
        assert found is None
        assert finding.text == f"the cost is not known: the pools in the stack file of the {side} cannot be read"
        assert (finding.rule, finding.severity) == ("no-cost", Severity.NOTE)


def test_a_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to(write(tmp_path, "good.yaml", l4=L4 % 1))
    (tmp_path / "folder.yaml").mkdir()
    for name in ("link.yaml", "folder.yaml", "none.yaml"):
        found, [finding] = cost(None, tmp_path / name)
        assert (found, finding.rule) == (None, "no-cost")


def budget(after: Amount, before: Amount | None = None) -> list[tuple[str, str]]:
    found = check_budget(Cost(before=before, after=after), 1000.0)
    assert {each.rule for each in found} <= {"beyond-budget"}
    return [(each.severity.value, each.text) for each in found]


def test_a_worst_month_over_the_ceiling_is_a_danger() -> None:
    over = [("danger", "the worst month of all pools is 1,460 USD, over the ceiling of 1,000 USD")]
    assert budget(amount(2, 1460)) == over
    assert budget(amount(2, 1460), amount(1, 730)) == over
    assert budget(amount(1, 1000)) == []
    assert budget(amount(2, 1460), amount(2, 1460)) == []
    assert budget(amount(2, 1460), amount(3, 2190)) == []
    assert budget(amount(3, 1460), amount(2, 1460)) == []
    assert budget(Amount(), Amount()) == []
    least = Amount(worst_month_usd=1001, at_least=True)
    assert budget(least)[0][1] == "the worst month of all pools is at least 1,001 USD, over the ceiling of 1,000 USD"


def test_unknown_prices_are_reported_as_unknown() -> None:
    assert budget(Amount(worst_month_usd=10, at_least=True)) == [
        ("note", ("the worst month of all pools is at least 10 USD, so it is unknown whether the month is within the "
         "ceiling of 1,000 USD"))
    ]  # fmt: skip
    assert budget(Amount()) == [
        ("note", "no price is known, so it is unknown whether the worst month is within the ceiling of 1,000 USD")
    ]
