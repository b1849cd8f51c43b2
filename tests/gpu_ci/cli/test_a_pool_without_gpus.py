"""The output of check, cost and quota for a pool without GPUs next to a pool with GPUs."""

from __future__ import annotations

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.test_stack_commands import Stack

BUILDS = "gpu-ci:pools:\n    builds: {kind: cloud-build, region: europe-west4, machineType: e2-standard-8}"


def test_its_cost_is_nothing_at_rest_and_unknown_beyond(ask: Ask, stack: Stack) -> None:
    name = stack(("gpu-ci:pools:", BUILDS))
    answer = ask("cost", name)
    assert answer.rows[1:] == [
        ["builds", "e2-standard-8", "europe-west4", "unknown", "0.00", "unknown", "unknown", "unknown"],
        ["all", "0.00", ">= 2.05", ">= 1,495"],
    ]
    assert "unknown for builds (by the build-minute)" in " ".join(answer.out.split())
    [told] = ask("cost", name, "--json").json
    assert told["pools"]["builds"] == {
        "machine": "e2-standard-8",
        "usdPerHourAtRest": 0.0,
        "usdPerHourAtMax": "unknown",
        "usdWorstMonth": "unknown",
        "priceDate": "unknown",
        "billedBy": "build-minute",
    }
    assert (told["usdPerHourAtMax"], told["atLeast"]) == (2.0484, True)


def test_it_needs_none_of_the_quotas_that_are_known(ask: Ask, stack: Stack) -> None:
    [told] = ask("quota", stack(("gpu-ci:pools:", BUILDS)), "--json").json
    assert {need["region"] for need in told["needs"]} == {"us-central1", "global"}
