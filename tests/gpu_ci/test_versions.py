"""Pins that are said in two places say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gpu_ci import versions

ROOT = Path(__file__).resolve().parents[2]


def test_the_plugin_has_the_version_of_the_distribution() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == versions.PACKAGE


def test_the_torch_a_machine_gets_is_the_one_the_tests_run_with() -> None:
    assert f"torch=={versions.TORCH} " in (ROOT / "locks/torch.lock").read_text()


def test_the_image_is_one_build_and_no_family() -> None:
    assert "/family/" not in versions.GCE_IMAGE
    assert versions.GCE_IMAGE.rpartition("-v")[2].isdigit()


def test_the_docker_client_of_builds_speaks_the_api_of_cloud_builds_old_engine() -> None:
    """Clients 29.0 to 29.3 speak Docker API 1.44 and newer, and Cloud Build's engine 1.41 and older (versions.py)."""
    image, _, tag = versions.DOCKER_IMAGE.partition(":")
    major, minor, _ = tag.removesuffix("-cli").split(".")
    assert (image, tag.endswith("-cli")) == ("docker", True)
    assert not (29, 0) <= (int(major), int(minor)) <= (29, 3)
