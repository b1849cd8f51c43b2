"""The archives with which a machine boots: equal bytes everywhere, and small enough for one metadata value."""

from __future__ import annotations

import ast
import base64
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from gpu_ci import payload
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.machine.boot import METADATA_VALUE_LIMIT

ROOT = Path(__file__).resolve().parents[2]


def package(folder: Path) -> Path:
    found = folder / "gpu_smoke"
    found.mkdir(parents=True)
    (found / "__init__.py").write_text('"""A check."""\n')
    (found / "__main__.py").write_text("import sys\nprint('checked', *sys.argv[1:], __name__)\n")
    (found / "sub").mkdir()
    (found / "sub" / "__init__.py").write_text("")
    (found / "sub" / "table.json").write_text("{}")
    (found / "notes.txt").write_text("not code")
    return found


def test_the_same_sources_are_the_same_bytes_whenever_and_wherever_they_lie(tmp_path: Path) -> None:
    one, other = package(tmp_path / "a"), package(tmp_path / "b c")
    for file in other.rglob("*.py"):
        os.utime(file, (1, 1))
        file.chmod(0o600)
    assert payload.pack(one) == payload.pack(other)


READ_BY_PEOPLE = '''\
"""A check{0}."""

import sys  # of the standard library{0}

# What is said{0}.
class Wrong(Exception):
    """Nothing else{0}."""

LIMIT = 3
"""Of what{0}."""
TEXT = f"""
  # no comment {{LIMIT}}

"""
JOINED = (
    "one"  # word{0}
    # another{0}
    "two"
)
'''


FOR_PYTHON = '''\
import sys
class Wrong(Exception):
    pass
LIMIT = 3
TEXT = f"""
  # no comment {LIMIT}

"""
JOINED = (
    "one"
    "two"
)
'''


def test_comments_and_docstrings_are_left_out_so_that_a_reworded_one_changes_nothing() -> None:
    assert payload.without_comments(READ_BY_PEOPLE.format("")) == FOR_PYTHON
    assert payload.without_comments(READ_BY_PEOPLE.format(", in other words and with a # of its own")) == FOR_PYTHON


@pytest.mark.parametrize("package", ["smoke/gpu_smoke", "agent/gpu_agent"])
def test_what_is_packed_is_the_same_program(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert len(files) > 30
    for file in files:
        source = file.read_text()
        packed = payload.without_comments(source)
        assert _program(packed) == _program(source), file
        assert len(packed) < len(source) or not source, file


def _program(source: str) -> str:
    """The syntax tree, without statements that do nothing."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                block[:] = [each for each in block if not _does_nothing(each)]
    return ast.dump(tree)


def _does_nothing(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Pass) or is_text


def test_other_sources_are_other_bytes(tmp_path: Path) -> None:
    one, other = package(tmp_path / "a"), package(tmp_path / "b")
    (other / "__main__.py").write_text("print('other')\n")
    assert payload.pack(one) != payload.pack(other)


def test_it_holds_the_python_files_the_data_and_a_start(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(payload.pack(package(tmp_path)))) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == [
            "__main__.py", "gpu_smoke/__init__.py", "gpu_smoke/__main__.py", "gpu_smoke/sub/__init__.py",
            "gpu_smoke/sub/table.json",
        ]  # fmt: skip


def test_it_runs(tmp_path: Path) -> None:
    archive = tmp_path / "gpu_smoke.pyz"
    archive.write_bytes(payload.pack(package(tmp_path / "src")))
    done = subprocess.run([sys.executable, str(archive), "--pool", "l4"], capture_output=True, text=True, check=True)
    assert done.stdout == "checked --pool l4 __main__\n"


def test_the_real_check_fits_what_carries_it_with_room() -> None:
    # Machines get it as one metadata value, in base64; pods from a ConfigMap, whose data may be 1 MiB in all
    # (kubernetes.io, "ConfigMaps") and is counted as bytes.
    packed = payload.smoke_archive()
    assert 20_000 < len(packed) < METADATA_VALUE_LIMIT * 3 / 4
    assert len(base64.b64decode(packed)) < 2**20 / 2
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed))) as archive:
        assert {"gpu_smoke/__init__.py", "gpu_smoke/judge/speed.py", "gpu_smoke/data/gpus.py"} < {*archive.namelist()}


def test_a_missing_check_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    payload._archive.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ArgsError, match="gpu-ci: the gpu_smoke package is not installed"):
        payload.smoke_archive()
