"""`gpu-ci check`, `cost` and `quota` on stack files, and what they say of files that are none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu_ci.cli.conftest import STACK, Ask

Stack = Callable[..., str]
ROOT = Path(__file__).resolve().parents[3]
of_stacks = pytest.mark.parametrize("command", ["check", "cost", "quota"])


def test_a_valid_file_is_printed_with_its_pools(ask: Ask, stack: Stack) -> None:
    answer = ask("check", stack())
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[0] == "Pulumi.dev.yaml: 1 pool, no problem found"
    assert answer.rows == [["l4", "gcp/g2-standard-8", "spot", "us-central1", "4"]]


def test_a_ladder_and_the_manager_are_shown_and_folded_on_a_narrow_terminal(
    ask: Ask, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = "max: 4\n      ladder: [{region: us-east1}, {zones: [us-east4-a], market: standard}]"
    wired = (
        "config:\n"
        "  gpu-ci:site:\n"
        "    networks: {us-central1: {ipRange: 10.10.0.0/20}, us-east1: {ipRange: 10.10.16.0/20}, "
        "us-east4: {ipRange: 10.10.32.0/20}}\n"
        "    github: {owner: acme, managerApp: {id: 3, installationId: 9, privateKey: projects/acme-ci/secrets/k}}\n"
        "  gpu-ci:github: {runnerGroup: {repositories: [kernels]}}\n"
        f"  gpu-ci:manager: {{image: us-docker.pkg.dev/acme/b/m@sha256:{'ab' * 32}, region: us-central1 MORE}}"
    )
    name = stack(("config:", wired.replace(" MORE", "")), ("max: 4", ladder))
    lines = ask("check", name).out.splitlines()
    assert lines[5:7] == [
        "ladder of l4: g2-standard-8 spot in us-east1; g2-standard-8 standard in us-east4",
        "manager: 1 instance in us-central1; no alerts; no log-based metrics",
    ]
    channel = "projects/acme-ci/notificationChannels/12"
    more = f", metrics: true, alerts: {{notificationChannels: [{channel}]}}"
    stack(("config:", wired.replace(" MORE", more)), ("max: 4", ladder))
    assert ask("check", name).out.splitlines()[6] == (
        "manager: 1 instance in us-central1; alerts to 1 channel; log-based metrics"
    )
    monkeypatch.setenv("COLUMNS", "79")
    monkeypatch.setenv("LINES", "25")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    shown = ask("check", name).out.splitlines()
    assert shown[5:7] == [
        "ladder of l4: g2-standard-8 spot in us-east1; g2-standard-8 standard in",
        "  us-east4",
    ]


def test_without_a_name_every_stack_file_of_the_folder_is_meant(ask: Ask, stack: Stack) -> None:
    stack(name="Pulumi.b.yaml")
    stack(name="Pulumi.a.yaml")
    for command in ("check", "cost", "quota"):
        assert [each["file"] for each in ask(command, "--json").json] == ["Pulumi.a.yaml", "Pulumi.b.yaml"]


def test_a_providers_secret_in_plain_text_is_a_mistake_and_is_not_shown(ask: Ask, stack: Stack) -> None:
    name = stack(("config:", "config:\n  github:token: hunter2\n  aws:secretKey: {secure: v1:hunter2}"))
    for more in ((), ("--json",)):
        answer = ask("check", name, *more)
        assert answer.code == 1
        assert "hunter2" not in answer.out + answer.err
    [found] = answer.json
    assert [problem["path"] for problem in found["problems"]] == ["github:token"]
    assert found["unchecked"] == ["aws:secretKey"], "not the key with a problem"
    assert ask("check", name).out.splitlines()[-1] == "Pulumi.dev.yaml: not checked here: aws:secretKey"


@pytest.mark.parametrize(
    ("site", "group", "notes"),
    [
        ("{github: {owner: acme, plan: team, runnerApp: {id: 17}}}", "{runnerGroup: {repositories: [kernels]}}", []),
        ("{github: {owner: acme}}", "{}", ["gpu-ci:pools.l4.runner: has no effect"]),
        ("{github: {owner: acme, runnerApp: {id: 17}}}", "{}", ["gpu-ci:github.runnerGroup: is missing"]),
        ("{github: {owner: acme, managerApp: {id: 17}}}", "{}", ["gpu-ci:github.runnerGroup: is missing"]),
        ("[]", "{runnerGroup: {}}", ["gpu-ci:site.github.managerApp: is missing"]),
    ],
)
def test_a_runner_is_doubted_only_where_the_file_registers_none(
    ask: Ask, stack: Stack, site: str, group: str, notes: list[str]
) -> None:
    given = f"config:\n  gpu-ci:site: {site}\n  gpu-ci:github: {group}"
    lines = ask("check", stack(("config:", given), ("max: 4", "max: 4\n      runner: {idleSec: 700}"))).out.splitlines()
    found = [line.removeprefix("Pulumi.dev.yaml: note: ") for line in lines if ": note: " in line]
    assert [line[: len(note)] for line, note in zip(found, notes, strict=True)] == notes


@pytest.mark.parametrize(
    ("labels", "scale_set", "noted"),
    [
        (
            "[GPU]",
            "arc",
            [
                "l4: jobs for gpu also match the runners of the pool big,",
                "l4: jobs for gpu also match the runners of the pool t4,",
            ],
        ),
        ("[gpu, ARC]", "arc", ["eks: jobs for arc also match the runners of the pool l4,"]),
        ("[ARC]", "arc", ["eks: jobs for arc also match the runners of the pool l4,"]),
        ("[gpu, small]", "arc", []),
    ],
)
def test_jobs_that_match_the_runners_of_two_pools_are_noted(
    ask: Ask, stack: Stack, labels: str, scale_set: str, noted: list[str]
) -> None:
    l4 = "{kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a], max: 1"
    runner = f"{{scaleSetName: {scale_set}, image: ghcr.io/acme/runner@sha256:{'ab' * 32}}}"
    more = (
        f"max: 4\n      runnerLabels: {labels}\n"
        f"    big: {l4}, runnerLabels: [gpu, big]}}\n"
        f"    t4: {l4}}}\n"
        f"    eks: {{kind: eks-runners, clusterName: ci, instanceTypes: [g5.2xlarge], max: 1, runner: {runner}}}\n"
        "  gpu-ci:clusters: {ci: {region: us-east-1, subnets: {us-east-1a: subnet-0a1b2c3d4e5f60001}}}"
    )
    out = ask("check", stack(("max: 4", more))).out
    found = [line.partition("gpu-ci:pools.")[2] for line in out.splitlines() if "also match" in line]
    assert [line[: len(note)] for line, note in zip(found, noted, strict=True)] == noted


def test_the_github_plan_of_each_feature_is_told_and_held_against_the_organizations(ask: Ask, stack: Stack) -> None:
    rules = "{rules: {web: {repository: web, enforcement: evaluate}}}"
    site = "{networks: {us-central1: {ipRange: 10.10.0.0/20}}, github: {owner: acme PLAN}}"
    given = f"config:\n  gpu-ci:site: {site}\n  gpu-ci:github: {rules}"
    answer = ask("check", stack(("config:", given.replace(" PLAN", ""))))
    assert answer.code == 0
    assert "note: GitHub plans: gpu-ci:github.rules.web needs GitHub Team for a private repository;" in answer.out
    answer = ask("check", stack(("config:", given.replace(" PLAN", ", plan: team"))))
    assert answer.code == 1
    assert "gpu-ci:github.rules.web.enforcement: needs GitHub Enterprise Cloud" in answer.out


def test_every_mistake_is_in_the_house_form_and_ends_with_1(ask: Ask, stack: Stack) -> None:
    name = stack(("g2-standard-8", "g2-standard-9"), ("max: 4", "max: 4\n      colour: red"))
    answer = ask("check", name)
    assert answer.code == 1
    assert answer.out == (
        "Pulumi.dev.yaml:6: gpu-ci:pools.l4.machineType: is not a machine type with a GPU\n"
        "  got: 'g2-standard-9'\n"
        "  expected: a Compute Engine machine type with a GPU, such as g2-standard-8\n"
        "  hint: did you mean g2-standard-96\n"
        "Pulumi.dev.yaml:10: gpu-ci:pools.l4.colour: unknown key\n"
        "  got: 'colour'\n"
        "  expected: one of machineType, guestAccelerator, zones, market, reservation, "
        "maxRunDurationSec, driver, image, torch, diskGib, diskType, localSsdCount, nicType, max, runnerLabels, "
        "waitObjectiveSec, standby, smoke, runner, secrets, ladder, priceCeilingUsd\n"
        "  hint: remove it\n"
        "2 problems in Pulumi.dev.yaml\n"
    )
    [found] = ask("check", name, "--json").json
    assert (found["works"], found["pools"]) == (False, [])
    assert [each["line"] for each in found["problems"]] == [6, 10]
    assert found["problems"][0]["path"] == "gpu-ci:pools.l4.machineType"


@pytest.mark.parametrize(
    ("rung", "hint"),
    [
        (
            "{region: mars}",
            (
                "regions that have it: asia-east1, asia-northeast1, asia-northeast3, asia-south1, asia-southeast1; "
                "gpu-ci catalog show g2-standard-8 lists all"
            ),
        ),
        ("{region: us-eats1}", "did you mean us-east1"),
        ("{market: cheap}", "such as market: standard"),
        ("{zones: us-east1-b}", "such as zones: [us-east1-b]"),
        ("us-east1", "such as ladder: [{region: us-east1}]"),
    ],
)
def test_the_hint_for_a_wrong_rung_is_one_that_exists(ask: Ask, stack: Stack, rung: str, hint: str) -> None:
    name = stack(("max: 4", f"max: 4\n      ladder: [{rung}]"))
    [problem] = ask("check", name, "--json").json[0]["problems"]
    assert problem["hint"].startswith(hint)


def test_one_wrong_file_among_several_ends_with_1(ask: Ask, stack: Stack) -> None:
    stack(name="Pulumi.a.yaml")
    stack(("max: 4", "max: 0"), name="Pulumi.b.yaml")
    assert [each["works"] for each in ask("check", "--json").json] == [True, False]
    assert ask("check").code == 1
    assert ask("check", "Pulumi.a.yaml").code == 0


def test_a_limit_that_is_too_small_is_a_problem(ask: Ask, stack: Stack) -> None:
    quotas = "gpu-ci:quotas:\n    us-central1: {PREEMPTIBLE_NVIDIA_L4_GPUS: 3}\n  gpu-ci:pools:"
    name = stack(("gpu-ci:pools:", quotas))
    for command in ("check", "quota"):
        answer = ask(command, name)
        assert answer.code == 1
        assert "expected: 5 GPUs or more (l4 5)" in answer.out
        assert "https://console.cloud.google.com/iam-admin/quotas?project=acme-ci" in answer.out


@of_stacks
def test_pools_that_came_as_text_are_read_as_the_program_reads_them(ask: Ask, stack: Stack, command: str) -> None:
    pool = {"kind": "gce-runners", "machineType": "g2-standard-8", "zones": ["us-central1-a"], "max": 4}
    text = f"config:\n  gpu-ci:pools: '{json.dumps({'l4': pool})}'\n"
    assert ask(command, stack(text=text)).code == 0


@of_stacks
def test_a_secret_is_not_read_and_not_shown(ask: Ask, stack: Stack, command: str) -> None:
    answer = ask(command, stack(text="config:\n  gpu-ci:pools:\n    secure: v1:abcdef\n"))
    assert answer.code == 1
    assert "gpu-ci:pools: is a secret, which this command cannot read" in answer.out + answer.err
    assert "abcdef" not in answer.out + answer.err


BROKEN = {
    "a bracket that is not closed": (
        (("max: 4", "zones: [a"),),
        (
            "Pulumi.dev.yaml:10:1: is not valid YAML: expected ',' or ']', but got '<stream end>'\n"
            "  hint: close the list that begins in line 9\n"
        ),
    ),
    "a brace that is not closed": (
        (("max: 4", "smoke: {deadlineSec: 900\n      max: 4"),),
        (
            "Pulumi.dev.yaml:10:10: is not valid YAML: expected ',' or '}', but got ':'\n"
            "  hint: close the map that begins in line 9\n"
        ),
    ),
    "a tab": (
        (("      max: 4", "\tmax: 4"),),
        (
            "Pulumi.dev.yaml:9:1: is not valid YAML: found character '\\t' that cannot start any token\n"
            "  hint: indent with spaces: YAML does not allow a tab there\n"
        ),
    ),
    "a key that is there twice": (
        (("max: 4", "max: 4\n      max: 5"),),
        "Pulumi.dev.yaml:10:7: is not valid YAML: the key max is a duplicate of line 9\n",
    ),
    "a key that is null": (
        (("    l4:", "    null:"),),
        (
            "Pulumi.dev.yaml:4:5: is not valid YAML: a key is null, not text\n"
            "  hint: write the name, or put null in quotes\n"
        ),
    ),
    "a control character": (
        (("max: 4", "max: \x07"),),
        "Pulumi.dev.yaml:9: is not valid YAML: special characters are not allowed\n",
    ),
}


@of_stacks
@pytest.mark.parametrize("fault", BROKEN)
def test_invalid_yaml_is_reported_with_file_and_line(ask: Ask, stack: Stack, command: str, fault: str) -> None:
    changes, told = BROKEN[fault]
    answer = ask(command, stack(*changes))
    assert (answer.code, answer.out, answer.err) == (1, "", told)


def test_a_word_stays_the_word_it_is(ask: Ask, stack: Stack) -> None:
    """Readers of YAML 1.1 take yes and on for true, and a date for a day, also where they are names."""
    assert ask("check", stack(("    l4:\n", "    on:\n"))).rows[0][0] == "on"
    for name in ("1", "2026-01-01"):
        assert f"gpu-ci:pools.{name}: the name has a form" in ask("check", stack(("    l4:\n", f"    {name}:\n"))).out
    assert "got: 'yes'" in ask("check", stack(("market: spot", "market: yes"))).out


def test_what_is_no_stack_file_ends_with_2(ask: Ask, stack: Stack, tmp_path: Path) -> None:
    assert ask("check").err == (
        f"no stack file in {tmp_path}\n  expected: Pulumi.<stack>.yaml in this folder, or a path\n"
        "  hint: gpu-ci check path/to/Pulumi.staging.yaml\n"
    )
    assert ask("check", "Pulumi.dev.yaml").err == "Pulumi.dev.yaml: no such file\n"
    stack(name="Pulumi.prod.yaml")
    missing = ask("check", "Pulumi.dev.yaml")
    assert missing.code == 2
    assert missing.err == "Pulumi.dev.yaml: no such file\n  hint: the folder has Pulumi.prod.yaml\n"
    folder = ask("check", ".")
    assert (folder.code, folder.err.splitlines()[0]) == (2, ".: cannot be read")
    project = ask("check", stack(name="Pulumi.yaml", text="name: gpu-ci\nruntime: python\n"))
    assert (project.code, project.err.splitlines()[1]) == (2, "  got: the project's file, Pulumi.yaml")
    for text in ("", "- a\n", "just words\n", "config: 3\n"):
        answer = ask("check", stack(name="other.yaml", text=text))
        assert (answer.code, answer.err.splitlines()[0]) == (2, "other.yaml: is not a stack file")
    answer = ask("check", stack(name="Pulumi.list.yaml", text="- a\n"))
    assert answer.err.splitlines()[-1] == "  hint: the folder has Pulumi.prod.yaml", "not the file itself"
    answer = ask("check", stack(name="Pulumi.empty.yaml", text="# later\n"))
    assert (answer.code, answer.out.splitlines()[0]) == (1, "Pulumi.empty.yaml: gpu-ci:pools: is missing")
    (tmp_path / "bytes.yaml").write_bytes(b"config: \xff")
    assert ask("check", "bytes.yaml").err == "bytes.yaml: is not text\n  got: the byte 9 is not UTF-8\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_ends_with_2(ask: Ask, stack: Stack, tmp_path: Path) -> None:
    (tmp_path / stack()).chmod(0)
    assert ask("check", "Pulumi.dev.yaml").err.splitlines()[:2] == [
        "Pulumi.dev.yaml: cannot be read", "  got: Permission denied",
    ]  # fmt: skip


def test_nesting_without_an_end_is_no_traceback(ask: Ask, stack: Stack) -> None:
    answer = ask("check", stack(text="config: " + "[" * 1500))
    assert answer.code == 1
    assert answer.err.startswith("Pulumi.dev.yaml")


def test_the_cost_of_a_small_stack_is_this_table(ask: Ask, stack: Stack) -> None:
    pool = "    h: {kind: gce-runners, machineType: a3-edgegpu-8g, zones: [asia-south1-c], market: standard, max: 1}\n"
    answer = ask("cost", stack(text=STACK + pool))
    assert (answer.code, answer.err) == (0, "")
    rows = answer.rows
    assert [row[0] for row in rows] == ["h", "l4", "all spot", "all standard", "all"]
    assert rows[0] == [
        "h",
        "gcp/a3-edgegpu-8g",
        "standard",
        "asia-south1",
        "1",
        "unknown",
        "0.00",
        "unknown",
        "unknown",
        "unknown",
    ]
    assert rows[1][-1] == "2026-10-04 (gcc)"
    assert rows[4][1] == "0.00"
    assert all(cell.startswith(">= ") for cell in rows[4][2:])
    assert "unknown for h" in answer.out.splitlines()[-1]


def test_the_cost_as_json_adds_up_and_old_prices_are_noted(
    ask: Ask, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import date

    from gpu_ci.cli import clock

    [found] = ask("cost", stack(), "--json").json
    assert found["usdPerHourAtMax"] == found["pools"]["l4"]["usdPerHourAtMax"] > 0
    assert found["usdWorstMonth"] == pytest.approx(730 * found["usdPerHourAtMax"])
    assert found["notes"] == []
    assert (found["pools"]["l4"]["priceDate"], found["pools"]["l4"]["priceSources"]) == ("2026-10-04", ["gcc"])
    monkeypatch.setattr(clock, "today", lambda: date(2031, 1, 1))
    [later] = ask("cost", "--json").json
    assert later["notes"][0].startswith("the price of l4 was read on ")


@pytest.mark.parametrize("command", ["cost", "quota"])
def test_pools_with_mistakes_are_not_added_up(ask: Ask, stack: Stack, command: str) -> None:
    answer = ask(command, stack(("max: 4", "max: 0")))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[0] == "Pulumi.dev.yaml:9: gpu-ci:pools.l4.max: must be at least 1"
    assert answer.err.splitlines()[-1] == "1 problem in Pulumi.dev.yaml; see gpu-ci check"


def test_the_shipped_stack_files_are_in_order(ask: Ask) -> None:
    names = [str(ROOT / f"Pulumi.{name}.yaml") for name in ("staging", "prod")]
    assert [each["works"] for each in ask("check", *names, "--json").json] == [True, True]
    assert ask("cost", *names).code == ask("quota", *names).code == 0


MANAGED = (
    "config:\n  gpu-ci:site: {subnetworks: {us-central1: projects/example-ci/regions/us-central1/subnetworks/ci}, "
    "github: {owner: acme, plan: team, managerApp: {id: 37, installationId: 38, privateKey: "
    "projects/example-ci/secrets/key}}}\n  gpu-ci:github: {runnerGroup: {repositories: [kernels]}}"
)


def test_spot_machines_wait_stopped_where_the_manager_registers_their_runners(ask: Ask, stack: Stack) -> None:
    waiting = ("max: 4", "max: 4\n      standby: {stoppedSize: 2}")
    for command in ("check", "cost", "quota"):
        assert ask(command, stack(("config:", MANAGED), waiting)).code == 0, command
        refused = ask(command, stack(waiting))
        assert (
            "l4.standby: is not supported for spot machines, which cannot wait stopped" in refused.out + refused.err
        ), command
    wrong = ("max: 4", "max: 4\n      standby: {stoppedSize: 5, mode: manual}")
    [found] = ask("check", stack(("config:", MANAGED), wrong), "--json").json
    assert [problem["path"].removeprefix("gpu-ci:pools.l4.") for problem in found["problems"]] == [
        "standby.mode",
        "standby.stoppedSize",
    ]
