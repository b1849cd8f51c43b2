"""gpu_ci.program.settings: one report of every mistake in a stack file, each with a hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from gpu_ci.stack import checks

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

THEIR_REPORT = """\
Pulumi.staging.yaml: gpu-ci:pools.a100.markett: unknown key
  got: 'markett'
  expected: one of kind, machineType, guestAccelerator, zones, market, reservation, maxRunDurationSec, \
driver, image, torch, diskGib, diskType, localSsdCount, nicType, max, runnerLabels, waitObjectiveSec, standby, smoke, \
runner, secrets, ladder, priceCeilingUsd
  hint: did you mean market
Pulumi.staging.yaml: gpu-ci:pools.a100.max: must be a whole number
  got: 'four'
  expected: the maximum number of machines at any time, 1 to 1000
  hint: such as max: 4
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
    assert [pool.name for pool in found.pools] == sorted(values["gpu-ci:pools"])
    assert found.project == values["gcp:project"]


def test_a_pool_gets_its_project_subnetwork_and_labels_from_the_site() -> None:
    [pool] = load(config(**site(labels={"team": "platform"}))).pools
    assert (pool.name, pool.kind) == ("l4", "gce-runners")
    wired = pool.args.model_dump(include={"project", "subnetwork", "labels", "network"})
    assert wired == {"project": "example-ci", "subnetwork": SUBNETWORK, "labels": {"team": "platform"}, "network": None}


def test_the_file_of_another_stack_is_named() -> None:
    assert str(refused(config({}), stack="prod")).startswith("Pulumi.prod.yaml: gpu-ci:pools: has no pools\n")


def test_a_missing_project_and_missing_subnetworks_are_reported_beside_the_pools_mistakes() -> None:
    error = refused({"gpu-ci:pools": {"l4": L4 | {"max": 0}}})
    assert [problem.path for problem in error.problems] == [
        "gcp:project",
        "gpu-ci:site.subnetworks.us-central1",
        "gpu-ci:pools.l4.max",
    ]
    assert all(problem.hint for problem in error.problems)


def test_a_project_number_is_not_a_project_id() -> None:
    assert told(config(**{"gcp:project": "123456789012"})) == (
        "Pulumi.staging.yaml: gcp:project: has a form that is not accepted\n"
        "  got: '123456789012'\n"
        "  expected: the id (not the number) of the pools' Google Cloud project: 6 to 30 lower-case letters, "
        "digits and dashes, beginning with a letter\n"
        "  hint: such as gcp:project: acme-ci"
    )


def test_a_region_without_a_subnetwork_is_reported_with_the_pools_that_need_it() -> None:
    here = {"machineType": "g2-standard-4", "zones": ["europe-west4-a"]}
    problem = told(config({"l4": L4, "a": L4 | here, "b": L4 | here}))
    assert problem.startswith(
        "Pulumi.staging.yaml: gpu-ci:site.subnetworks.europe-west4: is missing, and a, b are in that region\n"
    )
    assert "pulumi config set --path 'gpu-ci:site.subnetworks.europe-west4' projects/…" in problem
    assert problem.endswith(
        "or let the stack create a network: pulumi config set --path 'gpu-ci:site.networks.europe-west4.ipRange' …"
    )


@pytest.mark.parametrize(
    ("site", "path", "text", "hint"),
    [
        (
            {"networks": {"us-centrall": {"ipRange": "10.10.0.0/20"}}},
            "networks.us-centrall",
            "is not a region",
            "did you mean us-central1",
        ),
        (
            {"networks": {"us-central1-a": {"ipRange": "10.10.0.0/20"}}},
            "networks.us-central1-a",
            "is not a region",
            "a region has no letter at its end, such as us-central1",
        ),
        (
            {"networks": {"us-cental1": {"ipRange": "10.10.0.0/20"}}},
            "networks.us-cental1",
            "is not a region of Google Cloud",
            "did you mean us-central1",
        ),
        (
            {"subnetworks": {"us-centrall": SUBNETWORK}},
            "subnetworks.us-centrall",
            "is not a region",
            "did you mean us-central1",
        ),
        (
            {"subnetworks": {"us-cental1": SUBNETWORK.replace("us-central1", "us-cental1")}},
            "subnetworks.us-cental1",
            "is not a region of Google Cloud, and l4 is in us-central1",
            "did you mean us-central1",
        ),
        (
            {"subnetworks": {"us-east1": SUBNETWORK}},
            "subnetworks.us-east1",
            "is a subnetwork of another region, us-central1",
            "put it under us-central1",
        ),
    ],
)
def test_a_wrong_region_is_reported_at_its_key_and_not_as_a_missing_one(
    site: dict[str, Any], path: str, text: str, hint: str
) -> None:
    [problem] = refused(config(**{"gpu-ci:site": site})).problems
    assert (problem.path, problem.text, problem.hint) == (f"gpu-ci:site.{path}", text, hint)
    wrong = path.partition(".")[2]
    assert problem.got == repr(SUBNETWORK if wrong == "us-east1" else wrong)


def test_a_zone_that_is_none_asks_for_no_subnetwork() -> None:
    error = refused(config({"l4": L4 | {"zones": ["europe-west99-a"]}, "m": L4 | {"zones": []}}))
    assert {problem.path for problem in error.problems} == {"gpu-ci:pools.l4.zones[0]", "gpu-ci:pools.m.zones"}


def test_every_wrong_subnetwork_is_reported() -> None:
    links = {
        "us-central1": SUBNETWORK,
        "europe-west4": SUBNETWORK,
        "us-central1-a": SUBNETWORK,
        "us-east1": "ci",
        "us-east4": 7,
    }
    error = refused(config(**site(subnetworks=links)))
    assert [(problem.path, problem.text) for problem in error.problems] == [
        ("gpu-ci:site.subnetworks.europe-west4", "is a subnetwork of another region, us-central1"),
        ("gpu-ci:site.subnetworks.us-central1-a", "is not a region"),
        ("gpu-ci:site.subnetworks.us-east1", "is not a subnetwork's path"),
        ("gpu-ci:site.subnetworks.us-east4", "must be text"),
    ]
    assert [problem.hint for problem in error.problems] == [
        "put it under us-central1",
        "a region has no letter at its end, such as us-central1",
        "such as subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}",
        'write it in quotes: "7"',
    ]


def test_a_full_self_link_is_a_subnetwork_too() -> None:
    link = f"https://www.googleapis.com/compute/v1/{SUBNETWORK}"
    assert load(config(**site(subnetworks={"us-central1": link}))).site.subnetworks == {"us-central1": link}


def test_every_wrong_label_is_reported() -> None:
    error = refused(config(**site(labels={"Team": "a", "cost": "A B", "level": 4, "fine": "yes"})))
    assert [(problem.path, problem.text) for problem in error.problems] == [
        ("gpu-ci:site.labels.Team", "the key is not a valid label key"),
        ("gpu-ci:site.labels.cost", "is not a valid label value"),
        ("gpu-ci:site.labels.level", "must be text"),
    ]


def test_an_invalid_label_is_reported_with_key_and_value() -> None:
    error = refused(config(**site(labels={"Team": "A B", "gpu-ci-pool": "X", "level": 4})))
    assert [(problem.path.rpartition(".")[2], problem.text, problem.got) for problem in error.problems] == [
        ("Team", "the key is not a valid label key", "'Team'"),
        ("Team", "is not a valid label value", "'A B'"),
        ("gpu-ci-pool", "keys that start with gpu-ci- are reserved for the labels of this package", "'gpu-ci-pool'"),
        ("gpu-ci-pool", "is not a valid label value", "'X'"),
        ("level", "must be text", "4"),
    ]


def test_too_many_labels_are_reported_together_with_a_wrong_label() -> None:
    error = refused(config(**site(labels={f"k{number}": "x" for number in range(60)} | {"Team": "a"})))
    assert [(problem.path, problem.text) for problem in error.problems] == [
        ("gpu-ci:site.labels.Team", "the key is not a valid label key"),
        ("gpu-ci:site.labels", "has more than 60 labels"),
    ]


def test_a_region_is_reported_together_with_a_mistake_in_its_entry() -> None:
    wrong = {"subnetworks": {"us-central1-a": "ci"}, "networks": {"Mars": {"ipRange": "10.10.0.0/33"}}}
    paths = [problem.path for problem in refused(config(**{"gpu-ci:site": wrong})).problems]
    assert paths[:4] == [
        "gpu-ci:site.subnetworks.us-central1-a",
        "gpu-ci:site.subnetworks.us-central1-a",
        "gpu-ci:site.networks.Mars",
        "gpu-ci:site.networks.Mars.ipRange",
    ]


def test_a_key_nobody_reads_is_reported() -> None:
    assert told(config(**{"gpu-ci:sight": {}})) == (
        "Pulumi.staging.yaml: gpu-ci:sight: unknown key\n"
        "  got: 'gpu-ci:sight'\n"
        "  expected: one of gpu-ci:site, gpu-ci:github, gpu-ci:manager, gpu-ci:clusters, gpu-ci:images, gpu-ci:quotas, "
        "gpu-ci:pools\n"
        "  hint: did you mean gpu-ci:site"
    )


def test_a_field_of_the_site_as_a_key_gets_a_hint_to_the_site() -> None:
    assert told(config(**{"gpu-ci:labels": {"team": "a"}})).endswith("  hint: write it as gpu-ci:site.labels")


def test_a_site_that_is_not_a_map_is_reported() -> None:
    error = refused(config(**{"gpu-ci:site": ["us-central1"]}))
    assert [(problem.path, problem.text) for problem in error.problems] == [("gpu-ci:site", "must be a map")]


def test_an_unknown_field_of_the_site_is_reported_with_the_known_fields() -> None:
    [problem] = refused(config(**site(label={"team": "a"}))).problems
    assert (problem.path, problem.expected, problem.hint) == (
        "gpu-ci:site.label",
        "one of subnetworks, networks, labels, github",
        "did you mean labels",
    )


def test_a_slip_in_a_key_of_another_package_is_found_where_the_right_one_is_missing() -> None:
    values = config({"l4": L4})
    values["gcp:proyect"] = values.pop("gcp:project")
    [problem] = refused(values).problems
    assert (problem.path, problem.text, problem.expected) == ("gcp:proyect", "unknown key", "gcp:project")
    assert problem.hint == "did you mean gcp:project"
    values["gcp:project"] = values["gcp:proyect"]
    assert load(values).project == "example-ci"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gpuci:pools", "gpu-ci:pools"),
        ("GPU_CI:Pools", "gpu-ci:pools"),
        ("gpu-cl:pools", "gpu-ci:pools"),
        ("acme-gpu:pools", "gpu-ci:pools"),
        ("gpu-ci:config:pools", "gpu-ci:pools"),
        ("gpu_ci:site", "gpu-ci:site"),
        ("gpu-ci:sight", "gpu-ci:site"),
        ("gpc:project", "gcp:project"),
        ("gcp:projects", "gcp:project"),
    ],
)
def test_a_misspelt_key_is_the_one_problem_and_not_a_missing_key_too(key: str, meant: str) -> None:
    values = config()
    values[key] = values.pop(meant)
    [problem] = refused(values).problems
    assert (problem.path, problem.text, problem.hint) == (key, "unknown key", f"did you mean {meant}")


def test_keys_below_the_namespace_alone_are_told_to_have_it_each() -> None:
    [problem] = refused({"gcp:project": "example-ci", "acme:gpu-ci": {"pools": {}}}).problems
    assert (problem.path, problem.hint) == (
        "acme:gpu-ci", "write each key below it with this namespace, such as gpu-ci:pools",
    )  # fmt: skip


@pytest.mark.parametrize(
    "key",
    ["acme:site", "acme-gpu-ci:site", "gcp:region", "gcp:zone", "gcp:quotaProject", "github:owner", "aws:project"],
)
def test_a_key_of_another_program_is_not_taken_for_a_misspelt_one(key: str) -> None:
    assert checks.unknown_keys([key]) == []


def test_a_providers_secret_in_plain_text_is_refused_and_never_shown() -> None:
    values = config(**{"github:token": "hunter2", "github:appAuth": {"id": "17", "pemFile": "hunter2"}})
    error = refused(values)
    assert [problem.path for problem in error.problems] == ["github:appAuth.pemFile", "github:token"]
    assert "hunter2" not in str(error)
    assert told(values, secrets=["github:appAuth"]) == (
        "Pulumi.staging.yaml: github:token: is a secret in plain text\n"
        "  got: a value that is not shown\n"
        "  expected: nothing here, or a value that pulumi config set --secret encrypted\n"
        "  hint: revoke the secret, because everyone with the file has it; set a new one in the environment variable "
        "GITHUB_TOKEN, and remove this key"
    )
    assert load(values, secrets=["github:appAuth", "github:token"]).project == "example-ci"


def test_keys_of_other_packages_are_their_own_affair() -> None:
    assert load(config(**{"aws:region": "eu-central-1", "gcp:region": "us-central1"})).project == "example-ci"


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
