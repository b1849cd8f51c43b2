"""Fixtures: the rule file, and real programs of Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from gpu_ci.monitoring.alerts import Objectives, rule_file
from gpu_ci.monitoring.kubernetes import rule_groups

from tests.conftest import ROOT

HOME = ROOT / ".monitoring"


def program(name: str) -> str:
    """Return the path of a program. Without it, the test is skipped."""
    path = HOME / "usr" / "bin" / name
    if not path.exists():
        pytest.skip(f"{name} is not in .monitoring; run: make test-monitoring")
    return str(path)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rules with the default objectives, and those of clusters."""
    file = tmp_path / "gpu-ci.rules.yml"
    groups = [*rule_file(Objectives(), "docs/")["groups"], *rule_groups("docs/")]
    file.write_text(yaml.safe_dump({"groups": groups}))
    return file
