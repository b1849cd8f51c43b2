"""Pins that are said in two places say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from gpu_ci import versions

ROOT = Path(__file__).resolve().parents[2]


def test_the_plugin_has_the_version_of_the_distribution() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == versions.PACKAGE


def test_the_torch_a_machine_gets_is_the_one_the_tests_run_with() -> None:
    assert f"torch=={versions.TORCH} " in (ROOT / "agent/gpu_agent/torch.lock").read_text()


def test_the_image_is_one_build_and_no_family() -> None:
    assert "/family/" not in versions.GCE_IMAGE
    assert versions.GCE_IMAGE.rpartition("-v")[2].isdigit()


# Images without a digest, and the reason.
BY_TAG = {
    "EC2_IMAGE": "a parameter of AWS: pulumi up resolves it, and the launch template names the build",
    "GCE_IMAGE": "a boot image of Compute Engine: one build, which Google does not change",
    "GCLOUD_BUILDER": "Cloud Build has a copy on its workers, and another version would be downloaded",
    "KUEUE_IMAGE": "no source at hand has the digest of this release",
}


def test_every_image_has_a_digest_but_those_with_a_reason() -> None:
    images = {name: getattr(versions, name) for name in dir(versions) if name.endswith(("_IMAGE", "_BUILDER"))}
    pinned = {name for name, image in images.items() if re.fullmatch(r"[^@]+:[^@:]+@sha256:[0-9a-f]{64}", image)}
    assert {*images} - pinned == {*BY_TAG}


@pytest.mark.parametrize(
    "file", [*ROOT.glob("images/*/Dockerfile"), ROOT / "manager/Dockerfile"], ids=lambda file: file.parent.name
)
def test_every_base_image_of_this_repository_has_a_digest(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if re.match("ARG (BASE|PYTHON)=", line)]
    assert lines
    assert all(re.search("@sha256:[0-9a-f]{64}$", line) for line in lines)


def test_the_docker_client_of_builds_speaks_the_api_of_cloud_builds_old_engine() -> None:
    """Clients 29.0 to 29.3 speak Docker API 1.44 and newer, and Cloud Build's engine 1.41 and older (versions.py)."""
    image, _, tag = versions.DOCKER_IMAGE.partition("@")[0].partition(":")
    major, minor, _ = tag.removesuffix("-cli").split(".")
    assert (image, tag.endswith("-cli")) == ("docker", True)
    assert not (29, 0) <= (int(major), int(minor)) <= (29, 3)
