"""`gpu-ci check` of one machine, `recommend`, `catalog refresh` and `schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_catalog import data_files

from tests.gpu_ci.cli.conftest import Ask

ROOT = Path(__file__).resolve().parents[3]


def test_a_working_combination_has_no_problem(ask: Ask) -> None:
    answer = ask("check", "g6.xlarge", "--zone", "us-east-1a", "--market", "spot", "--driver-branch", "580")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "aws/g6.xlarge: no problem found\n"


def test_one_that_does_not_has_its_reason_source_and_fix(ask: Ask) -> None:
    words = ["check", "g2-standard-8", "--driver-source", "accelerator-image", "--driver-branch", "535"]
    answer = ask(*words)
    assert answer.code == 1
    reason, source, hint, _ = answer.out.splitlines()
    assert reason.startswith(
        "gcp/g2-standard-8: driver_branch: accelerator-image has no driver of branch 535: it has 570, 580"
    )
    assert source.startswith("  source: Google Cloud documentation, accelerator images")
    assert hint == "  hint: --driver-branch 580 works"
    found = ask(*words, "--json").json
    assert (found["works"], found["problems"][0]["fix"]) == (False, {"driver_branch": 580})


def test_the_fix_it_names_works(ask: Ask) -> None:
    words = ["check", "p5.48xlarge", "--ami-type", "AL2_x86_64_GPU"]
    [problem, *_] = ask(*words, "--json").json["problems"]
    fixed = ["--" + name.replace("_", "-") for name in problem["fix"]]
    again = ask(
        "check", "p5.48xlarge", *(word for pair in zip(fixed, problem["fix"].values(), strict=True) for word in pair)
    )
    assert again.code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("check g2-standart-8", "gpu-ci check: unknown machine type with a GPU 'g2-standart-8'\n  hint: did you mean "),
        ("check g2-standard-8 --python three", "gpu-ci check: --python: is no version of Python\n  got: 'three'\n"),
        (
            "check g2-standard-8 --driver-source cso",
            "gpu-ci check: Invalid value for '--driver-source': unknown dr",
        ),
        ("check Pulumi.dev.yaml --market spot", "gpu-ci check: --market: this option is for a machine, not for "),
        (
            "check g2-standard-8 g2-standard-4",
            "gpu-ci check: 2 names are given, but a call checks one machine only\n  got: g2-standard-8, g2-standard-4",
        ),
        ("recommend --gpu-memory-gib -1", "gpu-ci recommend: --gpu-memory-gib must be a number from 0 on, not -1.0\n"),
        ("recommend --budget 0", "gpu-ci recommend: --budget must be more than 0"),
        ("recommend --compute-capability new", "gpu-ci recommend: 'new' is no compute capability; such as 8.0\n"),
        ("recommend --dtype fp9", "gpu-ci recommend: Invalid value for '--dtype': unknown number type 'fp9'\n  hint: "),
        ("catalog refresh --no-aws", "gpu-ci catalog refresh: no source\n"),
        ("schema --site json:JSONDecoder", "gpu-ci schema: --site: 'json:JSONDecoder' is not a model\n"),
        ("schema -o no/such/folder.json", "no/such/folder.json: cannot be written\n"),
    ],
)
def test_a_wrong_question_ends_with_2_and_no_traceback(ask: Ask, words: str, told: str) -> None:
    answer = ask(*words.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(told)


def test_recommended_machines_come_cheapest_first_with_their_reasons(ask: Ask) -> None:
    words = ["recommend", "--gpu-memory-gib", "24", "--cloud", "gcp", "--region", "us-central1", "--market", "spot"]
    found = ask(*words, "--json").json
    prices = [each["price"]["usd_per_hour"] for each in found["machines"] if each["price"]]
    assert prices == sorted(prices) != []
    assert found["machines"][0]["machine"] == "gcp/g2-standard-8"
    assert found["machines"][0]["reasons"][0] == "cheapest with 24 GiB"
    assert "110 days old" in found["machines"][0]["reasons"][3], "the clock stands on 2026-11-21"
    assert found["nothing_fits"] is None
    table = ask(*words, "--limit", "1")
    assert table.code == 0
    assert table.rows[0][:3] == ["1", "gcp/g2-standard-8", "1 x L4"]
    doubtful = ask("recommend", "--gpu-memory-gib", "16", "--cloud", "gcp", "--market", "spot", "--limit", "1")
    assert doubtful.rows[0][-1] == "0.2420*"
    assert "* an old, undated or estimated price" in doubtful.out


def test_a_reason_of_several_machines_is_printed_once_with_their_ranks(ask: Ask) -> None:
    words = ["recommend", "--gpu-memory-gib", "16", "--market", "spot", "--region", "us-east-1", "--limit", "4"]
    machines = ask(*words, "--json").json["machines"]
    texts = [[*each["reasons"], *each["caveats"]] for each in machines]
    lines = ask(*words).out.partition("\n\n")[2].splitlines()
    out = " ".join(" ".join(lines).split())
    estimate = "price of 2025-06-28, 511 days old, estimated: on-demand price less the saving then"
    assert [estimate in each for each in texts] == [True] * 4
    assert out.count(estimate) == 1
    assert f"all machines: {estimate}" in out
    for text in {text for each in texts for text in each}:
        assert out.count(text) == 1, text
    often = ">20% of the spot instances were interrupted in a month (2025-06-28)"
    ranks = [str(rank) for rank, each in enumerate(texts, 1) if often in each]
    assert f"machines {', '.join(ranks[:-1])} and {ranks[-1]}: {often}" in out
    assert lines[1].startswith("2   ")


def test_without_a_match_the_reasons_are_printed_and_the_exit_code_is_1(ask: Ask) -> None:
    answer = ask("recommend", "--gpu-memory-gib", "1000")
    assert answer.code == 1
    assert answer.out.startswith("nothing fits: --gpu-memory-gib excludes the most: ")
    found = ask("recommend", "--gpu-memory-gib", "1000", "--json").json
    assert found["machines"] == []
    assert found["nothing_fits"]["lacks"][0]["need"] == "gpu_memory_gib"


def test_a_refresh_without_write_changes_no_file(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(
        "gpu_catalog.upstream.plans.save",
        lambda plans: written.append(plans) or [data_files.DATA / "aws_machines.json"],
    )
    answer = ask("catalog", "refresh")
    found = ask("catalog", "refresh", "--json")
    differ = bool(found.json["sources"][0]["changed"])
    assert answer.out.startswith("botocore 1.44.5, moto 5.2.5, cfn-lint 1.58.0: 0 added, ")
    assert (answer.code, found.code, written) == (int(differ), int(differ), [])
    assert found.json["written"] == []
    told = ask("catalog", "refresh", "--write")
    assert told.code == 0
    assert len(written) == int(differ)


def test_missing_google_credentials_are_reported(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.auth.exceptions import DefaultCredentialsError

    def refuse(*_: Any) -> Any:
        raise DefaultCredentialsError("none were found")

    monkeypatch.setattr("gpu_catalog.upstream.plans.google", refuse)
    answer = ask("catalog", "refresh", "--no-aws", "--google", "acme-ci")
    assert (answer.code, answer.err) == (
        2,
        "Google: no working credentials\n  got: none were found\n  hint: gcloud auth application-default login\n",
    )


def test_the_committed_schema_is_what_the_command_writes(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    answer = ask("schema", "--site", "gpu_ci.program.keys:Keys", "-o", str(tmp_path / "out.json"))
    assert (answer.code, answer.out) == (0, "")
    assert (tmp_path / "out.json").read_text() == (ROOT / "docs/pulumi-stack.schema.json").read_text()


def test_a_schema_without_a_site_has_pools_images_clusters_and_quotas(ask: Ask) -> None:
    answer = ask("schema")
    keys = list(json.loads(answer.out)["properties"]["config"]["properties"])
    assert keys == ["gpu-ci:pools", "gpu-ci:images", "gpu-ci:clusters", "gpu-ci:quotas"]
    assert ask("schema", "--json").out == answer.out


def test_a_fraction_is_listed_with_its_own_memory(ask: Ask) -> None:
    shown = ask("recommend", "--gpu-count", "0.1", "--cloud", "gcp", "--gpu-memory-gib", "12", "--limit", "50").out
    [fraction] = [line.split() for line in shown.splitlines() if "gcp/g4-standard-6 " in line]
    assert fraction[2:8] == ["0.125", "x", "RTX", "PRO", "6000", "12"]


def test_the_notes_of_a_machine_come_with_its_verdict(ask: Ask) -> None:
    assert ask("check", "p3.2xlarge").out == (
        "aws/p3.2xlarge: no problem found\n"
        "note: driver 595 AMIs refuse it\n"
        "note: gone from AWS's region page by mid-2026: retired for new work\n"
    )
    found = ask("check", "g6f.large", "--driver-branch", "595", "--json").json
    assert (found["works"], len(found["notes"])) == (False, 1)
    assert found["notes"][0].startswith("a fraction of a GPU: needs the vGPU guest driver")
    assert f"note: {found['notes'][0]}\n" in ask("catalog", "show", "g6f.large").out


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        ("g6.xlarge --python 3.12", "Python 3.12 was not checked, because no torch was chosen"),
        (
            "g6.xlarge --python 3.12 --torch 2.15.9",
            "torch 2.15.9 is not in the tables: their newest patch of this release is 2.15.0",
        ),
    ],
)
def test_an_undecidable_choice_is_unknown(ask: Ask, words: str, unknown: str) -> None:
    machine, *choices = words.split()
    answer = ask("check", machine, *choices)
    assert (answer.code, answer.out) == (0, f"aws/{machine}: probably works\nunverified: {unknown}\n")


def test_a_driver_branch_without_a_source_is_refused_where_no_source_has_it_and_else_named_with_those_that_have(
    ask: Ask,
) -> None:
    machine = "n1-standard-8+nvidia-tesla-v100x1"
    answer = ask("check", machine, "--driver-branch", "525")
    refused = (
        f"gcp/{machine}: driver_branch: no driver source for gcp/{machine} is known to have branch 525: they have "
        "535, 550, 570, 580, 595, 610; no list of the branches of cos was found\n"
        "  hint: --driver-branch 580 works\n"
    )
    assert (answer.code, answer.out) == (1, refused)
    answer = ask("check", machine, "--driver-branch", "535", "--torch", "2.9.1+cu129")
    told = (
        f"gcp/{machine}: probably works\n"
        "unverified: the list of GPUs that torch 2.9.1+cu129 was compiled for was not read: "
        "assumed is that of torch 2.9.1+cu128\n"
        "note: driver branch 535 comes with the driver source operator; no list of the branches of cos was found\n"
    )
    assert (answer.code, answer.out) == (0, told)


@pytest.mark.parametrize(
    "words",
    [
        "recommend --gpu-count 0", "recommend --gpu-count -1", "recommend --gpu-count nan", "recommend --vcpus -1",
        "recommend --memory-gib -1", "recommend --budget -1", "recommend --limit 0", "catalog --min-memory-gib -1",
        "check g6.xlarge --driver-branch -580", "check g6.xlarge --driver-branch 0",
    ],
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_refused(ask: Ask, words: str) -> None:
    answer = ask(*words.split())
    assert (answer.code, answer.out) == (2, "")
    assert words.split()[-2] in answer.err


def test_a_gpu_without_support_for_the_default_torch_gets_a_caveat(ask: Ask) -> None:
    words = ["recommend", "--cloud", "gcp", "--market", "spot", "--limit", "99", "--json"]
    found = {each["machine"]: each["caveats"] for each in ask(*words).json["machines"]}
    [p100] = [caveats for machine, caveats in found.items() if "p100x1" in machine]
    assert (
        p100[-1] == "the default torch 2.15.0+cu132 has no kernels for compute capability 6.0: take torch 2.14.0+cu126"
    )
    assert not any("default torch" in text for text in found["gcp/g2-standard-8"])
    asked = ask(*words, "--torch", "2.15.0").json["machines"]
    assert {each["machine"] for each in asked} == {name for name in found if not any(c in name for c in CUT)}
    assert not any("default" in text for each in asked for text in each["caveats"])


CUT = ("p100", "p4x", "v100")


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("2.311.0", "the runner 2.311.0 is too old: GitHub registers 2.329.0 or later"),
        ("2.336.0", "the runner 2.336.0 may get no jobs since 2026-09-25: 2.337.0 was out on 2026-08-26"),
    ],
)
def test_a_runner_that_github_gives_no_jobs_is_a_note(ask: Ask, version: str, note: str) -> None:
    answer = ask("check", "g6.xlarge", "--runner", version, "--json")
    assert answer.code == 0
    assert [text for text in answer.json["notes"] if text.startswith(note)] != []
