"""`make build`: mistakes in its options, without a sandbox."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tools import build

POOLS = {"gpu-tests": {"kind": "cloud-build-gpu"}, "l4": {"kind": "gce-runners"}}


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--folder", "missing", "build: --folder is not a folder\n  got: missing\n"),
        ("--folder", "empty", "build: the sources cannot be packed: empty has no file to send\n  got: empty\n"),
        ("--pool", "l4", "build: no such pool of kind cloud-build-gpu: l4\n  got: gpu-tests\n"),
    ],
)
def test_a_wrong_option_submits_no_build(
    option: str,
    value: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in (build.ENDPOINT, "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    monkeypatch.setattr(build, "_pools", lambda _: POOLS)
    monkeypatch.setattr(build, "Project", None)
    monkeypatch.setattr("sys.argv", ["build", option, value])
    assert build.main() == 2
    printed = capsys.readouterr().err
    assert printed.startswith(problem)
    assert [line.partition(": ")[0] for line in printed.splitlines()[1:]] == ["  got", "  expected", "  hint"]


def test_the_sources_are_those_that_gcloud_submits(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name, text in ((".gitignore", ".venv/\n"), (".git/HEAD", "ref"), (".venv/torch", "large"), ("kept.py", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with tarfile.open(fileobj=io.BytesIO(build._packed(tmp_path))) as archive:
        assert archive.getnames() == ["kept.py"]
    (tmp_path / ".gcloudignore").write_text("kept.py\n.git/\n.gitignore\n.gcloudignore\n")
    with tarfile.open(fileobj=io.BytesIO(build._packed(tmp_path))) as archive:
        assert archive.getnames() == [".venv", ".venv/torch"]
