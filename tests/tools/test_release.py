"""The text of a release, and the tags that it refuses."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import release

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [0.2.0] - 2026-12-01\n\n- two\n\n## [0.1.0]\n\n- one\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_the_text_is_the_section_of_the_version(project: Path) -> None:
    assert release.main("v0.2.0", project) == "- two"


@pytest.mark.parametrize("tag", ["v0.1.0", "0.2.0", "v0.2.0-rc1", "v0.2"])
def test_a_tag_of_another_version_is_refused(project: Path, tag: str) -> None:
    with pytest.raises(SystemExit, match=f"got: {tag}\n  expected: v0.2.0"):
        release.main(tag, project)


@pytest.mark.parametrize("text", ["# Changelog\n", CHANGELOG.replace("- two", ""), CHANGELOG.replace("0.2.0", "0.20")])
def test_a_version_without_text_is_refused(project: Path, text: str) -> None:
    (project / "CHANGELOG.md").write_text(text)
    with pytest.raises(SystemExit, match=r"has no text for 0\.2\.0"):
        release.main("v0.2.0", project)


@pytest.mark.slow
def test_the_wheel_and_the_source_archive_have_what_an_installation_needs(tmp_path: Path) -> None:
    uv = ROOT / ".tools" / "bin" / "uv"
    subprocess.run([uv, "build", "-q", "-o", tmp_path, ROOT], check=True)
    [wheel] = tmp_path.glob("*.whl")
    [source] = tmp_path.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    needed = [
        "gpu_ci/program/deploy.py",
        "gpu_ci/cli/init/templates/files/Pulumi.{{ stack }}.yaml.j2",
        "pulumi_sandbox/engine/module/go.mod",
    ]
    assert [name for name in needed if name not in names] == []
    assert [name for name in names if name.startswith(("tests/", "docs/", "infra/"))] == []
    # A wheel from the source archive is the same: nothing that the build needs is left out of the archive.
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    subprocess.run([uv, "build", "-q", "--wheel", "-o", tmp_path / "again", folder], check=True)
    [again] = (tmp_path / "again").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(names)
