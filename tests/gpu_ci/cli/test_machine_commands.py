"""`gpu-ci check` of one machine, and `schema`."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        ("schema --site json:JSONDecoder", "gpu-ci schema: --site: 'json:JSONDecoder' is not a model\n"),
    ],
)
def test_a_wrong_question_ends_with_2_and_no_traceback(ask: Ask, words: str, told: str) -> None:
    answer = ask(*words.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(told)


def test_the_committed_schema_is_what_the_command_prints(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    answer = ask("schema", "--site", "gpu_ci.program.keys:Keys")
    assert (answer.code, answer.out) == (0, (ROOT / "docs/pulumi-stack.schema.json").read_text())


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


def test_a_driver_branch_that_no_source_has_is_refused(ask: Ask) -> None:
    machine = "n1-standard-8+nvidia-tesla-v100x1"
    [problem] = ask("check", machine, "--driver-branch", "525", "--json").json["problems"]
    assert (problem["choice"], problem["fix"]) == ("driver_branch", {"driver_branch": 580})
    assert ask("check", machine, "--driver-branch", "535").code == 0


@pytest.mark.parametrize(
    "words",
    [
        "catalog --min-gpus -1", "catalog --min-vcpus -1", "catalog --budget 0", "catalog --min-memory-gib -1",
        "check g6.xlarge --driver-branch -580", "check g6.xlarge --driver-branch 0",
    ],
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_refused(ask: Ask, words: str) -> None:
    answer = ask(*words.split())
    assert (answer.code, answer.out) == (2, "")
    assert words.split()[-2] in answer.err
