"""The systems Google's installer knows, by the names of their images."""

from __future__ import annotations

import pytest

from tests.gpu_ci.gcp.test_runner_pool_args import problems

INSTALLABLE = (
    "ubuntu-os-cloud/ubuntu-2204-lts", "ubuntu-os-cloud/ubuntu-2404-lts-amd64",
    "ubuntu-os-cloud/ubuntu-minimal-2404-lts-amd64", "debian-cloud/debian-12", "debian-cloud/debian-13",
    "rhel-cloud/rhel-8", "rhel-cloud/rhel-9", "rhel-cloud/rhel-10", "rocky-linux-cloud/rocky-linux-8",
    "rocky-linux-cloud/rocky-linux-9-optimized-gcp", "rocky-linux-cloud/rocky-linux-10",
)  # fmt: skip
TOO_OLD = ("debian-cloud/debian-11", "rhel-cloud/rhel-7", "rocky-linux-cloud/rocky-linux-7")


def texts(name: str) -> list[str]:
    project, _, family = name.partition("/")
    image = f"projects/{project}/global/images/family/{family}"
    return [f"{each.path}: {each.text}" for each in problems(driver={"source": "installer"}, image=image)]


@pytest.mark.parametrize("name", INSTALLABLE)
def test_a_system_the_installer_knows_is_accepted(name: str) -> None:
    assert texts(name) == []


@pytest.mark.parametrize("name", TOO_OLD)
def test_a_system_it_does_not_know_is_refused(name: str) -> None:
    assert texts(name) == ["image: has a system that cuda_installer does not support"]
