"""`gpu-ci check` of usual mistakes: one problem for each, with the hint that corrects it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gpu_ci.cli.conftest import Ask

Stack = Callable[..., str]
SITE = "config:\n  gpu-ci:site: {subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}"
APP = "{appId: 17, installationId: 18, privateKey: projects/acme-ci/secrets/k}"
N1 = "n1-standard-8\n      guestAccelerator: "

MISTAKES: dict[str, tuple[tuple[str, str], list[tuple[str, str]]]] = {
    "another name of the market": (("market: spot", "market: preemptible"), [("pools.l4.market", "did you mean spot")]),
    "a wrong letter": (
        ("max: 4", "max: 4\n      diskType: pd-standart"),
        [("pools.l4.diskType", "did you mean pd-standard")],
    ),
    "hours": (
        ("max: 4", "max: 4\n      maxRunDurationSec: 4h"),
        [("pools.l4.maxRunDurationSec", "write it in seconds: maxRunDurationSec: 14400")],
    ),
    "a size with its unit": (
        ("max: 4", "max: 4\n      diskGib: 200GB"),
        [("pools.l4.diskGib", "write it in GiB: diskGib: 200")],
    ),
    "a number in quotes": (("max: 4", 'max: "4"'), [("pools.l4.max", "write it without quotes: max: 4")]),
    "a GPU instead of a map": (
        ("g2-standard-8", f"{N1}nvidia-tesla-t4"),
        [("pools.l4.guestAccelerator", "such as guestAccelerator: {type: nvidia-tesla-t4}")],
    ),
    "a list of pools": (
        ("    l4:\n      kind", "    - name: l4\n      kind"),
        [("pools", "write each pool under its name, such as l4: {kind: gce-runners, …}")],
    ),
    "no space after the only colon": (
        ("    l4:\n", "    t4:\n      max:4\n    l4:\n"),
        [("pools.t4", "write key: value, with a space after the colon")],
    ),
    "a misspelt key of the site": (
        ("config:", f"{SITE.replace('subnetworks:', 'subnetwork:')}}}"),
        [("site.subnetwork", "did you mean subnetworks")],
    ),
}  # fmt: skip
CLUSTER = "  gpu-ci:clusters: {ci: {region: us-east-1, subnets: {us-east-1a: subnet-0a1b2c3d4e5f60001}}}\n"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_problem_with_the_hint_that_corrects_it(ask: Ask, stack: Stack, mistake: str) -> None:
    change, expected = MISTAKES[mistake]
    clusters = [("  gpu-ci:pools:", f"{CLUSTER}  gpu-ci:pools:")] if "cluster" in mistake else []
    [found] = ask("check", stack(change, *clusters), "--json").json
    assert [(each["path"].removeprefix("gpu-ci:"), each["hint"]) for each in found["problems"]] == expected
    assert found["notes"] == []


def test_a_misspelt_runner_group_is_not_noted_as_missing_too(ask: Ask, stack: Stack) -> None:
    app = APP.replace("appId", "id")
    site = f"{SITE}, github: {{owner: acme, plan: team, managerApp: {app}}}}}"
    name = stack(("config:", f"{site}\n  gpu-ci:github: {{runnergroup: {{repositories: [web]}}}}"))
    [found] = ask("check", name, "--json").json
    assert [each["path"] for each in found["problems"]] == ["gpu-ci:github.runnergroup"]
    assert found["notes"] == []


def test_keys_at_the_top_of_the_file_are_told_to_be_below_config(ask: Ask, stack: Stack) -> None:
    answer = ask("check", stack(text="gpu-ci:pools:\n  l4: {kind: gce-runners}\n"))
    assert answer.err.endswith("  hint: put gpu-ci:pools and the other keys below config:, and indent them\n")
