"""The Renovate preset in default.json: what its regular expressions find in stack files.

Renovate has RE2, which Python has not. The expressions use nothing that differs.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from gpu_ci.cli.stack_files import read

from tests.conftest import ROOT

PRESET = json.loads((ROOT / "default.json").read_text())
SHA = "0123456789abcdef" * 4
STACK = f"""\
config:
  gpu-ci:images:
    nodes: {{kind: ami, images: [ghcr.io/acme/cuda-runner:2.336.0@sha256:{SHA}]}}
  gpu-ci:pools:
    l4:
      image: projects/acme/global/images/own
      torch: 2.9.1
      runner:
        version: "2.331.0"  # keep
        sha256: {{x64: {SHA}}}
    gh: {{torch: 2.9.1+cu126, runner: {{version: 2.330.0, sha256: {{arm64: {SHA}}}}}}}
    both: {{runner: {{version: 2.329.0, sha256: {{x64: {SHA}, arm64: {SHA}}}}}}}
    cos: {{driver: {{source: cos, checkImage: 'nvidia/cuda:13.0.1-base-ubuntu24.04'}}}}
    builds: {{triggers: {{main: {{build: {{steps: [{{image: kernels}}, {{image: "localhost:5000/python:3.13"}}]}}}}}}}}
    promoted: {{runner: {{image: us-central1-docker.pkg.dev/acme/images-runner-stack/gpu-runner@sha256:{SHA}}}}}
"""


def found(text: str) -> list[tuple[str, ...]]:
    """Return datasource, name, version and digest of each match, as Renovate would."""
    rows: list[tuple[str, ...]] = []
    for manager in PRESET["customManagers"]:
        for form in manager["matchStrings"]:
            for match in re.finditer(form.replace("(?<", "(?P<"), text):
                values = {"depName": manager.get("depNameTemplate", ""), "currentDigest": "", **match.groupdict()}
                row = (values["depName"], values["currentValue"], values["currentDigest"])
                rows.append((manager["datasourceTemplate"], *row))
    return rows


def test_each_version_is_found_once_with_its_digest() -> None:
    assert sorted(found(STACK)) == sorted([
        ("docker", "ghcr.io/acme/cuda-runner", "2.336.0", f"sha256:{SHA}"),
        ("docker", "nvidia/cuda", "13.0.1-base-ubuntu24.04", ""),
        ("docker", "localhost:5000/python", "3.13", ""),
        ("custom.actions-runner-x64", "actions/runner", "2.331.0", SHA),
        ("custom.actions-runner-arm64", "actions/runner", "2.330.0", SHA),
        ("pypi", "torch", "2.9.1", ""),
    ])  # fmt: skip


@pytest.mark.parametrize("name", ["Pulumi.staging.yaml", "Pulumi.prod.yaml"])
def test_each_container_image_of_our_stack_files_is_found(name: str) -> None:
    def images(value: Any) -> list[str]:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        own = [value] if isinstance(value, str) and "@sha256:" in value else []
        return own + [image for part in parts for image in images(part)]

    expected = images(read(ROOT / name).config)
    assert [f"{row[1]}:{row[2]}@{row[3]}" for row in found((ROOT / name).read_text()) if row[0] == "docker"] == expected
    assert name != "Pulumi.staging.yaml" or expected


def test_every_manager_reads_stack_files_and_names_a_known_datasource() -> None:
    names = {f"custom.{name}" for name in PRESET["customDatasources"]} | {"docker", "pypi"}
    for manager in PRESET["customManagers"]:
        assert manager["customType"] == "regex"
        [form] = manager["managerFilePatterns"]
        candidates = ("Pulumi.dev.yaml", "a/Pulumi.x.yml", "Pulumi.yaml", "x.yaml")
        assert [name for name in candidates if re.search(form.strip("/"), name)] == [*candidates[:2]]
        assert manager["datasourceTemplate"] in names
        # RE2 has neither look-around nor back-references.
        assert not any(re.search(r"\(\?(?:[=!]|<[=!])|\\[1-9]", form) for form in manager["matchStrings"])
