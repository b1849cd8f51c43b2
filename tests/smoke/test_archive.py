"""The package as one zip, in which machines get it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import FAKES, ONE_GPU, ROOT, environment

PACKAGE = ROOT / "smoke" / "gpu_smoke"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return the zip, in a folder whose name has a space."""
    path = tmp_path / "a folder" / "gpu_smoke.pyz"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(
            "__main__.py", "import runpy\nrunpy.run_module('gpu_smoke', run_name='__main__', alter_sys=True)\n"
        )
        for file in SOURCES:
            packed.write(file, f"gpu_smoke/{name(file)}")
    return path


@pytest.mark.parametrize(("faults", "code"), [([], 0), ([{"kind": "element", "by": 3}], 1)])
def test_the_zip_runs_from_where_it_lies_and_takes_nothing_from_there(
    archive: Path, faults: list[dict[str, Any]], code: int
) -> None:
    for decoy in ("torch.py", "gpu_smoke.py", "json.py"):
        archive.with_name(decoy).write_text("raise SystemExit('taken from the working directory')\n")
    done = subprocess.run(
        [sys.executable, archive.name, "--json", "-"],
        cwd=archive.parent,
        env={**environment(gpus=ONE_GPU, faults=faults), "PYTHONPATH": str(FAKES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["exit_code"] == code


def name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def modules(file: Path) -> set[str]:
    """Return the modules that a file imports, by the first part of their names."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_only_one_file_imports_torch_and_nothing_else_is_needed() -> None:
    imports = {name(file): modules(file) - sys.stdlib_module_names for file in SOURCES}
    assert {name: found for name, found in imports.items() if found} == {
        "measure/setup.py": {"torch"},
        "measure/nvml.py": {"pynvml"},  # where it is there
    }


def test_the_sources_are_python_3_10_which_images_still_have() -> None:
    for file in SOURCES:
        ast.parse(file.read_text(), name(file), feature_version=(3, 10))
