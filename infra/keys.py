"""Every key of a stack file that the program reads, besides pools and quotas: what editors complete."""

from __future__ import annotations

from typing import ClassVar

from gpu_ci.gcp.runner_manager import ManagerChoices
from gpu_ci.stack.checks import PROJECT
from gpu_ci.stack.cluster import Cluster
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.github import Github
from gpu_ci.stack.site import GITHUB, MANAGER, SITE, Provider, Site
from pydantic import Field


class Keys(Provider):
    """What a stack file says besides its pools and their quotas."""

    KEYS: ClassVar[dict[str, str]] = {
        "project": PROJECT,
        "site": SITE,
        "github": GITHUB,
        "manager": MANAGER,
        "clusters": CLUSTERS,
    }
    """Where a stack file has each field."""

    site: Site = Field(default=Site(), description="what exists already and pools are placed in")
    github: Github | None = Field(default=None, description="what pools and their jobs need on GitHub")
    manager: ManagerChoices | None = Field(
        default=None, description="the runner manager on Google Cloud; by default none runs there"
    )
    clusters: dict[str, Cluster] = Field(default={}, description="EKS clusters by their names, which pools name")
