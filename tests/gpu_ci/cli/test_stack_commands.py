"""`gpu-ci check`, `cost` and `quota` on stack files, and what they say of files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_ci.kinds.gce.args import RunnerPoolArgs

from tests.gpu_ci.cli.conftest import STACK, Ask

Stack = Callable[..., str]
ROOT = Path(__file__).resolve().parents[3]
of_stacks = pytest.mark.parametrize("command", ["check", "cost", "quota"])


def test_a_valid_file_is_printed_with_its_pools(ask: Ask, stack: Stack) -> None:
    answer = ask("check", stack())
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[0] == "Pulumi.dev.yaml: 1 pool, no problem found"
    assert answer.rows == [["l4", "gcp/g2-standard-8", "spot", "us-central1", "4"]]


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


@pytest.mark.parametrize("given", ["acme-ci", "{value: acme-ci}"])
def test_values_of_the_project_count_unless_the_stack_has_its_own(ask: Ask, stack: Stack, given: str) -> None:
    name = stack(("  gcp:project: acme-ci\n", "  gpu-ci:site: {networks: {us-central1: {ipRange: 10.10.0.0/20}}}\n"))
    assert [each["path"] for each in ask("check", name, "--json").json[0]["problems"]] == ["gcp:project"]
    project = Path("Pulumi.yaml")
    project.write_text(
        f"name: pools\nruntime: python\nconfig: {{gcp:project: {given}, size: 3, x: {{type: string}}}}\n"
    )
    [found] = ask("check", name, "--json").json
    assert (found["problems"], found["unchecked"]) == ([], ["pools:size"])
    project.write_text("name: pools\nconfig: {gcp:project: A}\n")
    assert ask("check", name).code == 1
    assert ask("check", stack()).code == 0
    project.write_text("config: [\n")
    assert "Pulumi.yaml:2" in ask("check", name).err


@pytest.mark.parametrize("given", ["[acme/gcp-dev]", "{imports: [acme/gcp-dev]}"])
def test_values_that_an_environment_may_have_are_not_missing(ask: Ask, stack: Stack, given: str) -> None:
    site = "  gpu-ci:site: {networks: {us-central1: {ipRange: 10.10.0.0/20}}}\n"
    name = stack(("  gcp:project: acme-ci\n", site), ("config:", f"environment: {given}\nconfig:"))
    [found] = ask("check", name, "--json").json
    assert (found["problems"], found["unchecked"]) == ([], ["environment acme/gcp-dev"])


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


SITE = """\
  gpu-ci:site:
    networks: {us-central1: {ipRange: 10.10.0.0/20}}
    github: {owner: acme, plan: team, managerApp: {id: 3, installationId: 13, privateKey: projects/acme-ci/secrets/k}}
  gpu-ci:github: {runnerGroup: {repositories: [kernels, web]}}
  gpu-ci:pools:
"""


@pytest.mark.parametrize(
    ("change", "noted"),
    [
        (("owner: acme,", "owner: acme,"), ["acme/kernels, acme/web for gpu, l4, self-hosted"]),
        (("[kernels, web]", "[web, docs]"), ["acme/web for gpu, l4, self-hosted"]),
        (("[kernels, web]", "[docs]"), []),
        (("owner: acme,", "owner: other,"), []),
        (("max: 4", "max: 4\n      runnerLabels: [gpu, l4-prod]"), []),
        (("max: 4", "max: 4\n      runnerLabels: [self-hosted, L4, gpu, prod]"), ["acme/kernels, acme/web for gpu"]),
        (("config:", "config: ["), []),
    ],
)
def test_jobs_that_match_the_runners_of_another_stack_are_noted(
    ask: Ask, stack: Stack, change: tuple[str, str], noted: list[str]
) -> None:
    own = ("  gpu-ci:pools:\n", SITE)
    stack(own, change, name="Pulumi.prod.yaml")
    [found] = ask("check", stack(own), "--json").json
    notes = [note for note in found["notes"] if "Pulumi.prod.yaml" in note]
    assert len(notes) == len(noted)
    for note, text in zip(notes, noted, strict=True):
        assert note.startswith(f"gpu-ci:pools.l4: jobs of {text}")


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
        f"  expected: one of {', '.join(RunnerPoolArgs.choice_names())}\n"
        "  hint: remove it\n"
        "2 problems in Pulumi.dev.yaml\n"
    )
    [found] = ask("check", name, "--json").json
    assert (found["works"], found["pools"]) == (False, [])
    assert [each["line"] for each in found["problems"]] == [6, 10]
    assert found["problems"][0]["path"] == "gpu-ci:pools.l4.machineType"


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
    assert "gpu-ci:pools: is a secret, but" in answer.out + answer.err
    assert "abcdef" not in answer.out + answer.err


def test_a_word_stays_the_word_it_is(ask: Ask, stack: Stack) -> None:
    """Readers of YAML 1.1 take yes and on for true, a date for a day, and 18:00 for 1080, also where they are names."""
    assert ask("check", stack(("    l4:\n", "    on:\n"))).rows[0][0] == "on"
    for name in ("1", "2026-01-01"):
        assert f"gpu-ci:pools.{name}: the name has a form" in ask("check", stack(("    l4:\n", f"    {name}:\n"))).out
    for word in ("yes", "18:00"):
        assert f"got: '{word}'" in ask("check", stack(("market: spot", f"market: {word}"))).out


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
    answer = ask("check", stack(name="Pulumi.list.yaml", text="- a\n"))
    assert (answer.code, answer.err.splitlines()[0]) == (2, "Pulumi.list.yaml: is not a stack file")
    assert answer.err.splitlines()[-1] == "  hint: the folder has Pulumi.prod.yaml", "not the file itself"
    answer = ask("check", stack(name="Pulumi.empty.yaml", text="# later\n"))
    assert (answer.code, answer.out.splitlines()[0]) == (1, "Pulumi.empty.yaml: gpu-ci:pools: is missing")
    (tmp_path / "bytes.yaml").write_bytes(b"config: \xff")
    assert ask("check", "bytes.yaml").err == "bytes.yaml: is not text\n  got: the byte 9 is not UTF-8\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("config: " + "[" * 1500, 1),
        ("config: {gpu-ci:pools: &a {x: *a}}", 2),
        (f"config: {{gpu-ci:pools: '{'[' * 100_000}'}}", 1),
        (f"config: {{gpu-ci:pools: '{{\"l4\":{'9' * 5000}}}'}}", 1),
    ],
    ids=["lists", "an alias of itself", "lists in JSON", "a number in JSON"],
)
def test_values_without_an_end_are_no_traceback(ask: Ask, stack: Stack, text: str, code: int) -> None:
    answer = ask("check", stack(text=text))
    assert answer.code == code
    assert "Pulumi.dev.yaml" in answer.err + answer.out


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
    assert "`gpu-ci catalog show MACHINE` explains" in answer.out.splitlines()[-2]
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
    assert later["notes"] == ["prices older than 90 days: l4 (2026-10-04); compare them with the cloud's price list"]


def test_the_quotas_are_printed_by_region_and_metric(ask: Ask, stack: Stack) -> None:
    answer = ask("quota", stack())
    assert (answer.code, answer.err) == (0, "")
    assert answer.rows == [
        ["global", "GPUS_ALL_REGIONS", "5 GPU", "unknown", "l4 5"],
        ["us-central1", "PREEMPTIBLE_NVIDIA_L4_GPUS", "5 GPU", "unknown", "l4 5"],
        ["us-central1", "SSD_TOTAL_GB", "500 GB", "unknown", "l4 500"],
    ]
    assert answer.out.splitlines()[-1] == "3 limits are unknown; hint: set gpu-ci:quotas, or run gpu-ci doctor"


@pytest.mark.parametrize(("limit", "code", "text"), [(0, 1, "may be less"), (1, 0, "may be less"), (5, 0, "unknown")])
def test_the_quotas_of_the_regions_of_a_ladder_are_printed_too(
    ask: Ask, stack: Stack, limit: int, code: int, text: str
) -> None:
    here = f"gpu-ci:quotas:\n    us-east1: {{PREEMPTIBLE_NVIDIA_L4_GPUS: {limit}}}\n  gpu-ci:pools:"
    name = stack(("gpu-ci:pools:", here), ("      max: 4\n", "      max: 4\n      ladder: [{region: us-east1}]\n"))
    answer = ask("quota", name)
    assert (answer.code, text in answer.out) == (code, True)
    assert ["us-east1", "PREEMPTIBLE_NVIDIA_L4_GPUS", "5 GPU", f"{limit}", "l4 5"] in answer.rows


def test_a_limit_without_room_for_a_check_is_no_failure(ask: Ask, stack: Stack) -> None:
    quotas = "gpu-ci:quotas:\n    us-central1: {PREEMPTIBLE_NVIDIA_L4_GPUS: 4}\n  gpu-ci:pools:"
    for command in ("check", "quota"):
        answer = ask(command, stack(("gpu-ci:pools:", quotas)))
        assert (answer.code, "check of a template" in answer.out) == (0, True)


def test_a_pool_without_gpus_costs_nothing_at_rest_and_needs_no_known_quota(ask: Ask, stack: Stack) -> None:
    builds = "    builds: {kind: cloud-build, region: europe-west4, machineType: e2-standard-8}"
    name = stack(("gpu-ci:pools:", f"gpu-ci:pools:\n{builds}"))
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
    [told] = ask("quota", name, "--json").json
    assert {need["region"] for need in told["needs"]} == {"us-central1", "global"}


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


def test_a_secret_in_plain_text_beside_an_encrypted_one_is_a_mistake(ask: Ask, stack: Stack) -> None:
    app = 'github:appAuth: {id: {secure: v1:x}, installationId: "8", pemFile: hunter2}'
    answer = ask("check", stack(("config:", f"config:\n  {app}")), "--json")
    assert [problem["path"] for problem in answer.json[0]["problems"]] == ["github:appAuth.pemFile"]
    assert "hunter2" not in answer.out


def test_quota_refuses_limits_that_are_a_secret(ask: Ask, stack: Stack) -> None:
    limits = "gpu-ci:quotas:\n    us-central1: {NVIDIA_L4_GPUS: {secure: v1:x}}\n  gpu-ci:pools:"
    answer = ask("quota", stack(("gpu-ci:pools:", limits)))
    assert answer.code == 1
    assert "gpu-ci:quotas: is a secret" in answer.err
