"""The texts of examples/: pins, costs, and equal pools. tests/engine/test_examples.py deploys the programs."""

from __future__ import annotations

import json
import re

import yaml
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.stack import quotas

from tests.conftest import ROOT

PROGRAMS = {name: ROOT / "examples" / name for name in ("python-import", "python-sdk", "typescript", "yaml")}


def pool() -> dict[str, object]:
    properties: dict[str, object] = yaml.safe_load((PROGRAMS["yaml"] / "Pulumi.yaml").read_text())["resources"]["l4"][
        "properties"
    ]
    return properties


def test_each_example_names_the_price_that_the_catalog_has() -> None:
    args = RunnerPoolArgs(
        **{**pool(), "project": "acme-ci", "subnetwork": "projects/p/regions/us-central1/subnetworks/s"}
    )
    (cost,) = quotas.cost_of([("l4", args)]).pools
    assert cost.price is not None
    price = f"{cost.price.usd_per_hour:.2f} USD per hour (spot, us-central1, {cost.price_date})"
    for name, folder in PROGRAMS.items():
        text = " ".join((folder / "README.md").read_text().split())
        assert f"A running VM costs {price}" in text, name


def test_versions_are_exact_and_no_file_names_a_registry() -> None:
    package = json.loads((PROGRAMS["typescript"] / "package.json").read_text())
    pins = {**package["dependencies"], **package["devDependencies"]}
    assert pins.pop("@pulumi/gpu-ci") == "file:sdks/gpu-ci"
    assert [name for name, pin in pins.items() if not re.fullmatch(r"\d+\.\d+\.\d+", pin)] == []
    assert (PROGRAMS["python-sdk"] / "requirements.txt").read_text() == "pulumi==3.272.0\nsdks/gpu-ci\n"
    assert "https://" not in (PROGRAMS["typescript"] / "package.json").read_text()


def test_the_examples_describe_one_pool() -> None:
    """Every value of the YAML program is in each of the others."""
    values = [each for value in pool().values() for each in (value if isinstance(value, list) else [value])]
    plain = [json.dumps(value) for value in values if not str(value).startswith("${")]
    assert len(plain) == 5
    for name in ("python-import/__main__.py", "python-sdk/__main__.py", "typescript/index.ts"):
        text = (ROOT / "examples" / name).read_text()
        assert [value for value in plain if value not in text] == [], name
