"""A scaffolded kind of pool passes the contract tests of kinds before anybody edits it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gpu_ci import test_pool_kinds
from tools.scaffold import __main__ as scaffold

pytestmark = pytest.mark.usefixtures("short_definitions")


def test_a_new_kind_passes_the_contract_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "night_runners"
    folder.mkdir()
    files = scaffold.files("pool-kind", "night-runners")
    assert sorted(files) == ["__init__.py", "args.py", "component.py", "kind.py"]
    for name, text in files.items():
        (folder / name).write_text(text)
    ruff = Path(sys.executable).with_name("ruff")
    settings = ["--config", ROOT / "pyproject.toml", "--ignore", "INP"]
    subprocess.run([ruff, "check", "-q", *settings, folder], check=True)
    subprocess.run([ruff, "format", "-q", "--check", *settings[:2], folder], check=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = importlib.import_module("night_runners.kind").KIND
    assert kind.component.__name__ == "NightRunners"
    checks = {name: check for name, check in vars(test_pool_kinds).items() if name.startswith("test_")}
    assert len(checks) > 8
    for check in checks.values():
        check(kind)


def test_an_existing_folder_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scaffold, "ROOT", tmp_path)
    (tmp_path / "components/gpu_ci/kinds").mkdir(parents=True)
    assert scaffold.main(["pool-kind", "night-runners"]) == 0
    assert len([*(tmp_path / "components/gpu_ci/kinds/night_runners").iterdir()]) == 4
    assert scaffold.main(["pool-kind", "night-runners"]) == 1
