"""The cache of shapes: what was read is not read again, and a damaged cache costs nothing but time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.sdk.reader import SdkReader
from pulumi_sandbox.providers.sdk.shapes import Shapes

TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
INPUTS = {"machineType": "g2-standard-8", "disks": [{"boot": True, "sourceImage": "debian-12"}], "bad": 1}


def test_what_was_read_once_is_answered_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Shapes.for_package("gcp", tmp_path).check(TEMPLATE, INPUTS, coerces_scalars=True)

    def refuse(*_: Any) -> None:
        raise AssertionError("the SDK was read again")

    for name in ("tokens", "resource", "object"):
        monkeypatch.setattr(SdkReader, name, refuse)
    again = Shapes.for_package("gcp", tmp_path).check(TEMPLATE, INPUTS, coerces_scalars=True)
    assert again == first
    assert [one.name for one in tmp_path.iterdir()] == [f"shapes-gcp-{SdkReader('gcp').version}.json"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}', "broken type", "another sdk", "another format"])
def test_a_damaged_cache_is_thrown_away_and_rebuilt(tmp_path: Path, damage: str) -> None:
    Shapes.for_package("github", tmp_path).check("github:index/team:Team", {"name": "t"})
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    stored = json.loads(whole)
    match damage:
        case "broken type":
            stored["resources"]["github:index/team:Team"]["inputs"]["name"] = [0, "strng"]
        case "another sdk":
            stored["stamp"] = "0.0.1"
            stored["resources"]["github:index/team:Team"]["inputs"] = {}
        case "another format":
            stored["format"] = 0
            stored["resources"]["github:index/team:Team"]["inputs"] = {}
    path.write_text(json.dumps(stored) if damage.startswith(("broken", "another")) else damage)
    assert Shapes.for_package("github", tmp_path).check("github:index/team:Team", {"name": "t"}).problems == []
    assert path.read_text() == whole
