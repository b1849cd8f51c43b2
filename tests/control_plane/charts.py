"""Renders Kueue's chart, which is in its Go module, and ARC's charts, from a clone of its repository."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

ARC = os.environ.get("ARC", "")
needs_arc = pytest.mark.skipif(not ARC, reason="ARC names no clone of actions/actions-runner-controller")


def module(path: str) -> Path:
    """Return the folder of a Go module of tools/kwok."""
    command = ["go", "list", "-C", ROOT / "tools" / "kwok", "-m", "-f", "{{.Dir}}", path]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def name(release: Mapping[str, Any]) -> str:
    """Return the name of a release's chart."""
    return str(release["chart"].partition("@")[0].rpartition("/")[2])


def rendered(release: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a release."""
    chart = name(release)
    path = module("sigs.k8s.io/kueue") / "charts" / chart if chart == "kueue" else Path(ARC) / "charts" / chart
    assert yaml.safe_load((path / "Chart.yaml").read_text())["version"] == release["version"], path
    asked = {key: release[key] for key in ("name", "namespace", "values")} | {"chart": str(path.absolute())}
    program = ROOT / ".helm" / "helm"
    ended = subprocess.run([program], input=json.dumps(asked), capture_output=True, text=True, check=True)
    answer = json.loads(ended.stdout)
    assert "error" not in answer, answer
    return [found for found in map(yaml.safe_load, answer["manifests"]) if found]
