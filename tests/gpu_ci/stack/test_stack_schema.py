"""The JSON Schema of stack files accepts what the models accept, and refuses what people get wrong."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.program.keys import Keys
from gpu_ci.stack.parse import Stack
from gpu_ci.stack.schema import stack_schema
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[3]
L4 = {
    "kind": "gce-runners",
    "machineType": "g2-standard-8",
    "zones": ["us-central1-a", "us-central1-b"],
    "market": "spot",
    "max": 4,
}
T4 = L4 | {"machineType": "n1-standard-8", "guestAccelerator": {"type": "nvidia-tesla-t4", "count": 1}}


@cache
def whole_schema() -> dict[str, Any]:
    return stack_schema(Keys, Keys.KEYS)


def stack(pool: Any = L4, **config: Any) -> dict[str, Any]:
    found = {
        "gcp:project": "acme-ci",
        "gpu-ci:site": {"subnetworks": {"us-central1": "projects/acme-ci/regions/us-central1/subnetworks/ci"}},
        "gpu-ci:pools": {"l4": pool},
    }
    return {"config": found | {key.replace("_", ":"): value for key, value in config.items()}}


def mistakes(document: Any) -> list[str]:
    """Return the paths of the innermost errors that the schema reports."""
    errors = Draft202012Validator(whole_schema()).iter_errors(document)
    return sorted({".".join(map(str, error.absolute_path)) for error in errors})


def test_it_is_a_schema_of_the_draft_it_names() -> None:
    Draft202012Validator.check_schema(whole_schema())
    assert whole_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", ["Pulumi.staging.yaml", "Pulumi.prod.yaml"])
def test_the_committed_stack_files_are_accepted_and_name_it(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text.splitlines()[0] == "# yaml-language-server: $schema=docs/pulumi-stack.schema.json"
    assert mistakes(yaml.safe_load(text)) == []


@pytest.mark.parametrize("pool", [L4, T4, L4 | {"guestAccelerator": None, "diskType": None, "runnerLabels": None}])
def test_a_pool_in_order_is_accepted_by_both(pool: dict[str, Any]) -> None:
    assert mistakes(stack(pool)) == []
    assert Stack("", "dev", {"gpu-ci:pools": {"l4": pool}}).problems_of_pools == []


P = "config.gpu-ci:pools.l4"
WRONG = {
    "a kind there is not": (L4 | {"kind": "gce-runner"}, f"{P}.kind"),
    "no kind": ({key: value for key, value in L4.items() if key != "kind"}, P),
    "a key that is misspelt": (L4 | {"machinetype": "g2-standard-8"}, P),
    "Python's spelling of a key": (L4 | {"disk_gib": 200}, P),
    "a machine type there is not": (L4 | {"machineType": "g2-standard-9"}, f"{P}.machineType"),
    "a driver that comes from nowhere": (L4 | {"driver": {"source": "floppy"}}, f"{P}.driver.source"),
    "a key of another driver": (L4 | {"driver": {"source": "image", "branch": 580}}, f"{P}.driver"),
    "a container without its digest": (
        L4 | {"driver": {"source": "cos", "checkImage": "docker.io/pytorch/pytorch:latest"}},
        f"{P}.driver.checkImage",
    ),
    "a secret that is no path": (L4 | {"secrets": ["token"]}, f"{P}.secrets.0"),
    "a zone twice": (L4 | {"zones": ["us-central1-a", "us-central1-a"]}, f"{P}.zones"),
    "flex-start for no time": (L4 | {"market": "flex-start"}, P),
    "a reservation without its name": (
        L4 | {"machineType": "a3-ultragpu-8g", "zones": ["us-central1-b"], "market": "reservation"},
        P,
    ),
    "n1 without a GPU": (L4 | {"machineType": "n1-standard-8"}, P),
    "three T4": (T4 | {"guestAccelerator": {"type": "nvidia-tesla-t4", "count": 3}}, f"{P}.guestAccelerator.count"),
    "an accelerator n1 does not take": (T4 | {"guestAccelerator": {"type": "nvidia-l4"}}, f"{P}.guestAccelerator.type"),
    "a number as text": (L4 | {"max": "4"}, f"{P}.max"),
    "no max": ({key: value for key, value in L4.items() if key != "max"}, P),
    "too small a disk": (L4 | {"diskGib": 10}, f"{P}.diskGib"),
    "wiring": (L4 | {"project": "acme-ci"}, P),
    "a choice the check has not": (L4 | {"smoke": {"onNoCapacity": "ignore"}}, f"{P}.smoke.onNoCapacity"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_known_mistake_is_refused_where_it_is_and_by_the_model_too(wrong: str) -> None:
    pool, path = WRONG[wrong]
    assert mistakes(stack(pool)) == [path]
    assert Stack("", "dev", {"gpu-ci:pools": {"l4": pool}}).problems_of_pools != []


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, ""),
        ({"config": {}}, "config"),
        (stack(**{"gpu-ci_pool": {}}), "config"),
        (stack(**{"gpu-ci_quotas": {"us-centrall1": {}}}), "config.gpu-ci:quotas"),
        (stack(**{"gpu-ci_quotas": {"us-central1": {"NVIDIA_L4_GPU": 4}}}), "config.gpu-ci:quotas.us-central1"),
        (stack(**{"gpu-ci_quotas": {"global": {"NVIDIA_L4_GPUS": 4}}}), "config.gpu-ci:quotas.global"),
        (
            stack(**{"gpu-ci_quotas": {"us-central1": {"NVIDIA_L4_GPUS": -1}}}),
            "config.gpu-ci:quotas.us-central1.NVIDIA_L4_GPUS",
        ),
        (stack(gcp_project="Acme"), "config.gcp:project"),
        (stack(**{"gpu-ci_site": {"labels": {"team": 1}}}), "config.gpu-ci:site.labels.team"),
        (stack(**{"gpu-ci_labels": {"team": "a"}}), "config"),
        (
            stack(**{"gpu-ci_github": {"runnerGroup": {"repositories": []}}}),
            "config.gpu-ci:github.runnerGroup.repositories",
        ),
    ],
)  # fmt: skip
def test_a_mistake_around_the_pools_is_refused(document: Any, path: str) -> None:
    assert mistakes(document) == [path]


def test_what_belongs_to_others_is_theirs() -> None:
    document = stack(aws_region="us-east-1") | {"encryptionsalt": "v1:x", "secretsprovider": "passphrase"}
    assert mistakes(document) == []


def test_a_pools_name_has_to_carry_its_resources_names() -> None:
    document = stack()
    document["config"]["gpu-ci:pools"] = {"L4_pool": L4}
    assert mistakes(document) == ["config.gpu-ci:pools"]


def test_every_machine_type_it_offers_is_one_the_model_takes_and_each_has_a_word() -> None:
    field = whole_schema()["$defs"]["RunnerPoolArgs"]["properties"]["machineType"]
    assert len(field["enum"]) == len(field["markdownEnumDescriptions"]) == len(set(field["enum"]))
    for name in field["enum"]:
        found = Stack("", "dev", {"gpu-ci:pools": {"l4": L4 | {"machineType": name}}}).problems_of_pools
        assert [problem for problem in found if problem.path == "gpu-ci:pools.l4.machineType"] == []


def test_without_a_site_other_keys_of_ours_may_be_there() -> None:
    own = stack_schema()
    document = {"config": {"gpu-ci:pools": {"l4": L4}, "gpu-ci:anything": 1}}
    assert list(Draft202012Validator(own).iter_errors(document)) == []
    broken = copy.deepcopy(document)
    broken["config"]["gpu-ci:pools"]["l4"]["max"] = 0  # type: ignore[index, call-overload]
    assert len(list(Draft202012Validator(own).iter_errors(broken))) == 1


def test_descriptions_are_for_an_editor() -> None:
    fields = whole_schema()["$defs"]["RunnerPoolArgs"]["properties"]
    assert fields["market"]["markdownDescription"].endswith("or reservation (runs in a reservation)\n\nDefault: `spot`")
    assert [name for name, field in fields.items() if not field.get("description")] == []
    assert '"title"' not in str(whole_schema()["$defs"])
