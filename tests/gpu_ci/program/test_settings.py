"""gpu_ci.program.stack_file: one report of every mistake in a stack file, each with a hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.stack.parse import unknown_keys

from tests.gpu_ci.program.stack import L4, SUBNETWORK, config, config_of, load, refused, site, told

SIX_MISTAKES: dict[str, Any] = {
    "a100": {
        "kind": "gce-runners",
        "machineType": "a2-highgpu-1g",
        "zones": ["us-central1-a"],
        "markett": "spot",
        "max": "four",
    },
    "h100": {
        "kind": "gce-runners",
        "machineType": "a3-highgpu-1g",
        "zones": ["us-central1-a", "us-central1-f"],
        "max": 2,
        "runnerLabels": ["gpu", "big"],
    },
    "l4": L4 | {"machineType": "g2-standrd-8"},
    "t4": {
        "kind": "gce-runners",
        "machineType": "n1-standard-8",
        "guestAccelerator": {"type": "nvidia-tesla-t4"},
        "zones": ["us-central1-a"],
        "runnerLabels": ["Big", "gpu"],
    },
}

THEIR_REPORT = f"""\
Pulumi.staging.yaml: gpu-ci:pools.a100.max: must be a whole number
  got: 'four'
  expected: the maximum number of machines at any time, 1 to 1000
  hint: such as max: 4
Pulumi.staging.yaml: gpu-ci:pools.a100.markett: unknown key
  got: 'markett'
  expected: one of {", ".join(RunnerPoolArgs.choice_names())}
  hint: did you mean market
Pulumi.staging.yaml: gpu-ci:pools.h100.zones[1]: has no nvidia-h100-80gb
  got: 'us-central1-f'
  expected: zones of one region that have the GPU, such as [us-central1-a, us-central1-b]
  hint: zones that have it: us-central1-a, us-central1-b, us-central1-c
Pulumi.staging.yaml: gpu-ci:pools.l4.machineType: is not a machine type with a GPU
  got: 'g2-standrd-8'
  expected: a Compute Engine machine type with a GPU, such as g2-standard-8
  hint: did you mean g2-standard-8
Pulumi.staging.yaml: gpu-ci:pools.t4.max: is missing
  got: nothing
  expected: the maximum number of machines at any time, 1 to 1000
  hint: such as max: 4
Pulumi.staging.yaml: gpu-ci:pools.t4.runnerLabels: has the same runner labels as the pool h100
  got: [Big, gpu]
  expected: labels that no other pool has
  hint: such as runnerLabels: [Big, gpu, t4]
6 problems in Pulumi.staging.yaml; no pool was created or changed"""


def test_six_mistakes_of_one_file_come_in_one_report_with_a_hint_each() -> None:
    error = refused(config(SIX_MISTAKES))
    assert str(error) == THEIR_REPORT
    assert isinstance(error, pulumi.RunError), "Pulumi shows the traceback of anything else"
    assert str(error).count("  hint: ") == 6


@pytest.mark.parametrize("file", ["Pulumi.staging.yaml", "Pulumi.prod.yaml"])
def test_the_stack_files_of_this_repository_are_in_order(file: str) -> None:
    values = config_of(file)
    found = load(values)
    assert [pool.name for pool in found.specs] == sorted(values["gpu-ci:pools"])
    assert found.project == values["gcp:project"]


def test_a_pool_gets_its_project_subnetwork_and_labels_from_the_site() -> None:
    [pool] = load(config(**site(labels={"team": "platform"}))).specs
    assert (pool.name, pool.kind) == ("l4", "gce-runners")
    wired = pool.args.model_dump(include={"project", "subnetwork", "labels", "network"})
    assert wired == {"project": "example-ci", "subnetwork": SUBNETWORK, "labels": {"team": "platform"}, "network": None}


def test_a_full_self_link_is_a_subnetwork_too() -> None:
    link = f"https://www.googleapis.com/compute/v1/{SUBNETWORK}"
    assert load(config(**site(subnetworks={"us-central1": link}))).site.subnetworks == {"us-central1": link}


@pytest.mark.parametrize(
    "key",
    ["acme:site", "acme-gpu-ci:site", "gcp:region", "gcp:zone", "gcp:quotaProject", "github:owner", "aws:project"],
)
def test_a_key_of_another_program_is_not_taken_for_a_misspelt_one(key: str) -> None:
    assert unknown_keys([key]) == []


@pytest.mark.parametrize("key", ["gpu-ci:pools", "gpu-ci:site", "gpu-ci:github", "gcp:project"])
def test_a_secret_is_refused_and_never_shown(key: str) -> None:
    values = config() | {key: {"l4": {"kind": "hunter2", "hunter2": "hunter2"}}}
    text = told(values, secrets=[key])
    assert text.startswith(f"Pulumi.staging.yaml: {key}: is a secret, but ")
    assert f"pulumi config set --plaintext '{key}' …; if only one value of the key is secure: " in text
    assert "hunter2" not in text


def test_a_report_names_the_lines_of_the_stack_file_only_where_the_engine_read_that_file(tmp_path: Path) -> None:
    values = config(SIX_MISTAKES)
    file = tmp_path / "Pulumi.staging.yaml"
    file.write_text(yaml.safe_dump({"config": values}))
    lines = file.read_text().splitlines()
    [line] = [number for number, each in enumerate(lines, 1) if "g2-standrd-8" in each]
    told = f"Pulumi.staging.yaml:{line}: gpu-ci:pools.l4.machineType: "
    assert told in str(refused(values, root=tmp_path))
    file.write_text(yaml.safe_dump({"config": values | {"gpu-ci:quotas": {}}}))
    assert "Pulumi.staging.yaml: gpu-ci:pools.l4.machineType: " in str(refused(values, root=tmp_path))
